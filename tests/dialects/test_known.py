"""A request that is read with the help of earlier ones is read as it is without them: prompt, places, notes, errors."""

from __future__ import annotations

import base64
import gc
import json
import tracemalloc
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any

import pytest
from attrs import evolve, fields, has
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.asgi.kept.known import Known
from kiro_asgi.dialects.base import RecallingDialect
from kiro_asgi.dialects.known import Element
from kiro_asgi.dialects.openai_responses.sealing import Sealer
from kiro_asgi.errors import KiroAsgiError, RequestError
from kiro_asgi.limits import KNOWN_BY, KNOWN_ELEMENTS
from kiro_asgi.model.prompt import Prompt, Role, ThinkingPart, Turn
from kiro_asgi.stages.estimate import TokenEstimator
from kiro_asgi.upstreams.base import Credential, CredentialKind, ModelCard
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream
from tests.corpus.entries import CORPUS
from tests.dialects.recalled import APIS, CHAT, MESSAGES, RESPONSES, Api
from tests.growth import assert_linear, steps


def kiro(**settings: Any) -> KiroUpstream:
    """The service, asked by these *settings*."""
    return KiroUpstream(settings=KiroSettings(**settings), new_id=lambda: "7f3c2a4e-0000-4000-8000-000000000000")


UPSTREAM = kiro()
UPSTREAMS = (
    UPSTREAM,
    kiro(strip_system_reminders=True, replay_thinking=False, description_limit=20),
    kiro(tool_history="text", cache_points="prefix", max_images=1),
    kiro(payload_bytes=400, trim_history=True, rules_off=("turns.merged", "calls.id_changed")),
)
"""Services that write the same turns in different ways, with what is kept of each other's."""

ESTIMATOR = TokenEstimator()
LATER = Turn(Role.ASSISTANT, "It is."), Turn(Role.USER, "Thanks.")
"""Behind which everything else is history."""

MODEL = ModelCard("claude-sonnet-4.5", images=True)
KEY = Credential(CredentialKind.API_KEY, "ksk_test")
MIB = 1024 * 1024

each_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)


class Spy:
    """What is known of one client, how many elements of requests were, and how often something was remembered.

    Raises:
        AssertionError: From `find`: an element that another client sent.
    """

    def __init__(self, known: Known, client: str = "a client", api: str = "an API") -> None:
        self.known = known.of(client, api)
        self.found = self.times = 0
        self.kept: dict[int, Element] = {}

    def find(self, array: str, first: str, /) -> Sequence[Element]:
        assert self.known is not None
        found = self.known.find(array, first)
        assert all(id(each) in self.kept for each in found), "another client's"
        self.found += len(found)
        return found

    def keep(self, array: str, first: str, elements: Sequence[Element], /) -> None:
        assert self.known is not None
        self.times += 1
        self.kept |= {id(each): each for each in elements}
        self.known.keep(array, first, elements)


def spy() -> Spy:
    """The one client that there is."""
    return Spy(Known(64 * MIB, lambda: 0.0))


def whole(value: Any) -> Any:
    """*value* with all that comparisons leave out: places, marks, members that were not read."""
    if isinstance(value, KiroAsgiError):
        return type(value).__name__, value.message, value.code, value.param
    if isinstance(value, Enum):
        return value
    if has(type(value)):
        names = [each.name for each in fields(type(value)) if each.name != "kept"]
        return type(value).__name__, {name: whole(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {name: whole(it) for name, it in value.items()}
    return [*map(whole, value)] if isinstance(value, list | tuple) else value


def outcome(dialect: RecallingDialect, body: bytes, recalled: Spy | None = None) -> Any:
    """All that comes of *body*: what was read, noted and rendered, or the error."""
    try:
        parsed = dialect.parse(body) if recalled is None else dialect.parse_recalled(body, (), recalled)
        notes = dialect.notes(body, parsed)
    except KiroAsgiError as error:
        return whole(error)
    return whole((parsed, notes, *(sent(parsed.prompt, upstream, MODEL) for upstream in UPSTREAMS)))


def sent(prompt: Prompt, upstream: KiroUpstream, model: ModelCard) -> Any:
    """All that an *upstream* makes of a *prompt* that it was asked before, or the error."""
    try:
        upstream.render(prompt, model, KEY)
        rendered = upstream.render(prompt, model, KEY)
    except KiroAsgiError as error:
        return error
    estimates = upstream.estimate_tokens(rendered, ESTIMATOR), upstream.statistics(rendered)
    return rendered.request.body, rendered.document, rendered.notes, *estimates


def assert_same(*requests: tuple[Api, str, bytes]) -> int:
    """Assert that each body of a client is read alike with and without those before it; returns how many elements were
    known."""
    known, spies = Known(64 * MIB, lambda: 0.0), dict[tuple[str, str], Spy]()
    for api, client, body in requests:
        recalled = spies.setdefault((api.name, client), Spy(known, client, api.name))
        assert outcome(api.dialect(client), body, recalled) == outcome(api.dialect(client), body)
    return sum(each.found for each in spies.values())


def by_two(api: Api, bodies: Iterable[bytes]) -> Iterable[tuple[Api, str, bytes]]:
    """Each of *bodies* from two clients, one after the other."""
    return [(api, client, body) for body in bodies for client in ("one", "two")]


@each_api
def test_every_conversation_of_the_corpus_is_read_alike(api: Api):
    """Whatever clients send, knowing what they sent before changes nothing."""
    entries = [entry.body for entry in CORPUS if entry.api == api.name and len(json.dumps(entry.body)) < MIB]
    found = sum(assert_same(*by_two(api, api.grown(body))) for body in entries if isinstance(body[api.array], list))

    assert found > 4 * len(entries)


GAPS = st.sampled_from(("", "", "", " ", "\n\t"))


def likely(pool: Sequence[str]) -> st.SearchStrategy[str]:
    """Elements of *pool*, mostly of the first and plainest ones."""
    return st.one_of(st.sampled_from(pool[:8]), st.sampled_from(pool[:8]), st.sampled_from(pool))


@st.composite
def arrays(draw: st.DrawFn, pool: Sequence[str], least: int) -> str:
    """The text of an array of elements of *pool*."""
    gap = draw(GAPS)
    return "[" + gap + f"{gap},{gap}".join(draw(st.lists(likely(pool), min_size=least, max_size=6))) + gap + "]"


@st.composite
def bodies(draw: st.DrawFn, api: Api) -> bytes:
    """A body, with its members in any order, some of them twice, and sometimes broken."""
    members = [
        api.head,
        f'"{api.array}":{draw(arrays(api.messages, 1))}',
        f'"tools":{draw(arrays(api.tools, 0))}',
    ]
    members += draw(st.lists(st.sampled_from(api.more), max_size=1).map(lambda names: [name[1:] for name in names]))
    text = draw(st.sampled_from(("", "\ufeff "))) + "{" + ",".join(draw(st.permutations(members))) + "}"
    end = draw(st.sampled_from((None, None, None, None, -1, -2, len(text) // 2)))
    return text[:end].encode()


CLIENTS = st.sampled_from(("one", "two"))


@each_api
@given(st.data())
def test_any_requests_are_read_alike(api: Api, data: st.DataObject):
    """Nothing in earlier requests, legal or not, of whichever client, changes how a later one is read."""
    assert_same(*data.draw(st.lists(st.tuples(st.just(api), CLIENTS, bodies(api)), min_size=2, max_size=5)))


@st.composite
def conversations(draw: st.DrawFn, api: Api) -> list[tuple[Api, str, bytes]]:
    """One conversation as it goes on: messages are added, changed and taken away behind the first; of another client,
    too, who sends what the first one sent before or after."""
    messages, tools, sent = [api.messages[0]], [api.tools[0]], []
    messages += draw(st.lists(st.sampled_from(api.messages[:8]), max_size=3))
    for _ in range(draw(st.integers(2, 5))):
        at = draw(st.integers(1, len(messages)))
        messages[at : at + draw(st.integers(0, 1))] = draw(st.lists(likely(api.messages), max_size=2))
        tools[1:] = draw(st.sampled_from((tools[1:], draw(st.lists(likely(api.tools), max_size=2)))))
        sent.append(api.body(messages, tools, draw(st.sampled_from(("", "", "", "", *api.more)))))
    return [(api, draw(CLIENTS), draw(st.sampled_from((text, text, text, *sent)))) for text in sent]


@each_api
@given(st.data())
def test_a_conversation_that_goes_on_is_read_alike(api: Api, data: st.DataObject):
    """Turn after turn, whatever is changed in between, legal or not."""
    assert_same(*data.draw(conversations(api)))


each_story = pytest.mark.parametrize(
    ("api", "story"), [pytest.param(api, story, id=f"{api.name}: {story}") for api in APIS for story in api.stories]
)


@each_story
def test_what_becomes_of_a_conversation(api: Api, story: str):
    """The cases that have to do with more than one message."""
    texts = [api.body(each) for each in api.stories[story]]
    assert_same(*by_two(api, (texts[0], *texts, *reversed(texts))))


@each_story
def test_what_is_legal_is_not_read_twice(api: Api, story: str):
    """A request that goes on with what is known is read with that, not wholly because something was not carried on."""
    recalled, dialect = spy(), api.dialect("one")
    for messages in (api.stories[story][0], *api.stories[story]):
        found, kept = recalled.found, recalled.times
        with suppress(RequestError):
            dialect.parse_recalled(api.body(messages), (), recalled)
            has_to = api is MESSAGES and any('"compaction"' in each for each in messages)
            assert recalled.times > kept or recalled.found == found or has_to


def test_an_api_knows_nothing_of_another():
    """One client sends the same texts in each of them."""
    shared = [each for each in MESSAGES.messages[:4] if each in CHAT.messages]
    assert shared[0] in RESPONSES.messages
    assert_same(*[(api, "one", api.body(shared[:count])) for count in (2, 2, 3, 4, 3) for api in APIS])


def test_a_toolset_is_named_apart_anew():
    """A function of the client's that comes later, or goes, changes the names of a toolset that is known."""
    first, toolset, clashing = MESSAGES.tools[0], *MESSAGES.tools[-3::2]
    messages = [MESSAGES.messages[0], MESSAGES.messages[18], MESSAGES.messages[5]]
    lists = ((first, toolset), (first, toolset, clashing), (first, toolset, clashing), (first, toolset))
    found = assert_same(*by_two(MESSAGES, (MESSAGES.body(messages, tools) for tools in lists)))

    assert found > 12


@pytest.mark.parametrize(("api", "choice"), [(CHAT, CHAT.more[5]), (RESPONSES, RESPONSES.more[6])])
def test_a_tool_that_was_not_looked_at_is_not_known(api: Api, choice: str):
    """What a choice leaves out may be deeper than a service can read; without the choice, that is found."""
    tools = [api.tools[0], api.tools[-1]]
    chosen, free = api.body(api.messages[:1], tools, choice), api.body(api.messages[:1], tools)

    assert_same(*by_two(api, (chosen, chosen, free, chosen, free)))


@each_api
def test_every_character_counts(api: Api):
    """A conversation that differs in one character is read as it is, wherever that is."""
    messages = (api.messages[0], *api.messages[3:6])
    text, dialect = api.body(messages, api.tools[:1]).decode(), api.dialect("one")
    for at, character in enumerate(text):
        for other in ("b", ",", '"', "") if character in 'a{"}' else ("b",):
            changed, recalled = (text[:at] + other + text[at + 1 :]).encode(), spy()
            for _ in range(2):
                dialect.parse_recalled(text.encode(), (), recalled)
            assert outcome(dialect, changed, recalled) == outcome(dialect, changed)


@each_api
def test_what_is_known_is_not_read_again(api: Api):
    """A message that is known costs a few steps, and one that is new has to be read."""
    dialect = api.dialect("one")

    def taken(turns: int) -> int:
        recalled = spy()
        for earlier in (turns - 2, turns - 1):
            dialect.parse_recalled(api.conversation(earlier), (), recalled)
        body = api.conversation(turns)
        return steps(lambda: dialect.parse_recalled(body, (), recalled))

    def unknown(turns: int) -> int:
        body = api.conversation(turns)
        return steps(lambda: dialect.parse(body))

    known, new = (taken(80) - taken(40)) / 80, (unknown(80) - unknown(40)) / 80
    assert known < 70, (known, new)
    assert new > 2.5 * known, (known, new)


@each_api
def test_what_is_known_is_not_written_again(api: Api):
    """All but the last turns of a conversation, and its tools, are the very items that an earlier request was sent."""
    dialect, recalled, earlier = api.dialect("one"), spy(), list[Any]()
    for turns in (10, 11, 12):
        rendered = UPSTREAM.render(dialect.parse_recalled(api.conversation(turns), (), recalled).prompt, MODEL, KEY)
        state = rendered.document["conversationState"]
        tools = state["currentMessage"]["userInputMessage"]["userInputMessageContext"]["tools"]
        sent = [*state["history"], tools]
        again = [any(item is one for one in earlier) for item in sent]
        earlier = sent

    assert sum(again) >= 2 * 11 and again[-1]


@each_api
def test_what_was_written_of_a_turn_is_forgotten_with_it(api: Api):
    """Nothing of it waits for a collection of cycles, also where neighbours of one side became one message."""
    known, dialect = Known(64 * MIB, lambda: 0.0), api.dialect("one")
    spies, written = Spy(known, "one", api.name), list[Any]()
    body = json.loads(api.conversation(10))
    twice = [body[api.array][0], *body[api.array]]
    gc.disable()
    try:
        for count in (14, 16, 18):
            prompt = dialect.parse_recalled(json.dumps({**body, api.array: twice[:count]}).encode(), (), spies).prompt
            UPSTREAM.render(prompt, MODEL, KEY)
            written += [weakref.ref(turn.kept.made) for turn in prompt.turns if turn.kept.made is not None]
        assert len(written) > 20 and all(each() is not None for each in written)
        del prompt, known, spies
        assert not any(each() for each in written)
    finally:
        gc.enable()


BIG = "x" * 400_000


@each_api
@pytest.mark.parametrize("big", ["neighbour", "result", "tool"])
def test_what_was_written_with_others_is_forgotten_with_them(api: Api, big: str):
    """A turn that is still known holds nothing of one that is not: neither of a neighbour that it was joined to, nor of
    a later result that was moved to it; nor a tool of another."""
    first, told = json.loads(api.messages[0]), told_of(api, "and more")
    (call, _), (_, result) = api.call(0, "a"), api.call(0, "x" * 20_000)
    begun = [first, told, told]
    stories = {
        "neighbour": ([*begun, told_of(api, BIG)], begun),
        "result": ([first, call, told, result], [first, call, told]),
        "tool": (begun, begun),
    }
    tools = [api.tool(f"f{number}", {}) for number in range(3)]
    large = [*tools, api.tool("g", {"title": BIG})] if big == "tool" else tools
    known, dialect = Known(1024 * MIB, lambda: 0.0), api.dialect("one")
    client = known.of("a client", api.name)
    assert client is not None
    bodies = [{**json.loads(api.body(api.messages[:1])), api.array: it} for it in stories[big]]
    UPSTREAM.render(dialect.parse(json.dumps({**bodies[0], "tools": large}).encode()).prompt, MODEL, KEY)
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(3):
            prompt = dialect.parse_recalled(json.dumps({**bodies[0], "tools": large}).encode(), (), client).prompt
            prompt = evolve(prompt, turns=(*prompt.turns, *LATER))
            UPSTREAM.estimate_tokens(UPSTREAM.render(prompt, MODEL, KEY), ESTIMATOR)
            del prompt
        dialect.parse_recalled(json.dumps({**bodies[1], "tools": tools}).encode(), (), client)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()

    assert known.size < len(BIG) // 2
    assert taken < len(BIG) // 2


def told_of(api: Api, text: str) -> dict[str, Any]:
    """A message like the first, with this text."""
    return json.loads(api.messages[0]) | {"content": text}


@each_api
def test_conversations_that_begin_alike_are_all_known(api: Api):
    """Many go on side by side behind one system text and what all are told of their surroundings."""
    dialect, recalled = api.dialect("one"), spy()
    plain = [api.messages[0], api.messages[3], *api.messages[:1] * 20]

    def sent(number: int, count: int) -> bytes:
        own = json.dumps(json.loads(api.messages[0]) | {"content": f"What {number} wants."})
        return api.body([*plain[:2], own, *plain[2:count]])

    found = []
    for count in (3, 4, 10, 20):
        recalled.found = 0
        for number in range(10):
            dialect.parse_recalled(sent(number, count), (), recalled)
        found.append(recalled.found)

    assert found == [0, 10 * 3, 10 * 5, 10 * 11]


@each_api
def test_a_conversation_is_known_from_its_second_request_on(api: Api):
    """Though the first had fewer messages than those by which what is remembered is found."""
    dialect, recalled = api.dialect("one"), spy()
    found = []
    for count in (1, 2, 4, 6):
        dialect.parse_recalled(api.body([*api.messages[:2] * 3][:count]), (), recalled)
        found.append(recalled.found)

    assert found == [0, 1, 3, 7]


@each_api
@pytest.mark.parametrize("length", [0, 100])
def test_reading_what_is_all_new_is_linear(api: Api, length: int):
    """Of however many elements an array is."""
    dialect = api.dialect("one")

    def make(size: int) -> Callable[[], object]:
        message = json.loads(api.messages[0]) | {"content": "x" * length}
        body, recalled = api.body([json.dumps(message)] * size), spy()
        dialect.parse_recalled(body, (), recalled)
        return lambda: dialect.parse_recalled(body, (), recalled)

    assert_linear(make, 200)


@each_api
def test_reading_what_is_almost_known_is_linear(api: Api):
    """Each request differs from the one before in its last element, or in a mistake at its end: all is read twice."""
    dialect = api.dialect("one")

    def make(size: int) -> Callable[[], object]:
        sent, recalled = [api.messages[0]] * size, spy()
        for _ in range(2):
            dialect.parse_recalled(api.body(sent), (), recalled)
        others = [api.body([*sent[:-1], other]) for other in (api.messages[1], api.messages[-4])]
        return lambda: [outcome(dialect, other, recalled) for other in others]

    assert_linear(make, 200)


@each_api
def test_more_elements_than_are_remembered_are_read_all_the_same(api: Api):
    """The cap is on what is remembered."""
    body = api.conversation(KNOWN_ELEMENTS // 2 + KNOWN_BY)

    assert assert_same(*[(api, "one", body)] * 3) == 2 * (1 + KNOWN_BY)  # the tool and the first messages, twice


def told(text: str) -> Callable[[Api], Mapping[str, Any]]:
    """A message with this text."""
    return lambda api: {api.array: [json.loads(api.messages[0]) | {"content": text}]}


def tool(schema: Any, count: int = 1) -> Callable[[Api], Mapping[str, Any]]:
    """Tools with this schema."""
    return lambda api: {"tools": [api.tool(f"f{number}", schema) for number in range(count)]}


@each_api
@pytest.mark.parametrize(
    "members",
    [
        pytest.param(lambda api: {api.array: [json.loads(api.messages[0]) | {"content": ""}] * 4000}, id="empty"),
        pytest.param(told("x" * 400_000), id="one-text"),
        pytest.param(told("é" * 400_000), id="wide-text"),
        pytest.param(told("\U0001f600" + "x" * 400_000), id="one-wide-character"),
        pytest.param(tool({str(number): {} for number in range(9000)}), id="objects"),
        pytest.param(tool({"a": [[]] * 9000}), id="arrays"),
        pytest.param(tool({"a": [10**6 + number for number in range(9000)]}), id="numbers"),
        pytest.param(tool({}, 2000), id="tools"),
        pytest.param(lambda api: json.loads(api.conversation(500)), id="calls"),
    ],
)
@pytest.mark.parametrize("is_escaped", [False, True], ids=["plain", "escaped"])
def test_sizes_are_those_of_memory(api: Api, members: Callable[[Api], Mapping[str, Any]], is_escaped: bool):
    """What is remembered takes no more memory than is counted, whatever its shape."""
    value = {**json.loads(api.body(api.messages[:1])), **members(api)}
    assert_counted(api, json.dumps(value, ensure_ascii=is_escaped).encode())


OPENED, CLOSED, COMMA = "\\u007b", "\\u007d", "\\u002c"


@pytest.mark.parametrize("item", ["[],", "{'':0},", f"{OPENED}{CLOSED}{COMMA}", f"{OPENED}'':0{CLOSED}{COMMA}"])
def test_arguments_that_are_text_count_as_what_they_are(item: str):
    """Brackets and commas within the text of arguments make objects as well, even where they are escaped."""
    text = "{'a':[" + item * 9000 + "0]}"
    function = f'{{"name":"f","arguments":"{text}"}}'.replace("'", '\\"')
    call = f'{{"role":"assistant","tool_calls":[{{"id":"t","type":"function","function":{function}}}]}}'

    assert_counted(CHAT, CHAT.body([CHAT.messages[0], call]))


WIDE = "\U0001f600" + "x" * 400_000


def test_files_that_are_text_count_as_what_they_are():
    """Characters that came as bytes may take four times as many."""
    url = f"data:text/plain;base64,{base64.b64encode(WIDE.encode()).decode()}"
    file = f'{{"role":"user","content":[{{"type":"file","file":{{"file_data":"{url}"}}}}]}}'
    item = f'{{"role":"user","content":[{{"type":"input_file","file_data":"{url}"}}]}}'

    assert_counted(CHAT, CHAT.body([CHAT.messages[0], file]))
    assert_counted(RESPONSES, RESPONSES.body([RESPONSES.messages[0], item]))


@pytest.mark.parametrize("kind", ["reasoning", "compaction"])
def test_what_was_sealed_counts_as_what_it_is(kind: str):
    """So do those of a seal."""
    sealer = Sealer.create(b"key", "one")
    seal = sealer.seal(ThinkingPart(WIDE)) if kind == "reasoning" else sealer.seal_summary(WIDE)
    item = f'{{"type":"{kind}","summary":[],"encrypted_content":"{seal}"}}'

    assert_counted(RESPONSES, RESPONSES.body([RESPONSES.messages[0], item]))


def assert_counted(api: Api, body: bytes) -> None:
    """Assert that what is remembered of *body*, and of what it was sent on as, takes no more memory than is counted."""
    known, dialect = Known(1024 * MIB, lambda: 0.0), api.dialect("one")
    client = known.of("a client", api.name)
    assert client is not None
    dialect.parse(body)
    tracemalloc.start()
    try:
        for _ in range(3):
            prompt = dialect.parse_recalled(body, (), client).prompt
            prompt = evolve(prompt, turns=(*prompt.turns, *LATER))
            with suppress(KiroAsgiError):
                UPSTREAM.estimate_tokens(UPSTREAM.render(prompt, MODEL, KEY), ESTIMATOR)
            del prompt
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert taken < known.size
