"""Requests of each API whose dialect knows earlier ones: elements of which arrays are made, plain ones first."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from kiro_asgi.dialects.anthropic.dialect import AnthropicMessages
from kiro_asgi.dialects.base import RecallingDialect
from kiro_asgi.dialects.openai_chat.dialect import OpenAIChat
from kiro_asgi.dialects.openai_responses.dialect import OpenAIResponses
from kiro_asgi.dialects.openai_responses.sealing import Sealer
from kiro_asgi.model.prompt import ThinkingPart

ODD = ("5", "null", "[]", "")
"""Elements that are none in any API, and an array that ends with a comma."""


@frozen(kw_only=True)
class Api:
    """One API."""

    name: str
    """As of the corpus."""

    dialect: Callable[[str], RecallingDialect] = field(repr=False)
    """That of a client."""

    head: str
    """Members that every request has."""

    array: str
    """Name of the array that a conversation is."""

    messages: Sequence[str] = field(repr=False)
    """Elements of it: eight plain ones, of which the first begins a conversation, and others, some of them mistakes."""

    tools: Sequence[str] = field(repr=False)
    """Tools, of which the first is plain."""

    more: Sequence[str] = field(repr=False)
    """Further members of a body."""

    stories: Mapping[str, Sequence[Sequence[str]]] = field(repr=False)
    """What becomes of a conversation, where more than one message has to do with it: `messages` of its requests."""

    call: Callable[[int, str], Sequence[Mapping[str, Any]]] = field(repr=False)
    """Elements of a turn of that number with a call, and a result of some length."""

    tool: Callable[[str, Any], Mapping[str, Any]] = field(repr=False)
    """A tool of that name and schema."""

    def body(self, messages: Sequence[str], tools: Sequence[str] = (), more: str = "") -> bytes:
        """A request."""
        listed = f',"tools":[{",".join(tools)}]' if tools else ""
        return f'{{{self.head}{listed},"{self.array}":[{",".join(messages)}]{more}}}'.encode()

    def conversation(self, turns: int, text: str = "word ") -> bytes:
        """A request as agents send it."""
        messages = [it for number in range(turns) for it in self.call(number, text)]
        schema = {"type": "object", "properties": {"a": {"type": "string"}}}
        given = [json.dumps(each) for each in messages]
        return self.body([self.messages[0], *given], [json.dumps(self.tool("f", schema))])

    def grown(self, body: Mapping[str, Any]) -> Iterator[bytes]:
        """*body* as a conversation of that many turns sends it, the last twice, and after that from the middle."""
        counts = range(1, len(body[self.array]) + 1)
        for count in (*list(counts)[-12:], counts[-1], 1 + counts[-1] // 2):
            yield json.dumps({**body, self.array: body[self.array][:count]}).encode()


# The Messages API.


_USE = '{"type":"tool_use","id":"t","name":"f","input":{"a":[1,{"b":null}]}}'
_RESULT = '{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"é"},{"type":"new"}]}'
_MEMBER = '{"type":"tool_use","id":"t","name":"wait","toolset_name":"computer","input":{"duration":1}}'
_USER, _OTHER, _ANSWER = (
    '{"role":"user","content":"a"}',
    '{"role":"user","content":"A"}',
    '{"role":"assistant","content":"b"}',
)
_SYSTEM, _UNKNOWN = '{"role":"system","content":"d"}', '{"role":"tool","content":"e"}'
_SUMMARY = '{"role":"assistant","content":[{"type":"compaction","content":"all of it"}]}'


def _use(number: int, text: str) -> Sequence[Mapping[str, Any]]:
    call = {"type": "tool_use", "id": f"t{number}", "name": "f", "input": {"a": text * 4}}
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": [{"type": "text", "text": text * 20}]}
    return {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}


MESSAGES = Api(
    name="anthropic",
    dialect=lambda _: AnthropicMessages(),
    head='"model":"m","max_tokens":9',
    array="messages",
    messages=(
        _USER,
        _OTHER,
        '{"role":"user","content":"\\ud800 } ] , [ {"}',
        _ANSWER,
        f'{{"role":"assistant","content":[{_USE}]}}',
        f'{{"role":"user","content":[{_RESULT}]}}',
        '{"role":"user","content":[]}',
        '{"role":"user","content":[{"type":"text","text":"c","cache_control":{"type":"ephemeral"},"more":1}],"own":2}',
        _SYSTEM,
        _UNKNOWN,
        _SUMMARY,
        '{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"f"}}]}',
        '{"role":"user","content":[{"type":"document","context":"x","source":{"type":"text","data":"y"}}]}',
        '{"role":"user","content":[{"type":"later"},{"type":"text","text":"f"}]}',
        '{"role":"user"}',
        '{"role":"user","content":1e999}',
        '{"role":"user","content":NaN}',
        '{"role":"user","content":"a"',
        f'{{"role":"assistant","content":[{_MEMBER}]}}',
        *ODD,
    ),
    tools=(
        '{"name":"f","input_schema":{"type":"object"}}',
        '{"name":"f","description":"again","input_schema":{}}',
        '{"name":"g","description":"\\u00e9","input_schema":{"type":"object","properties":{"a":{}}},"defer_loading":true}',
        '{"type":"web_search_20250305","name":"web_search","max_uses":3}',
        '{"type":"web_search_20250305","name":"web_search","max_uses":0}',
        '{"description":"nameless"}',
        '{"type":"computer_toolset_20260801","configs":{"zoom":{"enabled":false}}}',
        '{"type":"browser_toolset_20260801"}',
        '{"name":"computer_wait","input_schema":{"type":"object"}}',
    ),
    more=(
        ',"messages":[]',
        ',"tools":null',
        ',"m\\u0065ssages":[{"role":"user","content":"z"}]',
        ',"tool_choice":{"type":"tool","name":"g"}',
    ),
    stories={
        "a summary is taken back": ([_USER, _SUMMARY, _USER], [_USER, _ANSWER, _USER]),
        "a summary comes": ([_USER, _ANSWER, _USER], [_USER, _ANSWER, _SUMMARY, _USER]),
        "system text between": ([_USER, _SYSTEM, _USER], [_USER, _ANSWER, _USER], [_USER, _SYSTEM, _USER]),
        "system text at the end": ([_USER, _SYSTEM], [_USER, _SYSTEM, _USER]),
        "an unknown role": ([_USER, _UNKNOWN, _USER], [_USER, _UNKNOWN, _OTHER]),
        "a turn is taken back": ([_USER, _ANSWER, _USER], [_USER, _ANSWER]),
        "another order": ([_USER, _ANSWER, _USER], [_USER, _USER, _ANSWER], [_USER, _ANSWER, _USER]),
        "a mistake between": ([_USER, _ANSWER], [_USER, _ANSWER, "5"], [_USER, _ANSWER, _USER]),
    },
    call=_use,
    tool=lambda name, schema: {"name": name, "input_schema": schema},
)


# Chat Completions.


def _function(name: str, more: str = "") -> str:
    return f'{{"type":"function","function":{{"name":"{name}","parameters":{{"type":"object"}}{more}}}}}'


_TOOL_CALL = '{"id":"t","type":"function","function":{"name":"f","arguments":"{\\"a\\": [1, {\\"b\\": null}]}"}}'
_CALLING = f'{{"role":"assistant","content":null,"tool_calls":[{_TOOL_CALL}]}}'
_TOLD = '{"role":"tool","tool_call_id":"t","content":[{"type":"text","text":"é"}]}'
_DEVELOPER = '{"role":"developer","content":[{"type":"text","text":"d","more":1}]}'
_OLD_CALL = '{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}'
_OLD_RESULT = '{"role":"function","name":"f","content":"r"}'
_AUDIO = '{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"QQ==","format":"wav"}}]}'
_DEEP = '{"a":' * 200 + "1" + "}" * 200


def _chat_call(number: int, text: str) -> Sequence[Mapping[str, Any]]:
    function = {"name": "f", "arguments": json.dumps({"a": text * 4})}
    call = {"id": f"t{number}", "type": "function", "function": function}
    result = {"role": "tool", "tool_call_id": f"t{number}", "content": text * 20}
    return {"role": "assistant", "content": None, "tool_calls": [call]}, result


CHAT = Api(
    name="openai",
    dialect=lambda _: OpenAIChat(),
    head='"model":"m"',
    array="messages",
    messages=(
        _USER,
        _OTHER,
        '{"role":"user","content":"\\ud800 } ] , [ {"}',
        _ANSWER,
        _CALLING,
        _TOLD,
        _SYSTEM,
        '{"role":"user","content":[{"type":"text","text":"c","more":1}],"name":"n"}',
        _DEVELOPER,
        _OLD_CALL,
        _OLD_RESULT,
        '{"role":"system","content":""}',
        '{"role":"assistant","content":[{"type":"thinking","thinking":"h","signature":"s"}],"reasoning":"i"}',
        f'{{"role":"assistant","content":[{_USE}]}}',
        f'{{"role":"user","content":[{_RESULT}]}}',
        _AUDIO,
        '{"role":"user","content":[{"type":"file","file":{"file_data":"data:text/plain;base64,8J+YgA=="}}]}',
        '{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}',
        '{"role":"user","content":[{"type":"later"}]}',
        '{"role":"later","content":"e"}',
        '{"role":"user"}',
        '{"role":"user","content":1e999}',
        '{"role":"user","content":"a"',
        *ODD,
    ),
    tools=(
        _function("f"),
        _function("g", ',"strict":true,"own":1'),
        _function("f", ',"description":"again \\u00e9"'),
        '{"type":"function","name":"flat","parameters":{}}',
        '{"type":"web_search"}',
        '{"type":"file_search"}',
        '{"type":"custom","custom":{"name":"c"}}',
        '{"type":"function","function":{"name":""}}',
        '{"type":"function"}',
        f'{{"type":"function","function":{{"name":"deep","parameters":{_DEEP}}}}}',
    ),
    more=(
        ',"messages":[]',
        ',"tools":null',
        ',"m\\u0065ssages":[{"role":"user","content":"z"}]',
        ',"tool_choice":"required"',
        ',"tool_choice":{"type":"function","function":{"name":"g"}}',
        ',"tool_choice":{"type":"allowed_tools","allowed_tools":{"tools":[{"type":"function","name":"f"}]}}',
        ',"functions":[{"name":"f"}],"function_call":{"name":"f"}',
        ',"web_search_options":{}',
        ',"n":2',
    ),
    stories={
        "only system text": ([_SYSTEM], [_SYSTEM, _DEVELOPER], [_SYSTEM, _DEVELOPER, _USER], [_SYSTEM, _DEVELOPER]),
        "system text before and after": ([_SYSTEM, _USER, _SYSTEM], [_SYSTEM, _USER, _SYSTEM, _OTHER]),
        "a result of a known call": ([_USER, _CALLING], [_USER, _CALLING, _TOLD], [_USER, _CALLING, _TOLD, _TOLD]),
        "a call is taken back": ([_USER, _CALLING, _TOLD], [_USER, _ANSWER, _TOLD]),
        "a function is called twice": (
            [_USER, _OLD_CALL, _OLD_RESULT],
            [_USER, _OLD_CALL, _OLD_RESULT, _OLD_CALL, _OLD_RESULT],
            [_USER, _OLD_CALL, _OLD_RESULT, _OLD_RESULT],
        ),
        "what is refused elsewhere": ([_USER, _AUDIO], [_USER, _AUDIO, _USER]),
        "a turn is taken back": ([_USER, _ANSWER, _USER], [_USER, _ANSWER]),
        "another order": ([_USER, _ANSWER, _USER], [_USER, _USER, _ANSWER], [_USER, _ANSWER, _USER]),
        "a mistake between": ([_USER, _ANSWER], [_USER, _ANSWER, "5"], [_USER, _ANSWER, _USER]),
    },
    call=_chat_call,
    tool=lambda name, schema: {"type": "function", "function": {"name": name, "parameters": schema}},
)

# The Responses API.


def _sealer(client: str) -> Sealer:
    return Sealer.create(b"key", client)


_SEALS = [_sealer(client).seal(ThinkingPart(f"thought of {client}")) for client in ("one", "two")]
_SUMMARIES = [_sealer(client).seal_summary(f"summary of {client}") for client in ("one", "two")]
_ITEM_USER, _ITEM_ANSWER = '{"role":"user","content":"a"}', '{"type":"message","role":"assistant","content":"b"}'
_ITEM_CALL = '{"type":"function_call","call_id":"t","name":"f","arguments":"{\\"a\\": [1, {\\"b\\": null}]}"}'
_ITEM_RESULT = '{"type":"function_call_output","call_id":"t","output":[{"type":"input_text","text":"é"}]}'
_ITEM_DEVELOPER = '{"type":"message","role":"developer","content":[{"type":"input_text","text":"d","more":1}]}'
_ITEM_SEALED = f'{{"type":"reasoning","summary":[],"encrypted_content":"{_SEALS[0]}"}}'
_ITEM_SUMMARY = f'{{"type":"compaction","encrypted_content":"{_SUMMARIES[0]}"}}'
_ITEM_TOOLS = '{"type":"additional_tools","tools":[{"type":"function","name":"f"},{"type":"function","name":"h"}]}'
_ITEM_SEARCH = '{"type":"tool_search_call","id":"i","call_id":"s","execution":"client","arguments":{"query":"q"}}'
_ITEM_FOUND = '{"type":"tool_search_output","call_id":"s","tools":[{"type":"function","name":"h"}]}'
_ITEM_TRIGGER = '{"type":"compaction_trigger"}'
_ITEM_FILE = '{"type":"input_file","file_id":"f"}'


def _item_call(number: int, text: str) -> Sequence[Mapping[str, Any]]:
    arguments = json.dumps({"a": text * 4})
    call = {"type": "function_call", "call_id": f"t{number}", "name": "f", "arguments": arguments}
    return call, {"type": "function_call_output", "call_id": f"t{number}", "output": text * 20}


RESPONSES = Api(
    name="responses",
    dialect=lambda client: OpenAIResponses(_sealer(client)),
    head='"model":"m"',
    array="input",
    messages=(
        _ITEM_USER,
        '{"role":"user","content":"A"}',
        '{"role":"user","content":"\\ud800 } ] , [ {"}',
        _ITEM_ANSWER,
        _ITEM_CALL,
        _ITEM_RESULT,
        _ITEM_SEALED,
        '{"role":"user","content":[{"type":"input_text","text":"c","more":1}],"own":2}',
        _ITEM_DEVELOPER,
        _ITEM_SUMMARY,
        f'{{"type":"reasoning","summary":[],"encrypted_content":"{_SEALS[1]}"}}',
        f'{{"type":"compaction","encrypted_content":"{_SUMMARIES[1]}"}}',
        '{"type":"compaction"}',
        _ITEM_TOOLS,
        _ITEM_SEARCH,
        _ITEM_FOUND,
        _ITEM_TRIGGER,
        '{"type":"reasoning","summary":[{"type":"summary_text","text":"h"}],"encrypted_content":"of another server"}',
        '{"type":"web_search_call","id":"w","status":"completed","action":{"query":"q"}}',
        '{"type":"custom_tool_call","call_id":"c","name":"g","input":"x"}',
        '{"type":"custom_tool_call_output","call_id":"c","output":"y"}',
        '{"type":"local_shell_call","id":"l","action":{"type":"exec","command":["ls"],"env":{}},"status":"completed"}',
        '{"type":"local_shell_call_output","id":"l","output":"z"}',
        '{"role":"system","content":""}',
        f'{{"role":"user","content":[{_ITEM_FILE}]}}',
        '{"role":"user","content":[{"type":"input_file","file_data":"data:text/plain;base64,8J+YgA=="}]}',
        '{"type":"later","call_id":"t"}',
        '{"type":"item_reference","id":"r"}',
        '{"role":"user"}',
        '{"role":"user","content":1e999}',
        '{"role":"user","content":"a"',
        *ODD,
    ),
    tools=(
        '{"type":"function","name":"f","parameters":{"type":"object"}}',
        '{"type":"function","name":"g","strict":true,"own":1}',
        '{"type":"function","name":"f","description":"again \\u00e9"}',
        '{"type":"custom","name":"c","format":{"type":"text"}}',
        '{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"},{"type":"custom","name":"c"}]}',
        '{"type":"web_search"}',
        '{"type":"local_shell"}',
        '{"type":"tool_search","execution":"client"}',
        '{"type":"function","function":{"name":"nested"}}',
        '{"type":"later"}',
        '{"type":"function","name":""}',
        '{"type":"function"}',
        f'{{"type":"function","name":"deep","parameters":{_DEEP}}}',
    ),
    more=(
        ',"input":[]',
        ',"tools":null',
        ',"\\u0069nput":[{"role":"user","content":"z"}]',
        ',"input":"z"',
        ',"tool_choice":"required"',
        ',"tool_choice":{"type":"function","name":"g"}',
        ',"tool_choice":{"type":"allowed_tools","tools":[{"type":"function","name":"f"}]}',
        ',"instructions":"i","store":false',
        ',"n":2,"conversation":"conv_1"',
    ),
    stories={
        "only system text": ([_ITEM_DEVELOPER], [_ITEM_DEVELOPER] * 2, [_ITEM_DEVELOPER, _ITEM_USER]),
        "system text before and after": (
            [_ITEM_DEVELOPER, _ITEM_USER, _ITEM_DEVELOPER],
            [_ITEM_DEVELOPER, _ITEM_USER, _ITEM_DEVELOPER, _ITEM_ANSWER],
        ),
        "a result of a known call": (
            [_ITEM_USER, _ITEM_CALL],
            [_ITEM_USER, _ITEM_CALL, _ITEM_RESULT],
            [_ITEM_USER, _ITEM_CALL, _ITEM_RESULT, _ITEM_RESULT],
        ),
        "a call is taken back": ([_ITEM_USER, _ITEM_CALL, _ITEM_RESULT], [_ITEM_USER, _ITEM_ANSWER, _ITEM_RESULT]),
        "a summary comes": (
            [_ITEM_USER, _ITEM_CALL, _ITEM_RESULT],
            [_ITEM_USER, _ITEM_CALL, _ITEM_RESULT, _ITEM_SUMMARY],
            [_ITEM_USER, _ITEM_CALL, _ITEM_RESULT, _ITEM_SUMMARY, _ITEM_USER],
            [_ITEM_USER, _ITEM_CALL, _ITEM_RESULT, _ITEM_SUMMARY, _ITEM_USER, _ITEM_CALL],
        ),
        "a summary is taken back": (
            [_ITEM_USER, _ITEM_CALL, _ITEM_SUMMARY, _ITEM_USER],
            [_ITEM_USER, _ITEM_CALL, _ITEM_SUMMARY, _ITEM_USER],
            [_ITEM_USER, _ITEM_CALL, _ITEM_RESULT],
        ),
        "a second summary": (
            [_ITEM_USER, _ITEM_SUMMARY, _ITEM_ANSWER, _ITEM_USER],
            [_ITEM_USER, _ITEM_SUMMARY, _ITEM_ANSWER, _ITEM_USER, _ITEM_SUMMARY],
            [_ITEM_USER, _ITEM_SUMMARY, _ITEM_ANSWER, _ITEM_USER, _ITEM_SUMMARY, _ITEM_USER],
        ),
        "a summary is asked for": (
            [_ITEM_USER, _ITEM_ANSWER, _ITEM_TRIGGER],
            [_ITEM_USER, _ITEM_ANSWER, _ITEM_TRIGGER, _ITEM_USER],
            [_ITEM_USER, _ITEM_ANSWER, _ITEM_TRIGGER],
        ),
        "tools are found": (
            [_ITEM_USER, _ITEM_SEARCH, _ITEM_FOUND, _ITEM_TOOLS],
            [_ITEM_USER, _ITEM_SEARCH, _ITEM_FOUND, _ITEM_TOOLS, _ITEM_USER],
            [_ITEM_USER, _ITEM_ANSWER],
        ),
        "what is sealed": ([_ITEM_USER, _ITEM_SEALED, _ITEM_ANSWER], [_ITEM_USER, _ITEM_SEALED, _ITEM_USER]),
        "a turn is taken back": ([_ITEM_USER, _ITEM_ANSWER, _ITEM_USER], [_ITEM_USER, _ITEM_ANSWER]),
        "another order": (
            [_ITEM_USER, _ITEM_ANSWER, _ITEM_USER],
            [_ITEM_USER, _ITEM_USER, _ITEM_ANSWER],
            [_ITEM_USER, _ITEM_ANSWER, _ITEM_USER],
        ),
        "a mistake between": ([_ITEM_USER, _ITEM_ANSWER], [_ITEM_USER, _ITEM_ANSWER, "5"], [_ITEM_USER, _ITEM_ANSWER]),
    },
    call=_item_call,
    tool=lambda name, schema: {"type": "function", "name": name, "parameters": schema},
)

APIS = (MESSAGES, CHAT, RESPONSES)
