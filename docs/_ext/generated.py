"""The ``generated`` directive: tables that the package's own tables become when the documentation is built.

Nothing is written into the tree, so a page cannot be out of step with the source.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from kiro_asgi import errors, limits, simulator
from kiro_asgi.asgi.exchange.explain import GATEWAY_RULES
from kiro_asgi.asgi.exchange.passthrough import REASONS
from kiro_asgi.asgi.routing import DESCRIPTION, GATEWAY
from kiro_asgi.cli.services import written
from kiro_asgi.config import Settings, describe
from kiro_asgi.config.leaves import leaves, slices
from kiro_asgi.config.tree import SettingRow
from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import Dialect, Encoder
from kiro_asgi.dialects.builtin import BUILTIN
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_responses import fields
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.dialects.structure import LONGEST
from kiro_asgi.dialects.unread import RULES as API_RULES
from kiro_asgi.dialects.unserved import UNSERVED
from kiro_asgi.inspector.sentences import CODES, ERRORS
from kiro_asgi.model.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Event,
    MessageEnd,
    MessageStart,
    SearchHit,
    ServerCall,
    ServerResult,
    SignatureDelta,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    ToolOutput,
)
from kiro_asgi.model.rules import Rule
from kiro_asgi.observers.measures import MEASURES
from kiro_asgi.simulator import formats
from kiro_asgi.simulator import markers as simulated_markers
from kiro_asgi.simulator.kiro import checks as kiro_checks
from kiro_asgi.simulator.kiro import faults
from kiro_asgi.upstreams.direct import DirectUpstream
from kiro_asgi.upstreams.kiro.answer import READERS, STOP_REASONS, Seen
from kiro_asgi.upstreams.kiro.models import FALLBACK, find
from kiro_asgi.upstreams.manifest import all_of
from kiro_asgi.upstreams.openai.services import SERVICES
from kiro_asgi.wire.sse import ServerSentEvent, SseDecoder

Row = Sequence[str]


def first_line(text: str | None) -> str:
    """The summary of a docstring, its references to names turned into literals."""
    return re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", " ".join((text or "").partition("\n\n")[0].split()))


def plain(text: str) -> str:
    """*text* without any markup of its own."""
    return re.sub(r"([\\\\`*_|])", r"\\\1", text)


FIRST = (
    "kiro.api_key",
    "anthropic.api_key",
    "openai.api_key",
    "gemini.api_key",
    "bedrock.region",
    "client.api_keys",
    "routing.models",
    "state.usage",
    "quotas.tokens_per_day",
    "inspector.enabled",
)
"""The settings that people set first."""


def settings() -> Iterator[str]:
    """One section for each table of settings, and one for those that are in none; each setting is a definition."""
    rows = describe()
    groups: dict[str, list[SettingRow]] = {"": []}
    for row in rows:
        groups.setdefault(row.path.rpartition(".")[0], []).append(row)
    top = groups.pop("")
    yield from section("The ten that people set first", "", [row for name in FIRST for row in rows if row.path == name])
    for table, members in groups.items():
        yield from section(f"``[{table}]``", inspect.getdoc(slices(Settings)[table]) or "", members)
    yield from section("In no table", "", top)


def section(title: str, words: str, rows: Iterable[SettingRow]) -> Iterator[str]:
    yield from (title, "-" * len(title), "", first_line(words), "")
    for row in rows:
        kind = " or ".join(f"``{choice}``" for choice in row.choices) or row.type
        default = f"default ``{row.default}``" if row.default else "empty by default"
        yield from (f"``{row.path}``", f"   {kind}, {default}. {row.doc}", "", f"   ``{row.env}``", "")


def limit_settings() -> Iterator[Row]:
    yield "Setting", "Default", "Meaning"
    for row in describe():
        if row.path.startswith("limits."):
            yield f"``{row.path}``", f"``{row.default}``", row.doc


def fixed_limits() -> Iterator[Row]:
    """The constants of `kiro_asgi.limits`, each with the docstring under it."""
    yield "Limit", "Value", "Meaning"
    body = ast.parse(inspect.getsource(limits)).body
    for node, doc in pairwise(body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            assert isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant), f"{node.target.id}: no docstring"
            yield f"``{node.target.id}``", f"{getattr(limits, node.target.id):,}", first_line(str(doc.value.value))


def named_members() -> Iterator[Row]:
    """The members of requests whose texts are names or words."""
    yield "Longest", "Members"
    for limit in dict.fromkeys(LONGEST.values()):
        members = sorted(name for name, most in LONGEST.items() if most == limit)
        yield f"{limit:,} characters", ", ".join(f"``{name}``" for name in members)


def presets() -> Iterator[Row]:
    names = next(row.choices for row in describe() if row.path == "preset")
    yield "Setting", *(f"``{name}``" for name in names)
    columns = [{row.path: row.value for row in describe(Settings.from_mapping({"preset": it}))} for it in names]
    for path in (path for path, leaf in leaves(Settings).items() if leaf.declared.presets):
        yield f"``{path}``", *(f"``{column[path]}``" if column[path] else "–" for column in columns)


def routes() -> Iterator[Row]:
    yield "Path", "Method", "API", "Operation"
    owned = [(endpoint, api.title) for api in BUILTIN for endpoint in api.routes]
    for endpoint, title in [*owned, *((endpoint, "") for endpoint in (*GATEWAY, DESCRIPTION))]:
        yield f"``{endpoint.path}``", endpoint.method, title, endpoint.operation.replace("_", " ").capitalize()


def unserved() -> Iterator[Row]:
    yield "Of OpenAI and Anthropic, below ``/v1``", "Of Gemini", "Why, and what to do"
    for row in UNSERVED:
        yield *(", ".join(f"``{name}``" for name in names) or "–" for names in (row.paths, row.words)), row.why


def markers() -> Iterator[Row]:
    yield "Marker", "Kind", "What happens", "Parameter"
    for name, entry in simulator.MARKERS.items():
        if entry.kind != "once":
            yield (
                f"``sim:{name}{'=…' * bool(entry.parameter)}``",
                entry.kind,
                plain(entry.shows),
                plain(entry.parameter),
            )
    yield "``sim:once-FAULT``", "once", "any fault the first time, an answer the second", "as the fault"


def format_markers() -> Iterator[Row]:
    yield "Marker", "Formats", "Kind", "What happens", "Parameter"
    rows: dict[tuple[str, simulated_markers.MarkerEntry], list[str]] = {}
    for form, known in simulator.FORMAT_MARKERS.items():
        for name, entry in known.items():
            rows.setdefault((name, entry), []).append(form)
    for (name, entry), forms in rows.items():
        marker = f"``sim:{name}{'=…' * bool(entry.parameter)}``"
        yield marker, ", ".join(forms), entry.kind, plain(entry.shows), plain(entry.parameter)


def simulated_refusals() -> Iterator[Row]:
    tables = (faults.REFUSALS, *(form.refusals for form in formats.FORMATS))
    yield "Marker", *(UPSTREAMS.get(name, name.title()) for name in ("kiro", *(form.name for form in formats.FORMATS)))
    for name in tables[0]:
        first, *others = (table[name] for table in tables)
        cells = [(first[0], first[2]), *((words[0], words[1]) for words in others)]
        yield f"``sim:{name}``", *(f"{status} ``{word}``" if word else str(status) for status, word in cells)


def format_rules(name: str) -> Iterator[Row]:
    yield ("What must hold",)
    [form] = (form for form in formats.FORMATS if form.name == name)
    for rule in form.rules:
        yield (first_line(rule.__doc__),)


def measures() -> Iterator[Row]:
    yield "OpenTelemetry, and Prometheus", "Kind", "Labels", "What it measures"
    for it in MEASURES:
        labels = " ".join(f"``{label}``" for label in it.labels)
        kind = f"{it.kind.value}, {it.unit.strip('{}')}"
        yield f"| ``{it.name}``\n| ``{it.flat_name}``", kind, labels, plain(it.what)


def rules(table: Iterable[Rule]) -> Iterator[Row]:
    yield "Rule", "What it does", "Loss"
    for rule in table:
        yield f"``{rule.name}``", plain(rule.what), rule.loss.value


def reasons() -> Iterator[Row]:
    yield "Reason", "What it is"
    for reason in REASONS:
        yield f"``{reason.name}``", reason.what


def simulated_rules() -> Iterator[Row]:
    yield "What must hold", "Status", "Reason, or message"
    for rule in kiro_checks.RULES:
        refusal = rule.refusal
        reason = f"``{refusal.reason}``" if refusal.reason else plain(refusal.message)
        yield first_line(rule.kept.__doc__), str(refusal.status), reason


def error_tree() -> Iterator[Row]:
    yield "Error", "Status", "May be retried", "Meaning"
    yield from _errors(errors.KiroAsgiError, 0)


def _errors(kind: type[errors.KiroAsgiError], depth: int) -> Iterator[Row]:
    indent = "· " * depth
    yield f"{indent}``{kind.__name__}``", str(kind.status), "yes" if kind.retry_safe else "no", first_line(kind.__doc__)
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from _errors(child, depth + 1)


def service_statuses() -> Iterator[Row]:
    """Meanings of a service's statuses, for a service that has no reasons of its own to go by."""
    yield "The service's status", "Error", "The client's status", "May be retried"
    asked = DirectUpstream(name="some")
    for status in (400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529):
        error = asked.fault(status, (), b'{"message": "it is so"}')
        retried = "yes" if error.retry_safe else "no"
        yield str(status), f"``{type(error).__name__}``", str(error.status), retried


def advice() -> Iterator[Row]:
    yield "Error", "In the inspector", "What to do"
    for kind, said in ERRORS.items():
        yield f"``{kind.__name__}``", said.short, plain(said.advice)
    for code, said in CODES.items():
        yield f"code ``{code}``", said.short, plain(said.advice)


def handled(heading: str, table: Mapping[str, fields.Support]) -> Iterator[Row]:
    yield heading, "What becomes of it", "Note"
    for name, handling in table.items():
        yield f"``{name}``", handling.fate.value, plain(handling.note)


SAMPLES: dict[str, dict[str, Any]] = {
    "assistantResponseEvent": {"content": "Hi", "modelId": "claude-sonnet-4.5"},
    "reasoningContentEvent": {"text": "Well", "signature": "c2ln"},
    "toolUseEvent": {"toolUseId": "tooluse_1", "name": "ls", "input": "{}", "stop": True},
    "metadataEvent": {"stopReason": "END_TURN", "tokenUsage": {"uncachedInputTokens": 9, "outputTokens": 2}},
    "tokenUsageEvent": {"uncachedInputTokens": 9, "outputTokens": 2},
    "contextUsageEvent": {"contextUsagePercentage": 1.5},
    "meteringEvent": {"usage": 0.01, "unit": "credit"},
    "messageMetadataEvent": {"conversationId": "c1"},
    "followupPromptEvent": {"followupPrompt": {"content": "And now?"}},
    "codeReferenceEvent": {"references": [{"licenseName": "MIT"}]},
}
"""One payload for each type that means something, to be put through the decoder's own table."""


def upstream_events() -> Iterator[Row]:
    yield "Event type", "For example", "Becomes"
    for name, reader in READERS.items():
        payload = SAMPLES.get(name)
        deltas = dict.fromkeys(type(delta).__name__ for delta in reader(payload or {}, Seen())) if payload else ()
        example = f"``{json.dumps(payload)}``" if payload else ""
        yield (
            f"``{name}``",
            example,
            ", ".join(f"``{it}``" for it in deltas) or ("an error" if name in FAILS else "passed over"),
        )


FAILS = ("invalidStateEvent",)


def stop_reasons() -> Iterator[Row]:
    yield "The service's word", "Stop reason"
    for word, reason in STOP_REASONS.items():
        yield f"``{word}``", f"``{reason.name}``"


SEARCH = ServerCall("call_2", "web_search", "web_search", {"query": "fjords"})
FOUND = ToolOutput((SearchHit("Fjords", "https://example.org/"),))

STREAM: tuple[tuple[str, Event], ...] = (
    ("the message starts", MessageStart()),
    ("a thinking block starts", BlockStart(0, BlockKind.THINKING)),
    ("thinking", ThinkingDelta("Well")),
    ("its signature", SignatureDelta("c2ln")),
    ("the block ends", BlockEnd(0)),
    ("a text block starts", BlockStart(1, BlockKind.TEXT)),
    ("text", TextDelta("Hi")),
    ("the block ends", BlockEnd(1)),
    ("a tool call starts", BlockStart(2, BlockKind.TOOL_CALL, "call_1", "ls")),
    ("its arguments", ToolInputDelta("{}")),
    ("the block ends", BlockEnd(2)),
    ("a tool is called that runs here", BlockStart(3, BlockKind.SERVER_CALL, value=SEARCH)),
    ("the block ends", BlockEnd(3)),
    ("what it gave", BlockStart(4, BlockKind.SERVER_RESULT, value=ServerResult(SEARCH, FOUND))),
    ("the block ends", BlockEnd(4)),
    ("the message ends", MessageEnd(StopReason.TOOL_CALL)),
)
"""One answer with one of everything, to be put through the encoders."""

REQUEST = (
    b'{"model": "m", "max_tokens": 9, "stream": true, "messages": [{"role": "user", "content": "Hi"}], "input": "Hi"}'
)
"""For every API, since each passes over what it does not know."""


def client_events() -> Iterator[Row]:
    yield "Event", "Messages API", "Chat Completions", "Responses API, without ``response.``"
    encoders = [_encoder(dialect) for dialect in (AnthropicMessages(), OpenAIChat(), OpenAIResponses())]
    for words, event in STREAM:
        end = isinstance(event, MessageEnd)
        sides = (_frames(encoder, event, end) for encoder in encoders)
        yield words, *(", ".join(f"``{_name(frame)}``" for frame in side) or "–" for side in sides)


def _encoder(dialect: Dialect) -> Encoder:
    return dialect.encoder(dialect.meta(dialect.parse(REQUEST), lambda: "0" * 24, 0))


def _frames(encoder: Encoder, event: Event, end: bool) -> Iterator[ServerSentEvent]:
    yield from SseDecoder().feed([*encoder.feed([event]), *(encoder.flush() if end else ())])


def _name(frame: ServerSentEvent) -> str:
    """A server-sent event in short: its name and the kind of its delta, or what a chunk holds."""
    if frame.data == "[DONE]":
        return frame.data
    data = json.loads(frame.data)
    if frame.event != "message":
        kinds = [data["delta"]["type"]] if isinstance(data.get("delta"), dict) and "type" in data["delta"] else []
        return " ".join((frame.event.removeprefix("response."), *kinds))
    held = [key for choice in data["choices"] for key in choice["delta"]]
    return ", ".join(held) or next(("finish_reason" for choice in data["choices"]), "usage")


DRIFT = tomllib.loads((Path(__file__).parent.parent / "reference" / "drift.toml").read_text("utf-8"))


def drift(kind: str, api: str, uses: Mapping[str, str]) -> Iterator[Row]:
    """Places of an SDK's types, and what becomes of the members there."""
    yield "Where", *uses.values()
    for place, row in DRIFT[kind][api].items():
        cells = (", ".join(f"``{name}``" for name in row.get(use, ())) or "–" for use in uses)
        yield plain(place), *cells


REQUESTS = {
    "read": "Read",
    "passed": "Passed on within the API",
    "noted": "Named by a note",
    "refused": "Refused",
    "settled": "So anyway",
}
ANSWERS = {"read and sent": "Read and sent", "read": "Read", "sent": "Sent", "passed on": "Only passed on"}


def drift_versions() -> Iterator[Row]:
    yield "What", "Version"
    yield "Date of the run", str(DRIFT["date"])
    yield from DRIFT["versions"].items()


MATRIX = tomllib.loads((Path(__file__).parent.parent / "reference" / "matrix.toml").read_text("utf-8"))
KNOWN = tuple(all_of(Settings()))
UPSTREAMS = {each.name: each.manifest.title for each in KNOWN}


def matrix(api: str) -> Iterator[Row]:
    """What one API carries from each service; a number stands for a loss."""
    numbers = {name: str(number) for number, name in enumerate(MATRIX["losses"], 1)}
    yield "", *MATRIX["services"].values()
    for name, what in MATRIX["features"].items():
        cells = (MATRIX["cells"][api][service][name] for service in MATRIX["services"])
        yield what, *(" / ".join(dict.fromkeys(numbers.get(mark, mark) for mark in cell)) for cell in cells)


def matrix_losses() -> Iterator[Row]:
    yield "", "What is lost, and why", "Rules"
    for number, loss in enumerate(MATRIX["losses"].values(), 1):
        yield str(number), loss["why"], ", ".join(f"``{rule}``" for rule in loss["rules"]) or "–"


def matrix_versions() -> Iterator[Row]:
    yield "What", "Version"
    yield "Date of the run", str(MATRIX["date"])
    yield "Python", MATRIX["python"]
    yield from MATRIX["versions"].items()


CROSSING = tomllib.loads((Path(__file__).parent.parent / "reference" / "crossing.toml").read_text("utf-8"))["members"]


def crossing_said() -> Iterator[Row]:
    """Members of requests, and how each API says them."""
    yield "", *MATRIX["apis"].values()
    for row in CROSSING.values():
        yield row["what"], *(f"``{row['said'][api]}``" if api in row["said"] else "–" for api in MATRIX["apis"])


def crossing() -> Iterator[Row]:
    """Where they stand in what each service is asked, or the rule that leaves them out."""
    services = [name for name in MATRIX["services"] if name != "custom"]
    yield "", *(MATRIX["services"][name] for name in services)
    for row in CROSSING.values():
        yield row["what"], *(f"``{row['services'][name]}``" for name in services)


CONTRACTS = tomllib.loads((Path(__file__).parent.parent / "reference" / "contracts.toml").read_text("utf-8"))


def contract(client: str) -> Iterator[Row]:
    """What a client's vendor demands, what is done here, and the tests that hold it."""
    yield "Demand", "Here", "Held by"
    for row in CONTRACTS[client]["demands"]:
        yield row["what"], row["here"], "\n".join(f"``{it.removeprefix('tests/')}``\n" for it in row["tests"]).rstrip()


def contract_sources(client: str) -> Iterator[Row]:
    """The version that is tested, and where the demands are from."""
    named = CONTRACTS[client]
    yield "Tested with", "Sources"
    yield f"{named['title']} {named['version']}", "\n".join(f"{it}\n" for it in named["sources"]).rstrip()


HOSTS = tomllib.loads((Path(__file__).parent.parent / "reference" / "hosts.toml").read_text("utf-8"))


SERVERS = tuple(next(iter(HOSTS["cells"].values())))
HYPERCORN = tuple(server for server in SERVERS if server.startswith("Hypercorn"))


def hosts(servers: Sequence[str]) -> Iterator[Row]:
    """Hosts by servers; a number stands for what is wrong."""
    yield "", *servers
    for host, cells in HOSTS["cells"].items():
        yield host, *(_tried(cells[server]) for server in servers)


def _tried(wrong: Mapping[str, str]) -> str:
    if "impossible" in wrong:
        return "–"
    reasons = [*_reasons()]
    return ", ".join(str(number) for number in sorted(reasons.index(reason) + 1 for reason in wrong.values())) or "yes"


def _reasons() -> Iterable[str]:
    """Everything that is wrong anywhere, once each."""
    cells = [cell for cells in HOSTS["cells"].values() for cell in cells.values() if "impossible" not in cell]
    return dict.fromkeys(reason for cell in cells for reason in cell.values())


def hosts_troubles() -> Iterator[Row]:
    yield "", "What is wrong"
    for number, reason in enumerate(_reasons(), 1):
        yield str(number), plain(reason)


def hosts_checks() -> Iterator[Row]:
    yield "Check", "Holds that"
    for name, rule in HOSTS["checks"].items():
        yield f"``{name}``", plain(rule)


def hosts_versions() -> Iterator[Row]:
    yield "What", "Version"
    yield "Date of the run", str(HOSTS["date"])
    yield "Python", HOSTS["python"]
    yield from HOSTS["versions"].items()


def client_models() -> Iterator[Row]:
    """The built-in list of models of Kiro, in both spellings, with what clients have to be told."""
    yield "Model", "Window", "Longest answer", "Images"
    for card in FALLBACK:
        names = dict.fromkeys((card.id, card.id.replace(".", "-") if card.id.startswith("claude-") else card.id))
        spelled = ", ".join(f"``{name}``" for name in names if find(name, FALLBACK) is card)
        yield spelled, f"{card.context_window:,}", f"{card.max_output_tokens:,}", "yes" if card.images else "no"


COMPARISON = tomllib.loads((Path(__file__).parent.parent / "explanation" / "comparison.toml").read_text("utf-8"))


PEERS = tomllib.loads((Path(__file__).parent.parent / "reference" / "peers.toml").read_text("utf-8"))
PEER_APIS = {"chat": "Chat Completions", "messages": "Messages"}
PEER_FIGURES = {"start": "s from the start to the first answer", "idle": "MiB idle", "packages": "packages installed"}


def peers(api: str) -> Iterator[Row]:
    """Figures of one API: the median of the repetitions, and how many times ours that is."""
    known = {name: peer for name, peer in PEERS["gateways"].items() if api in peer}
    yield "", *(peer["title"] for peer in known.values())
    for measure, words in PEERS["measures"].items():
        ours, *others = (median(peer[api][measure]) for peer in known.values())
        yield words, f"{ours:.3g}", *(_beside(other, ours) for other in others)
    yield "streams that were open", *(str(peer[api]["opened"]) for peer in known.values())


def _beside(theirs: float, ours: float) -> str:
    return f"{theirs:.3g} (× {theirs / ours:.2g})" if theirs > 0 < ours else f"{theirs:.3g}"


def peers_figures() -> Iterator[Row]:
    """What is the same whatever API is asked."""
    yield "", *(peer["title"] for peer in PEERS["gateways"].values())
    for figure, words in PEER_FIGURES.items():
        yield words, *(str(peer[figure]) for peer in PEERS["gateways"].values())
    yield "answers under load that were wrong", *(str(peer["wrong"]) for peer in PEERS["gateways"].values())


def peers_wins() -> Iterator[Row]:
    """Every figure in which another is better than ours; less is better in all of them."""
    yield "Figure", "API", "kiro_asgi", "Better"
    ours, *others = PEERS["gateways"].values()
    for figure, words in PEER_FIGURES.items():
        found = [f"{peer['title']} {peer[figure]}" for peer in others if peer[figure] < ours[figure]]
        if found:
            yield words, "–", str(ours[figure]), ", ".join(found)
    for api, title in PEER_APIS.items():
        for measure, words in PEERS["measures"].items():
            least = median(ours[api][measure])
            theirs = {peer["title"]: median(peer[api][measure]) for peer in others if api in peer}
            found = [f"{name} {value:.3g}" for name, value in theirs.items() if value < least]
            if found:
                yield words, title, f"{least:.3g}", ", ".join(found)


def peers_told(api: str, kind: str) -> Iterator[Row]:
    """What becomes of texts that are cut anywhere, or of faults."""
    known = [peer for peer in PEERS["gateways"].values() if api in peer]
    yield "", *(peer["title"] for peer in known)
    for name, words in PEERS[kind].items():
        yield words, *(peer[api][kind][name] for peer in known)


def peers_versions() -> Iterator[Row]:
    yield "What", "Version, or setting"
    yield "Date of the run", str(PEERS["date"])
    yield "Python, Node.js", f"{PEERS['python']}, {PEERS['node']}"
    yield "Repetitions", str(PEERS["repetitions"])
    yield "Cores", str(PEERS["cores"])
    yield "Load of the machine at the start of each", ", ".join(f"{load:.1f}" for load in PEERS["load"])
    yield "ms, the longest between two events of the service itself", ", ".join(f"{gap:.0f}" for gap in PEERS["gap"])
    yield "What is measured gets the cores first", "yes" if PEERS["first"] else "no"
    for peer in PEERS["gateways"].values():
        yield peer["title"], "\n".join((peer["version"], *(f"\n{note}" for note in peer["notes"])))


def compared_gateways() -> Iterator[Row]:
    yield "Gateway", "What it is", "Read"
    for gateway in COMPARISON["gateways"].values():
        yield (
            f"`{gateway['name']} <{gateway['address']}>`__",
            gateway["what"],
            str(gateway.get("date", COMPARISON["date"])),
        )


def compared_features() -> Iterator[Row]:
    yield "", "kiro_asgi", "Shown by"
    for feature in COMPARISON["features"]:
        yield feature["what"], feature["ours"], f"``{feature['shown']}``" if "shown" in feature else "–"


def compared(scope: str) -> Iterator[Row]:
    """What the gateways of one kind do."""
    known = {key: gateway["name"] for key, gateway in COMPARISON["gateways"].items() if gateway["scope"] == scope}
    yield "", "kiro_asgi", *known.values()
    for feature in COMPARISON["features"]:
        yield feature["what"], feature["ours"], *(feature["theirs"][key] for key in known)


def services() -> Iterator[Row]:
    yield "Service", "Settings", "Source"
    for row in SERVICES.values():
        settings = "\n".join(f"``{name} = {written(value)}``\n" for name, value in row.settings.items())
        yield f"``{row.name}``\n\n{row.title}", settings.rstrip(), f"`{row.dated} <{row.source}>`__"


TABLES: dict[str, tuple[Callable[[], Iterable[Row]], str]] = {
    "services": (services, "24 62 14"),
    "limit-settings": (limit_settings, "30 14 56"),
    "limits": (fixed_limits, "30 14 56"),
    "named-members": (named_members, "24 76"),
    "presets": (presets, "40 20 40"),
    "measures": (measures, "34 12 24 30"),
    "routes": (routes, "40 12 30 18"),
    "unserved": (unserved, "34 26 40"),
    "markers": (markers, "20 10 48 22"),
    "events": (upstream_events, "24 50 26"),
    "client-events": (client_events, "18 26 20 36"),
    "stop-reasons": (stop_reasons, "60 40"),
    "reasons": (reasons, "22 78"),
    "api-rules": (lambda: rules(API_RULES), "26 62 12"),
    "gateway-rules": (lambda: rules(GATEWAY_RULES), "26 62 12"),
    **{f"{each.name}-rules": (partial(rules, each.make().rules), "26 62 12") for each in KNOWN},
    "format-markers": (format_markers, "20 16 8 36 20"),
    "simulated-refusals": (simulated_refusals, "10 12 12 14 12 12 14 14"),
    "simulated-rules": (simulated_rules, "62 8 30"),
    **{f"simulated-{form.name}-rules": (partial(format_rules, form.name), "100") for form in formats.FORMATS},
    "errors": (error_tree, "34 10 12 44"),
    "service-statuses": (service_statuses, "24 36 20 20"),
    "advice": (advice, "34 20 46"),
    "responses-fields": (lambda: handled("Field", fields.FIELDS), "26 14 60"),
    "responses-items": (lambda: handled("Kind of item", fields.ITEM_KINDS), "26 14 60"),
    **{f"matrix-{api}": (partial(matrix, api), "28" + " 12" * len(MATRIX["services"])) for api in MATRIX["apis"]},
    "matrix-losses": (matrix_losses, "6 66 28"),
    "crossing-said": (crossing_said, "28 18 18 18 18"),
    "crossing": (crossing, "16 12 12 12 12 12 12 12"),
    "matrix-versions": (matrix_versions, "40 60"),
    **{f"contract-{it}": (partial(contract, it), "34 30 36") for it in CONTRACTS},
    **{f"contract-{it}-sources": (partial(contract_sources, it), "30 70") for it in CONTRACTS},
    "hosts-hypercorn": (lambda: hosts(HYPERCORN), "28 18 18 18 18"),
    "hosts-others": (lambda: hosts([server for server in SERVERS if server not in HYPERCORN]), "28 12 12 12 12 12 12"),
    "hosts-troubles": (hosts_troubles, "6 94"),
    "hosts-checks": (hosts_checks, "16 84"),
    "hosts-versions": (hosts_versions, "40 60"),
    **{
        f"drift-requests-{it}": (partial(drift, "requests", it, REQUESTS), "22 28 18 14 10 8")
        for it in DRIFT["requests"]
    },
    **{f"drift-answers-{it}": (partial(drift, "answers", it, ANSWERS), "24 19 19 19 19") for it in DRIFT["answers"]},
    "drift-versions": (drift_versions, "40 60"),
    "client-models": (client_models, "52 16 18 14"),
    "comparison-gateways": (compared_gateways, "30 50 20"),
    "comparison-ours": (compared_features, "40 12 48"),
    "comparison-kiro": (lambda: compared("kiro"), "40 12 12 12 12 12"),
    "comparison-many": (lambda: compared("many"), "40 10 10 10 10 10 10"),
    "peers-wins": (peers_wins, "40 18 12 30"),
    "peers-figures": (peers_figures, "30 14 14 14 14 14"),
    **{f"peers-{api}": (partial(peers, api), "32 17 17 17 17") for api in PEER_APIS},
    **{
        f"peers-{kind}-{api}": (partial(peers_told, api, kind), "28 18 18 18 18")
        for kind in ("texts", "faults")
        for api in PEER_APIS
    },
    "peers-versions": (peers_versions, "30 70"),
    "responses-tools": (lambda: handled("Kind of tool", fields.TOOL_KINDS), "30 14 56"),
}
"""Name to rows, the first of them the heading, and the columns' widths."""


def list_table(rows: Iterable[Row], widths: str) -> Iterator[str]:
    """Rows as a reStructuredText table; a cell may have several lines."""
    yield from (".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", "")
    for row in rows:
        for index, cell in enumerate(row):
            first, *others = cell.split("\n")
            yield f"   {'*' if index == 0 else ' '} - {first}"
            yield from (f"       {line}" for line in others)
    yield ""


class GeneratedSettings(SphinxDirective):
    """``.. generated-settings::``: sections, where `Generated` makes a table."""

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(settings()), allow_section_headings=True)


class Generated(SphinxDirective):
    """``.. generated:: settings``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        rows, widths = TABLES[self.arguments[0]]
        holder = nodes.container()
        source = StringList(list(list_table(rows(), widths)), source=f"<{self.arguments[0]}>")
        self.state.nested_parse(source, self.content_offset, holder)
        return holder.children


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("generated", Generated)
    app.add_directive("generated-settings", GeneratedSettings)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
