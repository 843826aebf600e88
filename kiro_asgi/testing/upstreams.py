"""The laws of a service."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final

from kiro_asgi.errors import KiroAsgiError, RequestError, UpstreamError
from kiro_asgi.model.events import Delta
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.stages.base import Pipeline
from kiro_asgi.testing.cuts import check_cuts, joined
from kiro_asgi.testing.hostile import RUBBISH
from kiro_asgi.testing.samples import prompts
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, ModelPage, Rendered, Upstream
from kiro_asgi.upstreams.manifest import Configured, Manifest

_SECRET: Final = "secret-that-must-not-be-shown"

_PLACES: Final = 400
"""Places at which an answer breaks off."""


def check_upstream(
    manifest: Manifest[Any],
    answer: bytes,
    content_type: str,
    *,
    model: ModelCard | None = None,
    models: bytes = b"",
    settings: Any = None,
    may_end_at: Container[int] = (),
) -> Sequence[Delta]:
    """Fail unless a service keeps the laws that `kiro_asgi.Upstream` states, and return the deltas of the answer.

    Prompts with one of everything become requests, or are refused with the place; the secret stands in no address and
    no body; an answer is read the same however it is cut; one that breaks off is an error, unless all that it says has
    come; rubbish is an error of the gateway's, whatever reads it.

    Args:
        manifest: The service's.
        answer: A whole streamed answer of the service, with text in it.
        content_type: Of that.
        model: What is asked for; by default a model that takes images.
        models: A list of models as the service gives it; empty where none is to be read.
        settings: An instance of the manifest's class; by default with a key, and with all else as it is.
        may_end_at: Numbers of bytes after which the answer may be over, for a service that has no word for its end:
            behind each of its frames.  Anywhere else it must not pass for a whole one.

    Raises:
        AssertionError: A law is broken; the message says which, and by what.
    """
    given = manifest.settings().keyed(_SECRET) if settings is None else settings
    configured = Configured(manifest.name, manifest, given)
    configured.check()
    setup = configured.make()
    upstream, card = setup.upstream, model or ModelCard("some-model", context_window=200_000)
    for number, prompt in enumerate(prompts(card.id)):
        _check_request(upstream, prompt, card, number)
    deltas: Sequence[Delta] = check_cuts(lambda: upstream.decoder(content_type), answer)
    assert deltas, "the answer has nothing in it"
    _check_breaking_off(upstream, answer, content_type, deltas, may_end_at)
    _check_rubbish(upstream, content_type)
    if models:
        page = upstream.parse_models(models)
        assert isinstance(page, ModelPage) and page.cards, f"the list of models has none: {page!r:.200}"
    return deltas


def _credential() -> Credential:
    return Credential(CredentialKind.API_KEY, _SECRET, source="test")


def _check_request(upstream: Upstream, prompt: Prompt, card: ModelCard, number: int) -> None:
    try:
        rendered = upstream.render(prompt, card, _credential())
    except RequestError as error:
        assert error.message, f"prompt {number} is refused without a message"
        return
    assert isinstance(rendered, Rendered), f"render gives {type(rendered).__name__}, not a Rendered"
    request = rendered.request
    assert _SECRET not in request.url, f"the secret is in the address of prompt {number}, where logs show it"
    assert _SECRET.encode() not in request.body, f"the secret is in the body of prompt {number}"
    for name, value in request.headers:
        assert isinstance(name, bytes) and isinstance(value, bytes), f"a header of prompt {number} is no bytes"
        assert not {*name, *value} & {*b"\r\n\x00"}, f"the header {name!r} of prompt {number} has a line end"


def _read(upstream: Upstream, content_type: str, data: bytes) -> list[Delta]:
    stage: Pipeline[bytes, Delta] = Pipeline(*upstream.decoder(content_type))
    return joined([*stage.feed([data]), *stage.flush()])


def _check_breaking_off(
    upstream: Upstream, answer: bytes, content_type: str, whole: Sequence[Delta], may_end_at: Container[int]
) -> None:
    """An answer that breaks off is an error, or all of it had come."""
    step = max(1, len(answer) // _PLACES)
    for size in chain([0], range(1, len(answer), step)):
        try:
            found = _read(upstream, content_type, answer[:size])
        except UpstreamError:
            continue
        except Exception as error:
            raise AssertionError(f"an answer that breaks off after {size} bytes is {error!r}") from error
        content = [each for each in found if each in whole]
        assert len(content) == len(whole) or size in may_end_at, (
            f"an answer that breaks off after {size} of {len(answer)} bytes passes for a whole one; "
            "raise an UpstreamProtocolError from flush where its end has not come"
        )


def _check_rubbish(upstream: Upstream, content_type: str) -> None:
    readers: Mapping[str, Callable[[bytes], object]] = {
        "an answer": partial(_read, upstream, content_type),
        "a list of models": upstream.parse_models,
        **{f"a refusal with {status}": partial(_fault, upstream, status) for status in _STATUSES},
    }
    for data in RUBBISH:
        for what, read in readers.items():
            try:
                read(data)
            except KiroAsgiError:
                continue
            except AssertionError:
                raise
            except Exception as error:
                raise AssertionError(f"{what} that is {data[:20]!r} is {error!r}, not an error of ours") from error


_STATUSES: Final = (400, 401, 402, 403, 404, 408, 413, 429, 500, 502, 503, 504, 529)


def _fault(upstream: Upstream, status: int, body: bytes) -> None:
    error = upstream.fault(status, [(b"content-type", b"application/json")], body)
    assert isinstance(error, KiroAsgiError), f"fault gives {type(error).__name__} for {status}, not an error of ours"
    assert error.message, f"fault gives an error without a message for {status}"
