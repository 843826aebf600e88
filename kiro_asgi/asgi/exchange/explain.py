"""A request without its answer: which service would be asked, by which rules, with what loss, and with which payload.

No service is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from attrs import evolve, frozen

from kiro_asgi.asgi.exchange.facts import PassthroughRequest
from kiro_asgi.asgi.exchange.model_routes import AS_FUNCTION, PHASE, STRICT, UNCITED, VERBOSITY, Models, Provider
from kiro_asgi.asgi.exchange.passthrough import Way, reason_to_translate, render_passthrough
from kiro_asgi.asgi.exchange.providers import keyed, new_providers, new_registry
from kiro_asgi.asgi.exchange.translated import OLDEST_DROPPED
from kiro_asgi.asgi.kept.extensions import stages_of
from kiro_asgi.asgi.kept.memory import CUT_ANSWER
from kiro_asgi.asgi.kept.server_tools import HOSTED_DROPPED
from kiro_asgi.asgi.routing import new_dialects
from kiro_asgi.config import Settings
from kiro_asgi.config.installed import DIALECTS, offered
from kiro_asgi.dialects.base import Dialect, ParsedRequest
from kiro_asgi.dialects.manifest import DialectManifest, dialects_in
from kiro_asgi.dialects.passthrough import TransparentDialect
from kiro_asgi.dialects.unread import RULES as DIALECT_RULES
from kiro_asgi.errors import ConfigError, RequestError
from kiro_asgi.model import handling
from kiro_asgi.model.notes import Note, holding
from kiro_asgi.model.own_lines import RULE as OWN_LINE
from kiro_asgi.model.rules import CATALOGUE, Rule
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.stages.own import OwnStage
from kiro_asgi.upstreams.base import PLACEHOLDER, ModelCard, Rendered, Upstream
from kiro_asgi.upstreams.manifest import set_up
from kiro_asgi.upstreams.registry import Registry, Target
from kiro_asgi.wire.json import loads

GATEWAY_RULES: Final = (
    HOSTED_DROPPED,
    AS_FUNCTION,
    UNCITED,
    PHASE,
    VERBOSITY,
    STRICT,
    *handling.RULES,
    OLDEST_DROPPED,
    CUT_ANSWER,
    CATALOGUE[OWN_LINE],
)
"""Adaptations that the gateway makes for every service; the rules of each service are its upstream's."""


def guess(body: bytes, apis: Sequence[DialectManifest]) -> DialectManifest:
    """Of *apis* the one that *body* looks most like; of several, the first.

    Raises:
        KiroAsgiError: It is not JSON.
    """
    request = loads(body)
    if not isinstance(request, dict):
        return apis[0]
    return max(apis, key=lambda api: api.likeness(request))


"""Stands in for every credential, so that no real one is shown."""


@frozen
class Choice:
    """The upstream and the model that a request goes to."""

    provider: Provider
    name: str
    """By which that upstream's model was asked for."""

    model: ModelCard
    built_in: bool
    """Whether the model is known without asking; if not, *model* is an ordinary one of its name."""


@frozen
class Upstreams:
    """All that can be asked with the settings, and the well-known ones without a credential, too."""

    _registry: Registry
    """Of those that are set up."""

    _providers: Mapping[str, Provider]

    @classmethod
    def create(cls, settings: Settings) -> Upstreams:
        """Build them from settings; reads no file, and opens no connection.

        Raises:
            ConfigError: One of them cannot be used.
        """
        registry = new_registry(settings, [each.name for each in set_up(settings)])
        return cls(registry, new_providers(keyed(settings, PLACEHOLDER.secret), Clocks(), ()))

    def hint(self, choice: Choice) -> str:
        """A warning where the gateway itself would not make *choice*; empty where it would."""
        if choice.provider.name not in self._registry.upstreams:
            return f"The upstream {choice.provider.name} is not set up: the gateway would not ask it."
        prefix = choice.name.partition("/")[0]
        if self._registry.hint(choice.name):
            return f"The upstream {prefix} is not set up. To see what it would be asked: --upstream {prefix}"
        return ""

    def choose(self, name: str, upstream: str | None) -> Choice:
        """Choose the upstream that is asked first for the model of this name: *upstream*, or the one it means.

        Raises:
            ConfigError: There is no such upstream.
        """
        models = Models(self._registry, self._providers)
        meant = (*models.known(name), models.otherwise(name))[0]
        target = meant if upstream is None else Target(upstream, name.removeprefix(f"{upstream}/"))
        provider = self._providers.get(target.upstream)
        if provider is None:
            known = ", ".join(self._providers)
            raise ConfigError(f"there is no upstream by the name of {target.upstream}; there are {known}")
        return _choice(provider, target.model)


def _choice(provider: Provider, name: str) -> Choice:
    catalogue = provider.catalogue
    if (known := catalogue.known(name)) is not None:
        return Choice(provider, name, known, built_in=True)
    model = provider.setup.named(provider.setup.upstream.normalise(catalogue.meant(name)))
    return Choice(provider, name, model, built_in=False)


ATTACHED: Final = frozenset(("bytes", "data", "file_data", "url"))
"""Members that hold base64 or a data URL, in the words of one upstream or another."""

BASE64: Final = re.compile(r"((?:data:[^,]{0,200};base64,)?)([A-Za-z0-9+/_-]{100,}=*)")
"""Base64 that is too long to be shown, and what stands before it in a data URL."""


def explain(
    body: bytes, settings: Settings, api: str | None, upstream: str | None, window: int | None
) -> dict[str, Any]:
    """Report what the gateway makes of *body*, ready for JSON.

    Raises:
        ConfigError: There is no such *api* or *upstream*, or the settings cannot be used.
        KiroAsgiError: It would be refused.
    """
    (manifest, dialect), upstreams = _api(body, settings, api), Upstreams.create(settings)
    parsed, refusal = _read(dialect, body)
    choice = upstreams.choose(parsed.prompt.model, upstream)
    if window is not None:
        choice = evolve(choice, model=evolve(choice.model, context_window=window))
    stages = tuple(stages_of(settings))
    way = _way(dialect, body, parsed, choice, settings, stages)
    reason = None if way is None else reason_to_translate(way)
    asked = None
    try:
        asked = _Asked.create(parsed, refusal, choice)
    except RequestError:  # a service of the API may judge it
        if way is None or reason is not None:
            raise
    if asked is not None and way is not None:
        reason = reason_to_translate(way.rendered(asked.parsed, asked.rendered, asked.left_out, False))
    if asked is None or (way is not None and reason is None):
        assert way is not None, "a request that only its own service takes, of an API that has none"
        fields = _as_it_is(way, parsed, choice)
    else:
        notes = _rows(holding(dialect.notes(body, parsed), asked.upstream.traits.api), _rules_of(manifest))
        fields = _adapted(asked, choice, notes)
    fields["translated_because"] = {} if reason is None else {"reason": reason.name, "what": reason.what}
    fields["stages"] = [stage.place for stage in stages]
    facts = {"model": choice.model.id, "built_in": choice.built_in, "hint": upstreams.hint(choice)}
    return {"ok": True, "api": manifest.name, "upstream": choice.provider.name, **facts, **fields}


def _api(body: bytes, settings: Settings, name: str | None) -> tuple[DialectManifest, Dialect]:
    """The client API of this *name*, be it served or only installed; without a name that which *body* looks like."""
    if name is not None and name in offered(DIALECTS) and name not in dict(dialects_in(type(settings))):
        settings = settings.with_defaults(DIALECTS.installed(name))
    apis = new_dialects(settings)
    manifest = guess(body, tuple(apis)) if name is None else next((api for api in apis if api.name == name), None)
    if manifest is None:
        raise ConfigError(f"{name}.enabled: the client API is switched off", code="explain.api")
    return manifest, apis[manifest]


def _read(dialect: Dialect, body: bytes) -> tuple[ParsedRequest, RequestError | None]:
    """What *body* asks, and why it is refused, if it is.

    Raises:
        RequestError: It is refused, and could go nowhere as it is.
    """
    try:
        return dialect.parse(body), None
    except RequestError as refusal:
        if not dialect.traits.transparent:
            raise
        return cast(TransparentDialect, dialect).head(body, refusal), refusal


def _way(
    dialect: Dialect,
    body: bytes,
    parsed: ParsedRequest,
    choice: Choice,
    settings: Settings,
    stages: tuple[OwnStage, ...],
) -> Way | None:
    """The request on its way; ``None`` where nothing of its API ever goes on as it is."""
    if not dialect.traits.transparent:
        return None
    passed = cast(TransparentDialect, dialect).passed(body)
    return Way.to(
        choice.provider,
        choice.model,
        dialect=dialect,
        body=None if passed is None else passed.body,
        misspelt=passed is not None and passed.misspelt,
        stream=settings.stream,
        stages=stages,
        parsed=parsed,
    )


def _as_it_is(way: Way, parsed: ParsedRequest, choice: Choice) -> dict[str, Any]:
    assert way.body is not None, "a request of which a part is the gateway's"
    source = PassthroughRequest(dialect=cast(TransparentDialect, way.dialect), body=way.body, headers=())
    upstream = choice.provider.asking(choice.model)
    body = render_passthrough(source, parsed, upstream, choice.model, PLACEHOLDER).request.body
    sizes = {"bytes": len(body)}
    return {
        "as_it_is": True,
        "rules": [],
        "tool_names": {},
        "argument_names": {},
        "sizes": sizes,
        "payload": _elided(loads(body)),
    }


def _rules_of(api: DialectManifest) -> Declared:
    return Declared(f"the client API {api.name}", "DialectManifest.rules", (*DIALECT_RULES, *api.rules))


@frozen
class _Asked:
    """What the service would be asked."""

    parsed: ParsedRequest
    upstream: Upstream
    left_out: tuple[Note, ...]
    rendered: Rendered

    @classmethod
    def create(cls, parsed: ParsedRequest, refusal: RequestError | None, choice: Choice) -> _Asked:
        """Translate a request.

        Raises:
            RequestError: It cannot be: by the *refusal* of its reader, or the service's.
        """
        if refusal is not None:
            raise refusal
        upstream = choice.provider.asking(choice.model, parsed.prompt.demands)
        prompt, left_out = choice.provider.adapted(parsed.prompt, choice.name, choice.model, upstream)
        rendered = upstream.render(prompt, choice.model, PLACEHOLDER)
        return cls(evolve(parsed, prompt=prompt), upstream, left_out, rendered)


def _adapted(asked: _Asked, choice: Choice, rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    rendered, service = (
        asked.rendered,
        Declared(f"the upstream {choice.provider.name}", "Manifest.rules", choice.provider.setup.rules),
    )
    return {
        "as_it_is": False,
        "rules": [
            *rows,
            *_rows(asked.left_out, Declared("the gateway", "GATEWAY_RULES", GATEWAY_RULES)),
            *_rows(rendered.notes, service),
        ],
        "tool_names": dict(rendered.tool_names),
        "argument_names": dict(rendered.argument_names),
        "sizes": dict(asked.upstream.statistics(rendered)),
        "payload": _elided(rendered.document),
    }


@frozen
class Declared:
    """The rules that the notes of one part may name."""

    whose: str
    """The part, in words."""

    place: str
    """Where it declares them."""

    rules: tuple[Rule, ...]


def _rows(notes: Iterable[Note], declared: Declared) -> Iterator[dict[str, Any]]:
    """A row for each of *notes*.

    Raises:
        ConfigError: One names a rule that is declared nowhere, so nobody knows what it does, and what is lost by it.
    """
    table = {rule.name: rule for rule in declared.rules}
    for note in notes:
        if (rule := table.get(note.rule)) is None:
            message = f"{declared.whose} notes the rule {note.rule!r:.60}, which it does not declare"
            raise ConfigError(f"{message}; add it to {declared.place}", code="explain.rule")
        row = {"rule": rule.name, "times": note.times, "place": note.place}
        yield {**row, "loss": rule.loss.value, "what": rule.what}


def _elided(value: Any, name: str = "") -> Any:
    """*value*, the member of this *name*, without the bytes of images and documents."""
    if isinstance(value, Mapping):
        return {key: _elided(part, key) for key, part in value.items()}
    if isinstance(value, list):
        return [_elided(part) for part in value]
    found = BASE64.fullmatch(value) if name in ATTACHED and isinstance(value, str) else None
    return f"{found[1]}… {len(found[2])} characters of base64 …" if found else value
