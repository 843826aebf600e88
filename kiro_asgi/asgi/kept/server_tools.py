"""Tools that the gateway runs while a client waits: which there are, and how calls of them are run.

No call ends in silence: what is missing, slow, broken or not allowed gives an error result.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from logging import getLogger
from typing import Any, Final, Protocol

import anyio
from attrs import evolve, field, frozen

from kiro_asgi.asgi.kept.hosted import TOOLS, HostedParts
from kiro_asgi.errors import KiroAsgiError, RequestError, UpstreamThrottled, UpstreamTimeout
from kiro_asgi.interface import lacks
from kiro_asgi.limits import SEARCH_BYTES
from kiro_asgi.model.events import UNAVAILABLE, WEB_SEARCH, ServerCall, ServerResult, ToolOutput
from kiro_asgi.model.notes import Note, Notes
from kiro_asgi.model.prompt import Prompt, Tool
from kiro_asgi.model.rules import Loss, Rule
from kiro_asgi.net.credentials.pool import Asker
from kiro_asgi.upstreams.base import Credential, UpstreamRequest
from kiro_asgi.upstreams.settings import Search

_log = getLogger("kiro_asgi")

HOSTED_DROPPED: Final = Rule(
    "tools.hosted_dropped",
    "A hosted tool that neither the service nor the gateway has is left out; a demand for a call of it is refused.",
    Loss.CONTENT,
)

_CODES: Final = ((RequestError, "invalid_tool_input"), (UpstreamThrottled, "too_many_requests"))
"""Error class to the code that the model sees; any other is `UNAVAILABLE`."""

_PLACE: Final = re.compile(r"[a-z]+://(?:[^/?#@]*@)?([^/?#:]*)(?::[0-9]*)?([^?#]*)", re.IGNORECASE)
"""Host and path of an address."""

_MAX_NAMED: Final = 5
"""Tools that one error names."""

_SHOWN: Final = 100
"""Characters of a function's name in the log."""


class ServerTool(Protocol):
    """A tool that the gateway runs; one for all requests."""

    @property
    def kind(self) -> str:
        """The hosted tools that it stands for, e.g. ``web_search``; a word of your own for none."""
        ...

    @property
    def names(self) -> Collection[str]:
        """Function tools that it is run for instead of the client."""
        ...

    async def call(self, arguments: Mapping[str, Any], options: Mapping[str, Any], /) -> ToolOutput:
        """Run it once.

        Args:
            arguments: The model's: an object, not checked in any other way.
            options: The client's options of the tool, see `kiro_asgi.model.prompt.Tool`.

        Raises:
            Exception: Anything becomes an error result.  Of a `KiroAsgiError` the client is shown the message.
        """
        ...


def tool_lacks(tool: Any) -> Iterator[str]:
    """What a tool from outside lacks to be run, each in a few words with advice."""
    kind, names = getattr(tool, "kind", None), getattr(tool, "names", None)
    if not isinstance(kind, str) or not kind:  # its calls would go to the client, which does not expect them
        yield "kind must be a word: web_search for a hosted tool, one of your own for a function"
    if isinstance(names, str) or not isinstance(names, Collection) or not all(isinstance(it, str) for it in names):
        yield "names must be a collection of names of functions, such as ('weather',); it may be empty"
    yield from lacks(tool, ServerTool)


@frozen
class WebSearch:
    """The web search of a service that does not run it by itself."""

    _asker: Asker
    _search: Search
    _timeout: float
    kind: str = field(init=False, default=WEB_SEARCH)
    names: Collection[str] = field(init=False, default=())

    async def call(self, arguments: Mapping[str, Any], options: Mapping[str, Any], /) -> ToolOutput:
        """Search for ``query``.

        Raises:
            RequestError: There is no query, or the service does not take it.
            UpstreamError: The search failed.
        """
        query = arguments.get("query")
        if not isinstance(query, str) or not query.strip():
            raise RequestError("the web search needs a query", code="mcp.query")

        def search(credential: Credential) -> UpstreamRequest:
            return self._search.request(credential, query)

        return ToolOutput(self._search.parse(await self._asker.ask(search, patience=self._timeout, limit=SEARCH_BYTES)))


@frozen
class Toolbox:
    """The tools of one app; of several that fit the first is run."""

    _tools: Sequence[ServerTool] = ()
    _timeout: float = 60.0
    """Seconds for one call."""

    _upstream_kinds: Collection[str] = ()
    """Kinds of hosted tools that the upstream runs itself."""

    _hosted: HostedParts = field(factory=HostedParts, eq=False, repr=False)
    _told: set[str] = field(init=False, factory=set, eq=False, repr=False)
    """Failures whose traceback the log has, by tool and class."""

    def has(self, kind: str) -> bool:
        """Whether there is a tool for hosted tools of this kind."""
        return any(tool.kind == kind for tool in self._tools)

    def offered(self, prompt: Prompt) -> tuple[Prompt, tuple[Note, ...]]:
        """*prompt* without the hosted tools that neither side has, and notes on those.

        Raises:
            RequestError: Such a tool has to be called; ``param`` is its place.
        """
        absent = tuple(filter(self._absent, prompt.tools))
        if not absent and not any(map(self._is_doubled, prompt.tools)):
            return prompt, ()
        kept = tuple(
            evolve(tool, opaque=None) if self._is_doubled(tool) else tool
            for tool in prompt.tools
            if not self._absent(tool)
        )
        if prompt.tool_choice.demanded and not any(map(prompt.tool_choice.permits, (tool.name for tool in kept))):
            raise _demanded([tool for tool in absent if prompt.tool_choice.permits(tool.name)] or absent)
        notes = Notes()
        for tool in absent:
            notes.applies(HOSTED_DROPPED.name, tool.place)
        return evolve(prompt, tools=kept), notes.found()

    def kinds(self, prompt: Prompt) -> dict[str, str]:
        """Kinds of the tools of *prompt* that the client does not run, by name."""
        kinds = {name: self._kind(tool) for name, tool in _by_name(prompt).items()}
        return {name: kind for name, kind in kinds.items() if kind}

    def runs(self, prompt: Prompt) -> bool:
        """Whether a tool of *prompt* is run here, not by the client and not by the upstream."""
        return any(self._runs(tool) for tool in prompt.tools)

    async def run(self, calls: Sequence[ServerCall], prompt: Prompt) -> list[ServerResult]:
        """Run *calls*, which name tools of `kinds`, side by side; their results in the same order.

        Those over the client's limits are not run, and their results say so.
        """
        tools, uses, most = _by_name(prompt), Counter[str](), prompt.max_tool_calls
        outputs = [ToolOutput()] * len(calls)

        async def run_one(place: int, call: ServerCall) -> None:
            outputs[place] = await self._output(call, tools[call.name])

        async with anyio.create_task_group() as group:
            for place, call in enumerate(calls):
                uses[call.name] += 1
                limit = tools[call.name].options.get("max_uses")
                if limit is not None and uses[call.name] > limit:
                    outputs[place] = _exceeded(f"The tool {call.name} may be used {limit} times.")
                elif most is not None and place >= most:
                    outputs[place] = _exceeded(f"Tools may be used {most} times in one answer.")
                else:
                    group.start_soon(run_one, place, call)
        return list(map(ServerResult, calls, outputs))

    def _fitting(self, tool: Tool) -> ServerTool | None:
        if tool.hosted:
            return next((each for each in self._tools if each.kind == tool.hosted), None)
        return next((each for each in self._tools if tool.name in each.names), None)

    def _kind(self, tool: Tool) -> str:
        if tool.hosted:
            return "" if self._is_upstreams(tool) else tool.hosted
        fitting = self._fitting(tool)
        return fitting.kind if fitting is not None else ""

    def _absent(self, tool: Tool) -> bool:
        return bool(tool.hosted) and not self._is_upstreams(tool) and self._fitting(tool) is None

    def _runs(self, tool: Tool) -> bool:
        return tool.hosted not in self._upstream_kinds and self._fitting(tool) is not None

    def _is_upstreams(self, tool: Tool) -> bool:
        """Whether the service runs a hosted tool: one of its kinds, or one of its own API's that nobody knows here."""
        return tool.hosted in self._upstream_kinds or (tool.opaque is not None and self._fitting(tool) is None)

    def _is_doubled(self, tool: Tool) -> bool:
        """Whether a tool that is run here would be sent to a service of its API as one for the service to run."""
        return tool.opaque is not None and self._runs(tool)

    async def _output(self, call: ServerCall, tool: Tool) -> ToolOutput:
        """Run one call of *tool*."""
        fitting = self._fitting(tool)
        if fitting is None:
            return ToolOutput(text=f"The tool {call.name} is not available here.", error_code=UNAVAILABLE)
        return await self._run(fitting, call, tool.options)

    def _note(self, tool: ServerTool, call: ServerCall, error: Exception) -> None:
        """Log a failure; each kind of one has its traceback once."""
        kind = f"{type(tool).__name__} {type(error).__name__}"
        traceback = None if kind in self._told else error
        self._told.add(kind)
        _log.warning("%s failed: %s", _named(tool, call), type(error).__name__, exc_info=traceback)

    async def _run(self, tool: ServerTool, call: ServerCall, options: Mapping[str, Any]) -> ToolOutput:
        try:
            with anyio.fail_after(self._timeout):
                output: object = await tool.call(call.input, options)
            if not (isinstance(output, ToolOutput) and isinstance(output.text, str)):
                raise TypeError(f"call gave {_given(output)}; it must give a kiro_asgi.ToolOutput")
            return evolve(output, hits=tuple(hit for hit in output.hits if _wanted(hit.url, options)))
        except (TimeoutError, UpstreamTimeout):
            self._hosted.late(TOOLS, _named(tool, call), f"took longer than {self._timeout:g} s (server_tool_timeout)")
            text = f"The tool {call.name} took longer than {self._timeout:g} seconds."
            return ToolOutput(text=text, error_code=UNAVAILABLE)
        except KiroAsgiError as error:
            code = next((code for kind, code in _CODES if isinstance(error, kind)), UNAVAILABLE)
            return ToolOutput(text=f"The tool {call.name} failed: {error.message}", error_code=code)
        except Exception as error:  # noqa: BLE001 - a tool may raise anything, and the answer is half sent
            self._note(tool, call, error)
            return ToolOutput(text=f"The tool {call.name} failed.", error_code=UNAVAILABLE)


def _named(tool: ServerTool, call: ServerCall) -> str:
    return f"the tool {type(tool).__name__} ({call.name[:_SHOWN]})"


def _given(output: object) -> str:
    """The type of *output*, in words."""
    if isinstance(output, ToolOutput):
        return f"a ToolOutput with {type(output.text).__name__} for its text"
    return f"{type(output).__name__}"


def _exceeded(text: str) -> ToolOutput:
    return ToolOutput(text=text, error_code="max_uses_exceeded")


def _demanded(tools: Sequence[Tool]) -> RequestError:
    """The refusal of a demand for one of these *tools*, which do not exist here."""
    named = ", ".join(f"{tool.hosted} ({tool.place})" for tool in tools[:_MAX_NAMED])
    message = (
        f"tool_choice demands a call of {named}, which the service behind this model does not have: "
        "let the model choose, or demand another tool"
    )
    return RequestError(message, code="unsupported_value", param=tools[0].place)


def _by_name(prompt: Prompt) -> dict[str, Tool]:
    """Of tools with the same name, the first: the one that upstreams are sent."""
    return {tool.name: tool for tool in reversed(prompt.tools)}


def _wanted(url: str, options: Mapping[str, Any]) -> bool:
    """Whether a page is from where the client wants pages from."""
    allowed, blocked = options.get("allowed_domains", ()), options.get("blocked_domains", ())
    if allowed and not any(_within(url, domain) for domain in allowed):
        return False
    return not any(_within(url, domain) for domain in blocked)


def _within(url: str, domain: str) -> bool:
    """Whether *url* is of *domain*, such as ``example.org`` or ``example.org/blog``, or of a domain below it."""
    place, (host, _, path) = _PLACE.match(url), domain.partition("/")
    if place is None or not f".{place[1]}".lower().endswith(f".{host.lower()}"):
        return False
    return not path or f"{place[2]}/".startswith(f"/{path.strip('/')}/")
