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
    ],
)
def test_every_route_is_found_in_both_mount_conventions(path, method, operation, root, prefix):
    """ASGI lets ``path`` include ``root_path``, and some hosts strip it; both work (C02, R38)."""
    scope = http_scope(method, prefix + path, root_path=root)

    assert find_route(scope) == Route(operation)


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
        "/v1/messages/",
        "/v1//messages",
        "//v1/messages",
        "/V1/messages",
        "/llmx/v1/messages",
        "/llm",
        "/v1/models/",
        "/v1/responses/",
        "/v1/responses/compact",
        "/v1/responses/resp_",
        "/v1/responses/resp_1/",
        "/v1/responses/resp_1/2",
        "/v1/messages/../models",
        "/v1/messages%2Fcount_tokens",
        "/health/",
    ],
)
def test_no_other_path_is_a_route(path):
    """Paths are compared literally: slash, case and dot count, and ``/llmx`` is not below ``/llm`` (C14, R38)."""
    with pytest.raises(RouteNotFound):
        find_route(http_scope("POST", path, root_path="/llm"))


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "BREW"])
def test_a_wrong_method_names_the_right_one(method):
    """A path that exists answers other methods with 405 and ``Allow`` (C14)."""
    with pytest.raises(MethodNotAllowed) as caught:
        find_route(http_scope(method, "/v1/messages"))

    assert caught.value.allow == ("POST",)
