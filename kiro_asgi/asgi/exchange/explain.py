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
from kiro_asgi.asgi.exchange.passthrough import Reason, reason_to_translate, render_passthrough
from kiro_asgi.asgi.exchange.providers import keyed, new_providers, new_registry
from kiro_asgi.asgi.exchange.translated import OLDEST_DROPPED
from kiro_asgi.asgi.kept.extensions import stages_of
from kiro_asgi.asgi.kept.memory import CUT_ANSWER
from kiro_asgi.asgi.kept.server_tools import HOSTED_DROPPED
from kiro_asgi.asgi.routing import new_dialects
from kiro_asgi.config import Settings
from kiro_asgi.config.installed import DIALECTS, offered
from kiro_asgi.dialects.base import Dialect
from kiro_asgi.dialects.manifest import DialectManifest, dialects_in
from kiro_asgi.dialects.passthrough import TransparentDialect
from kiro_asgi.dialects.unread import RULES as DIALECT_RULES
from kiro_asgi.errors import ConfigError
from kiro_asgi.model import handling
from kiro_asgi.model.notes import Note, holding
from kiro_asgi.model.own_lines import RULE as OWN_LINE
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.model.rules import CATALOGUE, Rule
from kiro_asgi.net.clocks import Clocks
from kiro_asgi.stages.own import OwnStage
from kiro_asgi.upstreams.base import PLACEHOLDER, ModelCard
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
    passed = _passed(dialect, body)
    asked = passed.peek.model if passed is not None else dialect.parse(body).prompt.model
    choice = upstreams.choose(asked, upstream)
    if window is not None:
        choice = evolve(choice, model=evolve(choice.model, context_window=window))
    stages = tuple(stages_of(settings))
    reason = _reason(passed, choice, settings, stages)
    if passed is not None and reason is None:
        fields = _as_it_is(passed, choice)
    else:
        parsed = dialect.parse(body)
        asking = choice.provider.asking(choice.model, parsed.prompt.demands)
        notes = holding(dialect.notes(body, parsed), asking.traits.api)
        fields = _adapted(parsed.prompt, choice, _rows(notes, _rules_of(manifest)))
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


def _passed(dialect: Dialect, body: bytes) -> PassthroughRequest | None:
    """*body* as it would go on, if an upstream spoke this API."""
    if not dialect.traits.transparent:
        return None
    transparent = cast(TransparentDialect, dialect)
    return PassthroughRequest(dialect=transparent, peek=transparent.peek(body), headers=())


def _reason(
    passed: PassthroughRequest | None, choice: Choice, settings: Settings, stages: tuple[OwnStage, ...]
) -> Reason | None:
    """Why the request does not go through as it is; ``None`` also where nothing of its API ever does."""
    if passed is None:
        return None
    return reason_to_translate(passed, choice.provider, choice.model, settings.stream, stages)


def _as_it_is(passed: PassthroughRequest, choice: Choice) -> dict[str, Any]:
    body = render_passthrough(passed, choice.provider.asking(choice.model), choice.model, PLACEHOLDER).request.body
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


def _adapted(prompt: Prompt, choice: Choice, rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    upstream, setup = choice.provider.asking(choice.model, prompt.demands), choice.provider.setup
    adapted, left_out = choice.provider.adapted(prompt, choice.name, choice.model, upstream)
    rendered = upstream.render(adapted, choice.model, PLACEHOLDER)
    return {
        "as_it_is": False,
        "rules": [
            *rows,
            *_rows(left_out, Declared("the gateway", "GATEWAY_RULES", GATEWAY_RULES)),
            *_rows(rendered.notes, Declared(f"the upstream {choice.provider.name}", "Manifest.rules", setup.rules)),
        ],
        "tool_names": dict(rendered.tool_names),
        "argument_names": dict(rendered.argument_names),
        "sizes": dict(upstream.statistics(rendered)),
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
