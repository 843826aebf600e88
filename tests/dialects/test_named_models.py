"""The models that a request names beside its own."""

from __future__ import annotations

import pytest

from kiro_asgi.dialects.choices import choices_of
from kiro_asgi.dialects.named_models import models_named, require_once
from kiro_asgi.dialects.structure import read_json
from kiro_asgi.errors import RequestError

SCHEMA = {"type": "object", "properties": {"model": {"type": "string", "enum": ["x"]}}}


@pytest.mark.parametrize(
    ("members", "names"),
    [
        pytest.param({"model": "a", "messages": [{"model": "x"}], "metadata": {"model": "x"}}, [], id="data"),
        pytest.param({"fallbacks": [{"model": "b", "max_tokens": 5}]}, ["b"], id="messages"),
        pytest.param({"fallbacks": ["b", "c"]}, ["b", "c"], id="names"),
        pytest.param({"fallbacks": [{"a": ["b", "c"]}], "context_window_fallbacks": [{"a": ["d"]}]}, ["b", "c", "d"]),
        pytest.param({"models": ["b"], "route": "fallback"}, ["b"], id="openrouter"),
        pytest.param({"route": "b", "preset": "@preset/c"}, ["b", "@preset/c"], id="route"),
        pytest.param({"tools": [{"type": "advisor_20260301", "model": "b"}]}, ["b"], id="advisor"),
        pytest.param({"tools": [{"function": {"name": "f", "parameters": SCHEMA}}]}, [], id="schema"),
        pytest.param({"tools": [{"name": "f", "input_schema": SCHEMA}]}, [], id="schema-messages"),
        pytest.param({"response_format": {"json_schema": {"schema": SCHEMA}}}, [], id="form"),
        pytest.param({"text": {"format": {"schema": SCHEMA}}}, [], id="form-responses"),
        pytest.param({"user_config": {"model_list": [{"litellm_params": {"model": "b"}}]}}, ["b"], id="nested"),
        pytest.param(
            {"extra_body": {"models": ["b"]}, "plugins": [{"id": "x", "model": "c"}]}, ["b", "c"], id="within"
        ),
        pytest.param({"Model": "b", "fallbackModels": ["c"], "draft_model": "d"}, ["b", "c", "d"], id="spelled"),
        pytest.param({"fallbacks": None, "models": [None, 5, {}], "preset": ""}, [], id="nothing"),
    ],
)
def test_names_are_found_wherever_they_stand(members, names):
    """But not in what the model reads, nor in the shape of its answer and calls."""
    assert sorted(name for _, name in models_named(members)) == sorted(names)


def test_a_place_leads_to_its_name():
    assert models_named({"fallbacks": [{"model": "b"}]}) == (("fallbacks[0].model", "b"),)


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"a","model":"b"}',
        b'{"model":"a","mod\\u0065l":"b"}',
        b' {"n":1,"x":{},"n":2} ',
        b'{"model":"a","model":"a"}',
    ],
)
def test_a_member_twice_is_refused(body):
    with pytest.raises(RequestError, match="stands twice"):
        read_json(body)


def test_what_is_within_may_stand_twice_where_it_is_data():
    """The last one counts, as ever; but not beside names of models, of which the bytes go on."""
    body = b'{"model":"a","x":{"y":1,"y":2}}'
    assert read_json(body) == {"model": "a", "x": {"y": 2}}
    with pytest.raises(RequestError, match="y: stands twice"):
        require_once(body)


@pytest.mark.parametrize("body", [b"[]", b"5", b'{"a":1', b'{"a":1}x', b'{"a" 1}', b"{}", b'{"a":1,}', b"{,}", b""])
def test_all_else_is_read_as_ever(body):
    from kiro_asgi.wire.json import JsonError, loads

    try:
        wanted = loads(body)
    except JsonError as error:
        with pytest.raises(RequestError) as caught:
            read_json(body)
        assert caught.value.message == error.message
    else:
        assert read_json(body) == wanted


@pytest.mark.parametrize(
    ("members", "choices"),
    [({}, 1), ({"n": 3}, 3), ({"n": 10**30}, 128), ({"n": "4"}, 4), ({"n": True}, 1), ({"n": [5]}, 1), ({"n": 0}, 1),
     ({"n": -1}, 1), ({"n": 2, "best_of": 5}, 5), ({"generation_config": {"candidate_count": 4}}, 4),
     ({"n": "9" * 5_000}, 1), ({"n": 2.0}, 2)],
)  # fmt: skip
def test_choices_are_counted(members, choices):
    assert choices_of(members) == choices
