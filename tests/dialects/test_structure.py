from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, Literal

import pytest
from attrs import field, frozen
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.dialects.structure import Raw, Tagged, make_converter, read_json, structure, structure_value
from kiro_asgi.errors import RequestError
from kiro_asgi.limits import REQUEST_DEPTH


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@frozen
class Text:
    text: str


@frozen
class Group:
    items: tuple[Item, ...]


Item = Text | Group | Raw


@frozen
class Everything:
    name: str = ""
    count: int = 0
    share: float = 0.0
    flag: bool = False
    maybe: int | None = None
    names: tuple[str, ...] = ()
    numbers: list[float] | None = None
    content: str | tuple[Item, ...] | None = None
    item: Item | None = None
    table: Mapping[str, Any] | None = None
    counts: dict[str, int] = field(factory=dict)
    colour: Colour | None = None
    word: Literal["a", "b"] = "a"
    anything: Any = None
    either: int | float | bool | str | None = None


@frozen
class Strict:
    model: str
    inner: Text
    messages: tuple[Text, ...] = ()


CONVERTER = make_converter(Tagged(Item, {"text": Text, "group": Group}))
DEFAULTED = make_converter(Tagged(Item, {"text": Text}, default="text"))


def read(**fields: Any) -> Everything:
    return structure(json.dumps(fields).encode(), Everything, converter=CONVERTER)


def refusal(value: Any, cls: type = Everything, **options: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        structure_value(value, cls, **{"converter": CONVERTER, **options})
    return caught.value


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        pytest.param("name", "a", "a", id="string"),
        pytest.param("count", 2**63 - 1, 2**63 - 1, id="integer"),
        pytest.param("share", 1, 1.0, id="integer-for-a-float"),
        pytest.param("share", 0.5, 0.5, id="float"),
        pytest.param("flag", True, True, id="boolean"),
        pytest.param("maybe", None, None, id="null-where-optional"),
        pytest.param("names", ["a", "b"], ("a", "b"), id="tuple"),
        pytest.param("numbers", [1, 2.5], [1.0, 2.5], id="list"),
        pytest.param("content", "a", "a", id="union-string"),
        pytest.param("content", [], (), id="union-array"),
        pytest.param("content", [{"type": "text", "text": "a", "x": 1}], (Text("a"),), id="tagged"),
        pytest.param("content", [{"type": "new", "y": 1}], (Raw({"type": "new", "y": 1}),), id="F047-unknown-tag"),
        pytest.param(
            "item",
            {"type": "group", "items": [{"type": "group", "items": []}]},
            Group((Group(()),)),
            id="recursive",
        ),
        pytest.param("table", {"a": [None, {"b": 1}]}, {"a": [None, {"b": 1}]}, id="mapping-of-anything"),
        pytest.param("counts", {"a": 1}, {"a": 1}, id="mapping-of-integers"),
        pytest.param("colour", "red", Colour.RED, id="enumeration"),
        pytest.param("word", "b", "b", id="literal"),
        pytest.param("anything", [1, "a", None], [1, "a", None], id="anything"),
        pytest.param("either", True, True, id="union-of-scalars-bool"),
        pytest.param("either", 1.5, 1.5, id="union-of-scalars-float"),
        pytest.param("unknown", 1, None, id="unknown-field"),
    ],
)
def test_takes(field: str, value: Any, expected: Any) -> None:
    """Legal values arrive as they are, unknown fields and objects pass."""
    taken = getattr(read(**{field: value}), field, None)

    assert taken == expected
    assert type(taken) is type(expected)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        pytest.param("name", 1, "name: expected a string, got an integer", id="string-not-integer"),
        pytest.param("name", None, "name: expected a string, got null", id="string-not-null"),
        pytest.param("name", ["a"], "name: expected a string, got an array", id="string-not-array"),
        pytest.param("count", True, "count: expected an integer, got a boolean", id="integer-not-boolean"),
        pytest.param("count", "1", "count: expected an integer, got a string", id="integer-not-string"),
        pytest.param("count", 1.0, "count: expected an integer, got a number", id="integer-not-float"),
        pytest.param("share", False, "share: expected a number, got a boolean", id="float-not-boolean"),
        pytest.param("share", 10**400, "share: number out of range", id="float-too-large"),
        pytest.param("count", 2**63, "count: number out of range", id="integer-too-large"),
        pytest.param("count", -(10**400), "count: number out of range", id="integer-too-small"),
        pytest.param("flag", 1, "flag: expected a boolean, got an integer", id="boolean-not-integer"),
        pytest.param("flag", "false", "flag: expected a boolean, got a string", id="boolean-not-string"),
        pytest.param("maybe", "1", "maybe: expected an integer or null, got a string", id="optional"),
        pytest.param("names", "ab", "names: expected an array, got a string", id="array-not-string"),
        pytest.param("names", {"a": 1}, "names: expected an array, got an object", id="array-not-object"),
        pytest.param("names", ["a", 1], "names[1]: expected a string, got an integer", id="item"),
        pytest.param("content", 1, "content: expected a string or an array or null, got an integer", id="union"),
        pytest.param("content", ["a"], "content[0]: expected an object, got a string", id="tagged-not-string"),
        pytest.param("content", [{"text": "a"}], "content[0].type: required field missing", id="tag-missing"),
        pytest.param(
            "content", [{"type": 1}], "content[0].type: expected a string, got an integer", id="tag-not-string"
        ),
        pytest.param("content", [{"type": "text"}], "content[0].text: required field missing", id="field-of-tagged"),
        pytest.param("item", "text", "item: expected an object or null, got a string", id="object-not-string"),
        pytest.param(
            "item",
            {"type": "group", "items": [{"type": "group", "items": [{"type": "text", "text": 1}]}]},
            "item.items[0].items[0].text: expected a string, got an integer",
            id="recursive",
        ),
        pytest.param("table", [], "table: expected an object or null, got an array", id="mapping-not-array"),
        pytest.param("counts", 1, "counts: expected an object, got an integer", id="typed-mapping"),
        pytest.param("counts", {"a": 1, "b": "x"}, "counts.b: expected an integer, got a string", id="mapping-value"),
        pytest.param("colour", "green", 'colour: expected "red" or "blue", got "green"', id="enumeration"),
        pytest.param("word", 1, 'word: expected "a" or "b", got an integer', id="literal-not-integer"),
        pytest.param("word", "c", 'word: expected "a" or "b", got "c"', id="literal"),
        pytest.param(
            "either", [], "either: expected a string or a number or a boolean or null, got an array", id="many"
        ),
    ],
)
def test_refuses(field: str, value: Any, message: str) -> None:
    """Nothing is coerced; the message names the place and what stands there, and so does ``param``."""
    error = refusal({field: value})

    assert error.message == message
    assert error.param == message.partition(":")[0]
    assert error.status == 400


def test_every_problem_is_named_first_things_first() -> None:
    """Problems come in the order of the fields; ``code`` and ``param`` are those of the first."""
    error = refusal({"inner": {"text": None}, "messages": [{"text": "a"}, {}, 3]}, Strict)

    assert error.message == (
        "model: required field missing; inner.text: expected a string, got null; "
        "messages[1].text: required field missing; messages[2]: expected an object, got an integer"
    )
    assert (error.param, error.code) == ("model", "missing_required_parameter")
    assert refusal({"name": 1}).code == "invalid_value"


def test_the_words_for_a_missing_field_are_the_dialects() -> None:
    """A dialect may say it in the words that its clients look for; a place in a document may be put before."""
    assert refusal({"inner": {}}, Strict, missing="Field required").message == (
        "model: Field required; inner.text: Field required"
    )
    assert refusal({}, Text, at="a[0]").param == "a[0].text"


def test_messages_are_bounded() -> None:
    """Neither many problems nor long values make a long message, and the search for problems ends early."""
    assert refusal({"names": [1] * 1000}).message.endswith("names[4]: expected a string, got an integer; and 1 more")
    assert len(refusal({"word": "x" * 1000}).message) < 100
    assert len(refusal({"counts": {"k" * 1000: "x"}}).message) < 200


def test_a_default_tag() -> None:
    """Where a union has a default, an absent or null tag means it."""
    for item in ({"text": "a"}, {"text": "a", "type": None}):
        assert structure_value({"item": item}, Everything, converter=DEFAULTED).item == Text("a")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(b"", "invalid_json", id="empty"),
        pytest.param(b"{", "invalid_json", id="cut"),
        pytest.param(b'{"name":"\xff"}', "invalid_json", id="R20-not-utf8"),
        pytest.param(b'{"share":NaN}', "invalid_json", id="R21-nan"),
        pytest.param(b'{"share":1e400}', "invalid_json", id="R21-overflow"),
        pytest.param(b'{"count":' + b"1" * 5000 + b"}", "invalid_json", id="R21-5000-digits"),
        pytest.param(b"[]", "invalid_value", id="array"),
        pytest.param(b'"name"', "invalid_value", id="string"),
        pytest.param(b"null", "invalid_value", id="null"),
    ],
)
def test_refuses_bodies(body: bytes, code: str) -> None:
    """What is no JSON object is refused as the client's fault."""
    with pytest.raises(RequestError) as caught:
        structure(body, Everything, converter=CONVERTER)

    assert (caught.value.status, caught.value.code, caught.value.param) == (400, code, "")


@pytest.mark.parametrize(
    ("body", "place"),
    [
        pytest.param(b'{"a":1,"b":[0,' + b"[" * 90_000, "b[1]" + "[0]" * 6, id="R19-deep-arrays"),
        pytest.param(b'{"a":' * 100_000, ".".join("a" * 8), id="R19-deep-objects"),
        pytest.param(b'{"a":"\\"{[","' + b"x" * 99 + b'":' + b"[" * 200, "x" * 60 + "[0]" * 7, id="strings"),
        pytest.param(b"[" + b"[]," * 30_000 + b"[" * 200, "", id="far"),
    ],
)
def test_a_body_that_is_too_deep_says_where(body: bytes, place: str) -> None:
    """R19: the first steps of the way are named, and ``param`` has them, unless they are far away."""
    with pytest.raises(RequestError, match=f"nested deeper than {REQUEST_DEPTH} levels") as caught:
        read_json(body)

    assert (caught.value.code, caught.value.param) == ("invalid_json", place)
    assert caught.value.message.startswith(place)


def test_deep_nesting_costs_one_pass() -> None:
    """R19: a problem at the bottom of nested arrays is found without going through them again and again."""
    value: Any = {"type": "text"}
    for _ in range(60):
        value = {"type": "group", "items": [value]}

    assert refusal({"item": value}).param == "item" + ".items[0]" * 60 + ".text"


def test_an_undeclared_union_is_a_bug() -> None:
    """Objects that nothing tells apart are found out when the class is first used."""
    with pytest.raises(TypeError, match="not declared"):
        structure_value({"item": {}}, Everything)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
NAMES = list(Everything.__annotations__)


@given(st.dictionaries(st.sampled_from(NAMES), JSON | st.just([{"type": "group", "items": [{}]}])))
def test_any_object_is_taken_or_refused(value: dict[str, Any]) -> None:
    """R21: whatever JSON comes, there is an instance or a `RequestError`, never another exception."""
    try:
        taken = read(**value)
    except RequestError as exc:
        assert exc.param.startswith(tuple(value))
    else:
        assert isinstance(taken, Everything)
