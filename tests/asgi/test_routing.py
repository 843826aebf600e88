"""Which path means what, in both conventions for a mount point."""

from __future__ import annotations

import pytest
from attrs import evolve

from kiro_asgi.asgi.routing import GATEWAY, RouteMatch, Routes
from kiro_asgi.dialects.builtin import BUILTIN
from kiro_asgi.dialects.manifest import Endpoint
from kiro_asgi.dialects.unserved import UNSERVED
from kiro_asgi.errors import ConfigError, MethodNotAllowed, RouteNotFound
from tests.asgi.driver import http_scope

ROUTES = Routes(BUILTIN)

EACH_ENDPOINT = pytest.mark.parametrize(
    "endpoint",
    [each for each in (*GATEWAY, *(endpoint for api in BUILTIN for endpoint in api.endpoints)) if "{" not in each.path],
    ids=lambda each: each.path,
)


@EACH_ENDPOINT
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
def test_every_route_is_found_in_both_mount_conventions(endpoint, root, prefix):
    """ASGI lets ``path`` include ``root_path``, and some hosts strip it; both work (C02, R38)."""
    scope = http_scope(endpoint.method, prefix + endpoint.path, root_path=root)

    assert ROUTES.find(scope) == RouteMatch(endpoint)


@pytest.mark.parametrize("slash", ["", "/"])
@EACH_ENDPOINT
def test_hosts_may_tell_what_is_below_them_or_add_a_slash(endpoint, slash):
    """Channels puts it into ``path_remaining``, Litestar ends every path with a slash."""
    method, below = endpoint.method, endpoint.path.removeprefix("/") + slash
    scope = {**http_scope(method, f"/site/llm/{below}", root_path="/site"), "path_remaining": below}

    assert ROUTES.find(scope) == ROUTES.find(http_scope(method, endpoint.path + slash)) == RouteMatch(endpoint)


@pytest.mark.parametrize(
    ("root", "sent", "path", "shown"),
    [
        pytest.param("", "/llm/v1/nothing", "/v1/nothing/", "/llm/v1/nothing;", id="Litestar"),
        pytest.param("", "/llm/v1/nothing/", "/v1/nothing/", "/llm/v1/nothing/;", id="the slash is the client's"),
        pytest.param("/site", "/llm/v1/nothing", "/v1/nothing/", "/site/llm/v1/nothing;", id="the proxy strips"),
        pytest.param("/site", "/site/llm/v1/nothing", "/v1/nothing/", "/site/llm/v1/nothing;", id="the proxy does not"),
        pytest.param("/llm", "/llm/v1/nothing", "/llm/v1/nothing", "/llm/v1/nothing;", id="nothing is taken"),
        pytest.param("/llm", "/llm/v1/nothing", "/v1/nothing", "/llm/v1/nothing;", id="stripped and said"),
        pytest.param("/a/llm", "/llm/v1/nothing", "/v1/nothing", "/a/llm/v1/nothing;", id="stripped, said with more"),
        pytest.param("", "/v1/nothing", "/v1/nothing", "/v1/nothing;", id="no mount"),
        pytest.param("", "/my%20llm/v1/nothing", "/v1/nothing", "/my llm/v1/nothing;", id="escaped"),
        pytest.param("/llm", "", "/v1/nothing", "/llm/v1/nothing;", id="a server that does not say"),
        pytest.param("", "/x", "/v1/nothing", "/v1/nothing;", id="rewritten"),
    ],
)
def test_a_prefix_that_a_host_took_without_a_word_is_shown(root, sent, path, shown):
    """Clients know no other path than the one that they sent."""
    scope = {**http_scope("GET", path, root_path=root), "raw_path": sent.encode()}
    with pytest.raises(RouteNotFound) as caught:
        ROUTES.find(scope)
    assert f"there is nothing at GET {shown}" in caught.value.message


def test_very_many_mounts_are_not_looked_at():
    """A front may take ``root_path`` from a header of anybody's."""
    with pytest.raises(RouteNotFound):
        ROUTES.find(http_scope("GET", "/llm/health", root_path="/a" * 30_000 + "/llm"))


@pytest.mark.parametrize("name", ["m", "claude-sonnet-4.5", "vendor/model", "a/b/c"])
def test_a_model_name_may_hold_slashes(name):
    """Everything after ``/v1/models/`` is the model's name."""
    assert ROUTES.find(http_scope("GET", f"/v1/models/{name}")) == RouteMatch(GATEWAY[1], name)


@pytest.mark.parametrize(
    ("path", "method", "operation"),
    [
        ("/v1/responses/resp_1", "GET", "retrieve"),
        ("/v1/responses/resp_1", "DELETE", "delete"),
        ("/v1/responses/resp_1/cancel", "POST", "cancel"),
        ("/v1/responses/resp_1/input_items", "GET", "list_input"),
    ],
)
def test_a_response_is_named_by_its_path(path, method, operation):
    """One path may mean several things, by its method; the others are told which."""
    match = ROUTES.find(http_scope(method, path))

    assert (match.endpoint.operation, match.argument) == (operation, "resp_1")
    with pytest.raises(MethodNotAllowed) as caught:
        ROUTES.find(http_scope("PUT", path))

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
        "/v1/responses/resp_",
        "/v1/responses/resp_1/2",
        "/v1/messages/../models",
        "/v1/messages%2Fcount_tokens",
    ],
)
def test_no_other_path_is_a_route(path):
    """Paths are compared literally but for one slash at the end: ``/llmx`` is not below ``/llm`` (C14, R38)."""
    with pytest.raises(RouteNotFound):
        ROUTES.find(http_scope("POST", path, root_path="/llm"))


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "BREW"])
def test_a_wrong_method_names_the_right_one(method):
    """A path that exists answers other methods with 405 and ``Allow`` (C14)."""
    with pytest.raises(MethodNotAllowed) as caught:
        ROUTES.find(http_scope(method, "/v1/messages"))

    assert caught.value.allow == ("POST",)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        pytest.param(
            "/v1/v1/messages", "take one /v1 from the client's base URL, so that it asks for /v1/messages", id="twice"
        ),
        pytest.param("/v1/v1/v1/chat/completions", "so that it asks for /v1/chat/completions", id="thrice"),
        pytest.param("/v1/complete", "; did you mean /v1/messages?", id="older-api"),
        pytest.param("/v1/chat/completion", "; did you mean /v1/chat/completions?", id="near"),
        pytest.param("/v1/message", "; did you mean /v1/messages?", id="near-messages"),
        pytest.param("/v1/response", "; did you mean /v1/responses?", id="near-responses"),
        pytest.param("/v1/chat", "; did you mean /v1/chat/completions?", id="begun"),
        pytest.param("/openai/v1/chat/completions", "; did you mean /v1/chat/completions?", id="below-another"),
        pytest.param("/chat/completions", "; did you mean /v1/chat/completions?", id="no-v1"),
        pytest.param("/messages", "; did you mean /v1/messages?", id="no-v1-messages"),
        pytest.param("//v1//messages/", "; did you mean /v1/messages?", id="slashes"),
        pytest.param("/v1/nothing", "; the APIs are /v1/chat/completions", id="not-ours"),
        pytest.param("/v1/images/edits", ": images and videos are not made here", id="not-served"),
        pytest.param("/images/edits", ": images and videos are not made here", id="not-served-no-v1"),
        pytest.param("/v1/v1/batches/b_1/cancel", ": batches are not served", id="not-served-twice"),
        pytest.param("/v1/messages/batches", ": batches are not served", id="not-served-within"),
        pytest.param("/v1/filesystem", "; the APIs are", id="another-segment"),
        pytest.param("/" + "x" * 9_000, "; the APIs are", id="long"),
    ],
)
def test_a_path_that_is_none_is_told_with_what_it_may_be_meant_for(path, words):
    """Method, path and a hint: the usual mistakes are a base URL with, or without, ``/v1``."""
    with pytest.raises(RouteNotFound) as caught:
        ROUTES.find(http_scope("POST", path))

    assert caught.value.message.startswith(f"there is nothing at POST {path[:200]}")
    assert words in caught.value.message
    assert len(caught.value.message) < 400


NOT_SERVED = [(path, row.why) for row in UNSERVED for path in row.paths]


@pytest.mark.parametrize(("path", "why"), NOT_SERVED)
def test_what_is_not_served_is_told_with_the_reason(path, why):
    """Each endpoint that a vendor has and the gateway has not, whatever is below it: by name and why."""
    served = ROUTES.contains(http_scope("POST", f"/v1/{path}"))
    for rest in ("/x_1", "/x_1/y") if served else ("", "/x_1", "/x_1/y"):
        with pytest.raises(RouteNotFound) as caught:
            ROUTES.find(http_scope("PUT", f"/v1/{path}{rest}"))
        assert caught.value.message == f"there is nothing at PUT /v1/{path}{rest}: {why}"

    assert served == (path == "chat/completions"), "a path of a table of what is not served"


def test_each_endpoint_has_one_reason():
    """No name stands in two rows of the table, where the second would never be told."""
    for names in ([path for row in UNSERVED for path in row.paths], [word for row in UNSERVED for word in row.words]):
        assert len(names) == len({*names})


SLASH = evolve(BUILTIN[0], name="other", endpoints=(Endpoint("POST", BUILTIN[0].root),))


@pytest.mark.parametrize(
    ("apis", "words"),
    [
        pytest.param((*BUILTIN, BUILTIN[0]), "two client APIs are named openai_chat", id="name"),
        pytest.param((*BUILTIN, SLASH), "POST /v1/chat/completions is taken", id="path"),
        pytest.param((evolve(SLASH, endpoints=(Endpoint("GET", "/health"),)),), "GET /health is taken", id="ours"),
        pytest.param((evolve(SLASH, endpoints=()),), "other has no endpoint", id="none"),
    ],
)
def test_two_apis_that_want_the_same(apis, words):
    """Nobody can say which one a client meant, so that there is no application."""
    with pytest.raises(ConfigError, match=words):
        Routes(apis)
