"""The gateway inside Django and Quart, behind their servers, asked by the official libraries."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import anthropic
import httpx2
import openai
import pytest

from kiro_asgi.simulator import Pause, answer, text
from tests.e2e.hosts.clients import ASK, MODEL
from tests.e2e.hosts.servers import Served, served
from tests.websocket import connected, text_of, turn

SITES = [
    pytest.param(("hypercorn", "django_site:everything"), id="django-hypercorn"),
    pytest.param(("uvicorn", "django_site:everything"), id="django-uvicorn"),
    pytest.param(("hypercorn", "quart_site:everything"), id="quart-hypercorn"),
    pytest.param(("uvicorn", "quart_site:everything"), id="quart-uvicorn"),
]

LIBRARIES = pytest.mark.parametrize("library", ["openai", "anthropic"])
MODES = pytest.mark.parametrize("stream", [True, False], ids=["stream", "collect"])


@pytest.fixture(scope="module", params=SITES)
def site(request: pytest.FixtureRequest, service) -> Iterator[Served]:
    """A host with the gateway below ``/llm``; at the end it must leave quietly."""
    server, app = request.param
    with served(server, app, service.url) as running:
        yield running
        status, out, errors = running.stop()
    # uvicorn dies of the signal that stopped it, as it should; hypercorn exits by itself
    assert status in ((0,) if server == "hypercorn" else (0, -15))
    assert "Traceback" not in errors and "rror" not in errors and "Task was destroyed" not in errors
    assert ("after_serving has run" in out) == app.startswith("quart")


def get(url: str, path: str, **headers: str) -> tuple[int, str]:
    answer = httpx2.get(url + path, headers=headers, trust_env=False)
    return answer.status_code, answer.text


@LIBRARIES
@MODES
def test_the_libraries_get_answers_below_the_prefix(library, stream, site, sim):
    """C02/C03/C05: both official libraries, both modes, below ``/llm``."""
    ask = ASK[library]

    assert ask(f"{site.url}/llm", "sim:count=20", stream=stream) == ("".join(f"{n} " for n in range(1, 21)), "stop")
    assert ask(f"{site.url}/llm", "sim:tool", stream=stream) == ("Let me check.", "tool_calls")


@pytest.mark.parametrize("path", ["/", "/llmx", "/llmx/v1/models", "/v1/models", "/other/llm", "/LLM/v1/models"])
def test_everything_else_is_the_hosts(path, site):
    """C02/C03/R38: the host's pages work, also those whose path only begins like the prefix."""
    status, page = get(site.url, path)

    assert status == 200
    assert page.endswith(f" {path}")


def test_the_hosts_hooks_have_run(site):
    """C05: the lifespan goes to a host that has one, and only once."""
    _, page = get(site.url, "/hooks")

    assert page in ("begun", "django /hooks")


def test_a_stream_is_seen_as_it_comes(site, sim):
    """F020/F028: through mount, host and server, the first words arrive before the service says the next."""
    sim.enqueue(answer(*text("first "), Pause(1.0), *text("last")))
    with openai.OpenAI(base_url=f"{site.url}/llm/v1", api_key="k", max_retries=0, timeout=10) as client:
        chunks = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "hi"}], stream=True)
        first = next(chunk for chunk in chunks if chunk.choices[0].delta.content)
        complete = sim.requests[-1].complete
        rest = [*chunks]

    assert first.choices[0].delta.content == "first "
    assert complete is False
    assert rest[-1].choices[0].finish_reason == "stop"


def test_the_libraries_understand_refusals(site):
    """F031/F032: no key, and no such model, become the libraries' own exceptions."""
    with openai.OpenAI(base_url=f"{site.url}/llm/v1", api_key="wrong", max_retries=0, timeout=10) as client:
        with pytest.raises(openai.AuthenticationError) as refused:
            client.models.list()
        with pytest.raises(openai.NotFoundError) as unknown:
            client.with_options(api_key="k").chat.completions.create(
                model="nope", messages=[{"role": "user", "content": "hi"}]
            )
    with (
        anthropic.Anthropic(base_url=f"{site.url}/llm", api_key="wrong", max_retries=0, timeout=10) as other,
        pytest.raises(anthropic.AuthenticationError) as turned_away,
    ):
        other.messages.create(model=MODEL, max_tokens=5, messages=[{"role": "user", "content": "hi"}])

    assert refused.value.code == "invalid_api_key" and refused.value.request_id.startswith("req_")
    assert unknown.value.status_code == 404
    assert turned_away.value.request_id.startswith("req_")


def test_the_libraries_list_models_and_count(site):
    """Both read the one list; Anthropic's counts."""
    with (
        openai.OpenAI(base_url=f"{site.url}/llm/v1", api_key="k", max_retries=0, timeout=10) as one,
        anthropic.Anthropic(base_url=f"{site.url}/llm", api_key="k", max_retries=0, timeout=10) as other,
    ):
        assert MODEL in [model.id for model in one.models.list()]
        assert MODEL in [model.id for model in other.models.list()]
        assert one.models.retrieve(MODEL).id == other.models.retrieve(MODEL).id == MODEL
        counted = other.messages.count_tokens(model=MODEL, messages=[{"role": "user", "content": "one two three"}])

    assert 0 < counted.input_tokens < 20


@pytest.mark.parametrize("path", ["/llm/nothing", "/llm//v1/models", "/llm/../v1/models"])
def test_nothing_below_the_prefix_reaches_the_host(path, site):
    """C14/R38: what is below the prefix is the gateway's, to answer or to refuse."""
    url = urlsplit(site.url)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=10)
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read()
    connection.close()

    assert response.status == 404
    assert b"there is nothing at GET /" in body and response.headers["request-id"]


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "DELETE", "BREW"])
def test_a_wrong_method(method, site):
    """C14: 405 with ``Allow`` over a real connection, which stays usable; HEAD without a body."""
    url = urlsplit(site.url)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=10)
    for _ in range(2):
        connection.request(method, "/llm/v1/messages")
        response = connection.getresponse()
        body = response.read()
        assert (response.status, response.headers["allow"]) == (405, "POST")
        assert bool(body) == (method != "HEAD")
    connection.close()


def test_a_websocket_is_refused(site):
    """C14: with the status on which clients go on over HTTP."""
    url = urlsplit(site.url)
    with socket.create_connection((url.hostname or "", url.port or 0), timeout=10) as client:
        client.sendall(
            b"GET /llm/v1/messages HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        assert client.recv(4096).startswith(b"HTTP/1.1 426 ")


def test_responses_over_websocket_below_the_prefix(site, sim):
    """A request, and one that goes on with what is not stored; Django itself takes no WebSocket."""
    with connected(f"{site.url}/llm") as connection:
        first = turn(connection, "My name is Ada.", store=False)
        second = turn(connection, "sim:count=2", previous_response_id=first[-1]["response"]["id"])

    assert text_of(second) == "1 2 " and b"My name is Ada." in sim.requests[-1].body


# Behind the host's own authentication.


@pytest.fixture(scope="module")
def guarded(service) -> Iterator[Served]:
    with served("hypercorn", "django_site:everything", service.url) as running:
        yield running


@LIBRARIES
@MODES
@pytest.mark.parametrize("prefix", ["/user", "/state"])
def test_a_hosts_user_needs_no_key_of_ours(library, stream, prefix, guarded, sim):
    """C06: an identity in ``scope["user"]`` or ``scope["state"]`` opens the gateway; the library's key is not read."""
    session = {"default_headers": {"x-session": "session-of-ada"}, "api_key": "the library insists on one"}

    assert ASK[library](guarded.url + prefix, "sim:count=3", stream=stream, **session) == ("1 2 3 ", "stop")


@pytest.mark.parametrize("prefix", ["/user", "/state"])
def test_a_stranger_meets_the_hosts_own_refusal(prefix, guarded, sim):
    """C06: the middleware answers, the gateway and the service hear nothing."""
    status, page = get(guarded.url, f"{prefix}/v1/models", authorization="Bearer k")

    assert (status, page) == (403, "sign in first")
    assert sim.requests == ()


def test_two_gateways_in_one_process_do_not_mix(guarded):
    """The one below ``/llm`` wants a key and takes no session; the other the reverse."""
    session = {"x-session": "session-of-ada"}

    assert get(guarded.url, "/llm/v1/models", **session)[0] == 401
    assert get(guarded.url, "/llm/v1/models", authorization="Bearer k")[0] == 200
    assert get(guarded.url, "/user/v1/models", **session)[0] == 200
