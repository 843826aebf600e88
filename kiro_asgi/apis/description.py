"""The description of everything that is served, for programs: ``/openapi.json``.

It says nothing of its own: paths are those of the manifests, bodies are read off the classes that read them, errors are
made by the API that sends them, and the words are those of the operations.  A client API from outside is in it, too.

Source: https://spec.openapis.org/oas/v3.1.1
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from attrs import define

from kiro_asgi._version import __version__
from kiro_asgi.asgi.routing import PROBES
from kiro_asgi.dialects.base import DescribedDialect, Dialect, OperatingDialect
from kiro_asgi.dialects.manifest import ANSWER, CONSTANT, REFUSE, WEBSOCKET, DialectManifest, Endpoint, RoutedDialect
from kiro_asgi.dialects.schema import BodyShape, SchemaWriter
from kiro_asgi.errors import RequestError
from kiro_asgi.named import imported
from kiro_asgi.wire.json import loads

_NAME: Final = re.compile(r"\{(\w+)(?::path)?\}")
_JSON: Final = "application/json"
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_BEARER: Final = b"authorization"
_AS_IT_HAS_IT: Final = "The answer, as this API has it."

Json = dict[str, Any]


@define(eq=False, slots=False)
class Description:
    """The description of one application."""

    _apis: Mapping[DialectManifest, Dialect]
    _own: tuple[Endpoint, ...]
    """Paths of no single client API."""

    _operations: type[Any]
    """The class whose methods are the operations at those."""

    _key_headers: tuple[bytes, ...]
    _key_parameters: tuple[str, ...]
    _needs_key: bool

    def document(self, base: str) -> Json:
        """The whole description, for a client that has reached the gateway at *base*."""
        return {**self._document, "servers": [{"url": base}]}

    @cached_property
    def _document(self) -> Json:
        paths: dict[str, Json] = {}
        schemas: dict[str, Json] = {}
        for api, dialect in self._apis.items():
            writer = SchemaWriter(api.name)
            for endpoint, route in zip(api.endpoints, api.routes, strict=True):
                own = dialect.at(endpoint, "") if isinstance(dialect, RoutedDialect) else dialect
                for verb in (endpoint.verbs or ("",)) if endpoint.operation != REFUSE else ():
                    described = _ApiEndpoint(api, own, endpoint, verb, writer).described()
                    _put(paths, route, verb, {"tags": [api.title], **described})
            schemas |= writer.components
        for endpoint in self._own:
            said = {"summary": _words(getattr(self._operations, endpoint.operation)), **_answered(_JSON)}
            _put(paths, endpoint, "", said | ({"security": []} if endpoint in PROBES else {}))
        return {
            "openapi": "3.1.0",
            "info": {"title": "kiro-asgi", "version": __version__},
            "security": [*self._security()],
            "tags": [{"name": api.title} for api in self._apis],
            "paths": paths,
            "components": {"schemas": schemas, "securitySchemes": self._schemes},
        }

    @cached_property
    def _schemes(self) -> Json:
        """Places in which clients show a key."""
        headers = {
            name.decode(): {"type": "http", "scheme": "bearer"}
            if name == _BEARER
            else {"type": "apiKey", "in": "header", "name": name.decode()}
            for name in self._key_headers
        }
        parameters = {
            f"{name}-parameter": {"type": "apiKey", "in": "query", "name": name} for name in self._key_parameters
        }
        return headers | parameters

    def _security(self) -> Iterator[Json]:
        if not self._needs_key:
            yield {}
        yield from ({name: []} for name in self._schemes)


@define
class _ApiEndpoint:
    """One operation of a client API."""

    _api: DialectManifest
    _dialect: Dialect
    _endpoint: Endpoint
    _verb: str
    _schemas: SchemaWriter

    def described(self) -> Json:
        """All of it but where it is."""
        endpoint, error = self._endpoint, self._dialect.error(_EXAMPLE, "req_0123456789abcdefghijklmn")
        refused = {"description": "An error of this API.", "content": _content((error.content_type,), error.body)}
        if endpoint.method == WEBSOCKET:
            responses = {"101": {"description": "A WebSocket, for this API's messages."}, "default": refused}
            return {"summary": self._summary(), "responses": responses}
        answer = {"description": _AS_IT_HAS_IT, "content": self._answer()}
        return {"summary": self._summary(), **self._asked(), "responses": {"200": answer, "default": refused}}

    @property
    def _body(self) -> BodyShape | None:
        if not isinstance(self._dialect, DescribedDialect):
            return None
        return self._dialect.bodies.get(self._verb or self._endpoint.operation)

    def _summary(self) -> str:
        """The first sentence of the operation's own words."""
        name, dialect = self._endpoint.operation, self._dialect
        if self._verb:
            return f"Run {self._verb} with a model."
        if name == CONSTANT:
            return "Answer with what is always the same."
        if isinstance(dialect, OperatingDialect) and name in dialect.operations:
            return _words(dialect.operations[name]) or name
        place = f"the manifest of the client API {self._api.name!r} has operations"
        return _words(getattr(imported(self._api.operations, place, code="config.manifest"), name))

    def _asked(self) -> Json:
        """The body of a request."""
        if self._endpoint.method not in _WITH_BODY:
            return {}
        schema = {} if self._body is None else self._schemas.body(self._body)
        kind = "*/*" if self._body is None else _JSON
        return {"requestBody": {"content": {kind: {"schema": schema}}, "required": self._body is not None}}

    def _answer(self) -> Json:
        """Content types of an answer."""
        if self._endpoint.operation == CONSTANT:
            return _content((self._endpoint.content_type,), self._endpoint.content)
        traits, body = self._dialect.traits, self._body
        if body is not None and body.streamed:
            return _content(body.streamed)
        streams = self._endpoint.operation == ANSWER
        return _content((traits.body_type, *([traits.stream_type] if streams else [])))


_EXAMPLE: Final = RequestError("messages: required field missing", code="missing_required_parameter", param="messages")
"""An error as clients cause it, for its form."""


def _content(kinds: tuple[bytes, ...], example: bytes = b"") -> Json:
    """The content of a response; *example* is a whole body of it."""
    shown = {} if not example else {"example": loads(example) if b"json" in kinds[0] else example.decode("latin-1")}
    return {kind.decode(): {"schema": {}, **shown} for kind in kinds}


def _answered(kind: str) -> Json:
    return {"responses": {"200": {"description": "The answer.", "content": {kind: {"schema": {}}}}}}


def _words(operation: Any) -> str:
    """The first paragraph of an operation's docstring, in one line."""
    return " ".join((operation.__doc__ or "").strip().partition("\n\n")[0].split())


def _put(paths: dict[str, Json], endpoint: Endpoint, verb: str, said: Json) -> None:
    """Put what is *said* of an endpoint, and of a *verb* of it, at its path; one that is there already stays."""
    path = _NAME.sub(r"{\1}", endpoint.path) + (f":{verb}" if verb else "")
    method = "get" if endpoint.method == WEBSOCKET else endpoint.method.lower()
    names = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _NAME.findall(endpoint.path)
    ]
    identified = {"operationId": "_".join(re.findall(r"\w+", f"{method} {path}"))}
    paths.setdefault(path, {}).setdefault(method, {**identified, **({"parameters": names} if names else {}), **said})
