"""Show what becomes of a request before the service sees it: the rules that apply, what is lost, the payload.

Nothing is asked of anybody.  The exit status is 1 when the request would be refused.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve

from kiro_asgi.asgi.wiring import kiro_upstream
from kiro_asgi.cli.serve import add_config
from kiro_asgi.config import Settings
from kiro_asgi.config.reading import CONFIG_VARIABLE
from kiro_asgi.dialects.anthropic import AnthropicMessages
from kiro_asgi.dialects.base import Dialect
from kiro_asgi.dialects.openai_chat import OpenAIChat
from kiro_asgi.dialects.openai_responses import OpenAIResponses
from kiro_asgi.errors import KiroAsgiError
from kiro_asgi.model.prompt import Prompt
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard, Rendered
from kiro_asgi.upstreams.kiro.aliases import read_aliases
from kiro_asgi.upstreams.kiro.models import FALLBACK, find
from kiro_asgi.upstreams.kiro.rules.table import TABLE
from kiro_asgi.upstreams.kiro.spelling import normalise, with_wishes
from kiro_asgi.upstreams.rules import Loss
from kiro_asgi.wire.json import loads

__all__ = ["add_arguments", "guess", "run"]

DIALECTS: Final[Mapping[str, Dialect]] = MappingProxyType(
    {"anthropic": AnthropicMessages(), "openai_chat": OpenAIChat(), "openai_responses": OpenAIResponses()}
)

OPENAI_MEMBERS: Final = frozenset(
    ("max_completion_tokens", "reasoning_effort", "response_format", "stream_options", "functions", "n", "stop")
)
"""Members that only a Chat Completions request has."""

OPENAI_ROLES: Final = frozenset(("developer", "tool", "function"))

BUILT_IN: Final = frozenset(card.id for card in FALLBACK)

PLACEHOLDER: Final = Credential(CredentialKind.API_KEY, "placeholder")
"""Stands in for the credential, of which nothing is shown."""

ELIDED: Final = 100
"""Characters of base64 above which it is not shown."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("request", metavar="FILE", help="a client's request body; - reads standard input")
    parser.add_argument("--api", choices=DIALECTS, help="which API it is for; guessed from the body otherwise")
    parser.add_argument("--model-window", metavar="TOKENS", type=int, help="context window, instead of the model's")
    parser.add_argument("--json", action="store_true", help="for programs: one JSON object on standard output")
    add_config(parser)


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Print the report."""
    if arguments.config:
        environ = {**environ, CONFIG_VARIABLE: arguments.config}
    settings = Settings.from_env(environ)
    try:
        body = sys.stdin.buffer.read() if arguments.request == "-" else Path(arguments.request).read_bytes()
        report = explain(body, settings, arguments.api, arguments.model_window)
    except OSError as error:
        print(f"kiro-asgi: {arguments.request}: {error.strerror}", file=sys.stderr)
        return 1
    except KiroAsgiError as error:
        report = {"ok": False, "error": error.message, "code": error.code, "param": error.param}
    if arguments.json:
        print(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        _print(report)
    return 0 if report["ok"] else 1


def explain(body: bytes, settings: Settings, api: str | None, window: int | None) -> dict[str, Any]:
    """What becomes of *body*, ready for JSON.

    Raises:
        KiroAsgiError: It would be refused.
    """
    name = api or guess(body)
    prompt, model = _understood(DIALECTS[name].parse(body).prompt, settings, window)
    upstream = kiro_upstream(settings)
    rendered = upstream.render(prompt, model, PLACEHOLDER)
    return {
        "ok": True,
        "api": name,
        "model": model.id,
        "built_in": model.id in BUILT_IN,
        "rules": [*_rows(rendered)],
        "tool_names": dict(rendered.tool_names),
        "sizes": dict(upstream.statistics(rendered)),
        "payload": _elided(rendered.document),
    }


def guess(body: bytes) -> str:
    """The API that *body* is for.

    A Responses request has an ``input`` instead of messages.  Of the others, only Chat Completions knows certain
    members, the roles ``developer``, ``tool`` and ``function``, and calls beside the content.  A Messages request
    always has ``max_tokens``.

    Raises:
        KiroAsgiError: It is not JSON.
    """
    request = loads(body)
    if not isinstance(request, dict):
        return "openai_chat"
    if "input" in request and "messages" not in request:
        return "openai_responses"
    messages = [each for each in _list(request.get("messages")) if isinstance(each, dict)]
    tools = [each for each in _list(request.get("tools")) if isinstance(each, dict)]
    spoken = any(each.get("role") in OPENAI_ROLES or "tool_calls" in each for each in messages)
    wrapped = any("function" in each for each in tools)
    system = any(each.get("role") == "system" for each in messages) and "system" not in request
    openai = spoken or wrapped or system or OPENAI_MEMBERS & request.keys() or "max_tokens" not in request
    return "openai_chat" if openai else "anthropic"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _understood(prompt: Prompt, settings: Settings, window: int | None) -> tuple[Prompt, ModelCard]:
    """*prompt* with what its model's name asks for, and the model: from the built-in table, else an ordinary one."""
    name = _meant(prompt.model, read_aliases(settings.kiro.model_aliases))
    model = find(name, FALLBACK) or ModelCard(normalise(name))
    prompt = evolve(prompt, thinking=with_wishes(prompt.thinking, name, model.id))
    return prompt, model if window is None else evolve(model, context_window=window)


def _meant(name: str, aliases: Mapping[str, str]) -> str:
    """*name* itself, or what the alias stands for that it is; a model's very id is no alias spelled differently."""
    if name in aliases or name in BUILT_IN:
        return aliases.get(name, name)
    return {normalise(alias): model for alias, model in aliases.items()}.get(normalise(name), name)


def _rows(rendered: Rendered) -> Iterable[dict[str, Any]]:
    for note in rendered.notes:
        rule = TABLE[note.rule]
        row = {"rule": rule.name, "times": note.times, "place": note.place}
        yield {**row, "loss": rule.loss.value, "what": rule.what}


def _elided(value: Any) -> Any:
    """*value* without the bytes of images and documents."""
    if isinstance(value, Mapping):
        return {key: _bytes(part) if key == "bytes" else _elided(part) for key, part in value.items()}
    return [*map(_elided, value)] if isinstance(value, list) else value


def _bytes(data: Any) -> Any:
    return f"… {len(data)} characters of base64 …" if isinstance(data, str) and len(data) > ELIDED else data


def _print(report: Mapping[str, Any]) -> None:
    if not report["ok"]:
        print(f"refused: {report['error']}")
        if report["param"]:
            print(f"place:   {report['param']}")
        return
    print(f"api: {report['api']}   model: {report['model']}")
    if not report["built_in"]:
        print("This model is not built in: it is taken for one without thinking, and only if the service lists it.")
    print()
    _print_rules(report["rules"])
    for wire, name in report["tool_names"].items():
        print(f"tool {name} is called {wire}")
    print("sizes: " + ", ".join(f"{name} {value:,}" for name, value in report["sizes"].items()))
    print("\n" + json.dumps(report["payload"], indent=2, ensure_ascii=False))


def _print_rules(rows: list[dict[str, Any]]) -> None:
    if not rows:
        print("No rule had anything to do: the request goes through as it is.\n")
        return
    heading = {"rule": "RULE", "times": "TIMES", "place": "FIRST PLACE", "loss": "LOSS", "what": "WHAT"}
    widths = {key: max(len(str(row[key])) for row in (heading, *rows)) for key in ("rule", "times", "place", "loss")}
    for row in (heading, *rows):
        print("  ".join((*(f"{row[key]!s:{width}}" for key, width in widths.items()), row["what"])))
    lost = [row for row in rows if row["loss"] == Loss.CONTENT.value]
    print("\nlost: " + ("; ".join(f"{row['rule']} ({row['times']})" for row in lost) or "nothing") + "\n")
