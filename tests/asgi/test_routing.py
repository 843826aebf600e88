"""Which path means what, in both conventions for a mount point."""

from __future__ import annotations

import pytest

from kiro_asgi.asgi.routing import ROUTES, Operation, Route, find_route
from kiro_asgi.errors import MethodNotAllowed, RouteNotFound
from tests.asgi.driver import http_scope


@pytest.mark.parametrize(("path", "method", "operation"), [(path, *rest) for path, rest in ROUTES.items()])
@pytest.mark.parametrize(
    ("root", "prefix"),
    [
        pytest.param("", "", id="unmounted"),
        pytest.param("/llm", "/llm", id="path-includes-the-prefix"),
        pytest.param("/llm", "", id="prefix-stripped"),
        pytest.param("/llm/", "/llm", id="root-with-slash"),
        pytest.param("/a/llm", "/a/llm", id="nested"),
        pytest.param("/a/llm", "/llm", id="host-strips-its-own"),
        pytest.param("/a/b/llm", "/b/llm", id="nested-host-strips-its-own"),
    ],
)
def test_every_route_is_found_in_both_mount_conventions(path, method, operation, root, prefix):
    """ASGI lets ``path`` include ``root_path``, and some hosts strip it; both work (C02, R38)."""
    scope = http_scope(method, prefix + path, root_path=root)

    assert find_route(scope) == Route(operation)


@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize(("path", "method", "operation"), [(path, *rest) for path, rest in ROUTES.items()])
def test_hosts_may_tell_what_is_below_them_or_add_a_slash(path, method, operation, slash):
    """Channels puts it into ``path_remaining``, Litestar ends every path with a slash."""
    below = path.removeprefix("/") + slash
    scope = {**http_scope(method, f"/site/llm/{below}", root_path="/site"), "path_remaining": below}

    assert find_route(scope) == find_route(http_scope(method, path + slash)) == Route(operation)


def test_very_many_mounts_are_not_looked_at():
    """A front may take ``root_path`` from a header of anybody's."""
    with pytest.raises(RouteNotFound):
        find_route(http_scope("GET", "/llm/health", root_path="/a" * 30_000 + "/llm"))


@pytest.mark.parametrize("name", ["m", "claude-sonnet-4.5", "vendor/model", "a/b/c"])
def test_a_model_name_may_hold_slashes(name):
    """Everything after ``/v1/models/`` is the model's name."""
    assert find_route(http_scope("GET", f"/v1/models/{name}")) == Route(Operation.MODEL, name)


@pytest.mark.parametrize(
    ("path", "method", "operation"),
    [
        ("/v1/responses/resp_1", "GET", Operation.RESPONSE),
        ("/v1/responses/resp_1", "DELETE", Operation.DELETE_RESPONSE),
        ("/v1/responses/resp_1/cancel", "POST", Operation.CANCEL_RESPONSE),
        ("/v1/responses/resp_1/input_items", "GET", Operation.INPUT_ITEMS),
    ],
)
def test_a_response_is_named_by_its_path(path, method, operation):
    """One path may mean several things, by its method; the others are told which."""
    assert find_route(http_scope(method, path)) == Route(operation, "resp_1")
    with pytest.raises(MethodNotAllowed) as caught:
        find_route(http_scope("PUT", path))

    assert method in caught.value.allow


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v1/",
        "/v1//messages",
        "/v1/messages//",
        "//v1/messages",
        "/V1/messages",
        "/llmx/v1/messages",
        "/m/v1/messages",
        "/llm",
        "/v1/responses/compact",
        "/v1/responses/resp_",
        "/v1/responses/resp_1/2",
        "/v1/messages/../models",
        "/v1/messages%2Fcount_tokens",
    ],
)
def test_no_other_path_is_a_route(path):
    """Paths are compared literally but for one slash at the end: ``/llmx`` is not below ``/llm`` (C14, R38)."""
    with pytest.raises(RouteNotFound):
        find_route(http_scope("POST", path, root_path="/llm"))


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "BREW"])
def test_a_wrong_method_names_the_right_one(method):
    """A path that exists answers other methods with 405 and ``Allow`` (C14)."""
    with pytest.raises(MethodNotAllowed) as caught:
        find_route(http_scope(method, "/v1/messages"))

    assert caught.value.allow == ("POST",)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        pytest.param(
            "/v1/v1/messages", "take one /v1 from the client's base URL, so that it asks for /v1/messages", id="twice"
        ),
        pytest.param("/v1/v1/v1/chat/completions", "so that it asks for /v1/chat/completions", id="thrice"),
        pytest.param("/v1/completions", "; did you mean /v1/chat/completions?", id="older-api"),
        pytest.param("/chat/completions", "; did you mean /v1/chat/completions?", id="no-v1"),
        pytest.param("/messages", "; did you mean /v1/messages?", id="no-v1-messages"),
        pytest.param("//v1//messages/", "; did you mean /v1/messages?", id="slashes"),
        pytest.param("/v1/embeddings", "; the APIs are /v1/chat/completions", id="not-ours"),
        pytest.param("/" + "x" * 9_000, "; the APIs are", id="long"),
    ],
)
def test_a_path_that_is_none_is_told_with_what_it_may_be_meant_for(path, words):
    """Method, path and a hint: the usual mistakes are a base URL with, or without, ``/v1``."""
    with pytest.raises(RouteNotFound) as caught:
        find_route(http_scope("POST", path))

    assert caught.value.message.startswith(f"there is nothing at POST {path[:200]}")
    assert words in caught.value.message
    assert len(caught.value.message) < 400
