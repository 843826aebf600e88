"""Items of the Responses API as text for clients of other APIs: images, and code that the service ran.

Source: ``openai.types.responses``, of version 3.57.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.upstreams.media import fenced, image, linked, printed
from kiro_asgi.wire.json import count_of, object_of, objects_of, text_of

Object = Mapping[str, Any]


def _interpreted(item: Object) -> str:
    """The code of a call, and what came of it."""
    code = text_of(item, "code")
    outputs = (_output(each) for each in objects_of(item.get("outputs")))
    return "".join((fenced(code, "python") if code else "", *outputs))


def _output(output: Object) -> str:
    return printed(text_of(output, "logs")) or linked(text_of(output, "url"), "image/*")


def _commands(item: Object) -> str:
    """The commands of a call of the shell."""
    commands = object_of(item.get("action")).get("commands")
    lines = [line for line in commands if type(line) is str] if type(commands) is list else []
    return fenced("\n".join(lines), "bash") if lines else ""


def _printed(item: Object) -> str:
    """What the commands wrote."""
    return "".join(_pieces(item.get("output")))


def _pieces(output: Any) -> Iterator[str]:
    for each in objects_of(output):
        outcome = object_of(each.get("outcome"))
        code = count_of(outcome, "exit_code")
        failed = "timeout" if outcome.get("type") == "timeout" else f"exit code {code}" if code else ""
        yield printed(text_of(each, "stdout"), text_of(each, "stderr"), failed)


def _program(item: Object) -> str:
    code = text_of(item, "code")
    return fenced(code, "javascript") if code else ""


SHOWN: Final[Mapping[str, Callable[[Object], str]]] = MappingProxyType(
    {
        "image_generation_call": image,
        "code_interpreter_call": _interpreted,
        "shell_call": _commands,
        "shell_call_output": _printed,
        "program": _program,
        "program_output": lambda item: printed(text_of(item, "result")),
    }
)
"""Kind of item to its text; items of other kinds are named by a notice."""
