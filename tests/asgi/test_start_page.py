"""The page at the mount point: for people a page, for programs JSON, and nothing that the APIs would not tell."""

from __future__ import annotations

import base64
import re
import shlex
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser

import pytest

from kiro_asgi import create_app, mount
from kiro_asgi.asgi.address import base_url
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, get, http_scope
from tests.asgi.test_greetings import host

pytestmark = pytest.mark.anyio

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


def opened(path="/", *headers, accept=BROWSER, method="GET", **more):
    """A request as a browser sends it."""
    sent = [("host", "llm.example"), ("accept", accept), *headers]
    return Exchange(http_scope(method, path, sent, **more))


async def facts(app, *headers, path="/", **more):
    return (await opened(path, *headers, accept="application/json", **more).run(app)).json()


async def test_a_browser_gets_a_page(gateway):
    """With where each API is, a request to copy, and how the gateway is."""
    page = await opened().run(gateway())
    text = page.content.decode()

    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for words in ("OpenAI Responses", "Anthropic Messages", "Gemini", "http://llm.example/v1", "Ready for requests."):
        assert words in text
    command = shlex.split(unescape(re.search("<pre><code>(.*?)</code></pre>", text, re.DOTALL)[1]))
    assert command[:2] == ["curl", "http://llm.example/v1/chat/completions"]
    assert "authorization: Bearer YOUR-KEY" in command


@pytest.mark.parametrize("accept", ["*/*", "application/json", "", "application/json, text/plain, */*", "text/htmlx"])
async def test_a_program_gets_json(gateway, accept):
    """The same facts."""
    answer = await opened(accept=accept).run(gateway())
    told = answer.json()

    assert answer.headers["content-type"] == "application/json"
    assert (told["name"], told["ready"], told["health"]) == ("kiro-asgi", True, "http://llm.example/health")
    assert {name: api["base_url"] for name, api in told["apis"].items()} == {
        "openai_chat": "http://llm.example/v1",
        "openai_responses": "http://llm.example/v1",
        "openai_completions": "http://llm.example/v1",
        "anthropic": "http://llm.example",
        "gemini": "http://llm.example",
    }


async def test_without_a_key_no_model_is_named(gateway):
    """``/v1/models`` needs one, too; with a key, or where none is needed, they are there, and no service was asked."""
    stranger, client = await facts(gateway()), await facts(gateway(), ("authorization", "Bearer k"))

    assert (stranger["needs_key"], stranger["models"]) == (True, None)
    assert client["needs_key"] is False
    assert "claude-sonnet-4.5" in client["models"]
    page = (await opened().run(gateway())).content.decode()
    assert "claude" not in page
    anonymous = gateway(client={"allow_anonymous": True})
    assert "claude-sonnet-4.5" in (await opened().run(anonymous)).content.decode()
    assert (await facts(anonymous))["needs_key"] is False


async def test_no_service_is_asked(gateway, sim):
    await opened().run(gateway(fresh=True, client={"allow_anonymous": True}))

    assert list(sim.requests) == []


async def test_it_can_be_switched_off(gateway):
    """Then there is nothing, as before it was there."""
    assert (await opened().run(gateway(start_page=False))).status == 404
    assert (await opened(method="POST").run(gateway())).status == 404
    assert (await opened(method="HEAD").run(gateway())).content == b""


async def test_the_inspector_is_linked_where_it_is_on(gateway):
    on = gateway(fresh=True, inspector={"enabled": True, "secret": "s" * 16})
    page = (await opened("/llm/", root_path="/llm").run(on)).content.decode()

    assert 'href="http://llm.example/llm/inspector/"' in page
    assert "inspector" not in (await opened().run(gateway())).content.decode()
    assert "s" * 16 not in page


async def test_a_page_of_another_origin_cannot_use_it(gateway):
    """No header lets it, whichever origins may use the APIs; no script runs, no frame shows it, nothing is kept."""
    page = await opened("/", ("origin", "https://other.example")).run(gateway(cors={"origins": ["*"]}))
    policy = page.headers["content-security-policy"]

    assert not [name for name in page.headers if name.startswith("access-control-")]
    assert page.headers["cross-origin-resource-policy"] == "same-origin"
    assert (page.headers["cache-control"], page.headers["x-content-type-options"]) == ("no-store", "nosniff")
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "script" not in policy
    style = re.search("<style>(.*?)</style>", page.content.decode(), re.DOTALL)[1]
    assert base64.b64encode(sha256(style.encode()).digest()).decode() in policy


async def test_beside_a_host_it_is_below_the_prefix_alone(gateway, sim):
    """The host's own page stays the host's, mounted or composed."""
    mounted = mount(host, "/llm", gateway())

    assert (await opened("/").run(mounted)).status == 418
    for path in ("/llm", "/llm/"):
        assert "http://llm.example/llm/v1" in (await opened(path).run(mounted)).content.decode()
    composed = create_app(settings_for(sim.url, {}), inner=host)
    assert (await opened("/").run(composed)).status == 418
    await composed.aclose()


PROXIED = ("x-forwarded-proto", "https"), ("x-forwarded-host", "public.example")


@pytest.mark.parametrize(
    ("headers", "scope", "expected"),
    [
        pytest.param([], {}, "http://llm.example", id="direct"),
        pytest.param([], {"scheme": "https"}, "https://llm.example", id="tls"),
        pytest.param([], {"root_path": "/llm"}, "http://llm.example/llm", id="prefix"),
        pytest.param(PROXIED, {}, "https://public.example", id="proxy"),
        pytest.param([("x-forwarded-proto", "https, http")], {}, "https://llm.example", id="two-proxies"),
        pytest.param([("x-forwarded-prefix", "/a/")], {"root_path": "/llm"}, "http://llm.example/a/llm", id="stripped"),
        pytest.param([("x-forwarded-prefix", "/llm")], {"root_path": "/llm"}, "http://llm.example/llm", id="twice"),
        pytest.param([("x-forwarded-prefix", "/ll")], {"root_path": "/llm"}, "http://llm.example/ll/llm", id="segment"),
        pytest.param([("x-forwarded-proto", "javascript")], {}, "http://llm.example", id="no-scheme"),
        pytest.param([("x-forwarded-host", "a b<script>")], {}, "http://llm.example", id="no-host"),
        pytest.param([("x-forwarded-prefix", "//evil.example")], {}, "http://llm.example", id="no-prefix"),
        pytest.param([("x-forwarded-host", "[::1]:8000")], {}, "http://[::1]:8000", id="ipv6"),
        pytest.param([("x-forwarded-host", "x" * 100_000)], {}, "http://llm.example", id="huge"),
    ],
)
async def test_addresses_are_those_of_the_client(headers, scope, expected):
    """By the scope and by what a proxy says; what is no address is passed over."""
    assert base_url(http_scope("GET", "/", [("host", "llm.example"), *headers], **scope)) == expected


async def test_a_client_that_names_no_host():
    """HTTP/1.0 allows it, and a host may be anything."""
    assert base_url(http_scope("GET", "/")) == "http://localhost"
    assert base_url(http_scope("GET", "/", [("host", "a<b")], root_path='/"><script>')) == "http://localhost"


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)


async def test_names_of_models_stay_text(gateway):
    """An operator's alias, or a service's list, may hold anything."""
    alias = "<script>alert(1)</script>"
    app = gateway(client={"allow_anonymous": True}, kiro={"model_aliases": [f"{alias}=claude-sonnet-4.5"]})
    parser = Tags()
    parser.feed((await opened().run(app)).content.decode())

    assert "script" not in parser.tags
    assert alias in (await facts(app))["models"]


async def test_a_simulated_gateway_says_so(sim):
    """Nobody takes made-up answers for real ones."""
    app = create_app(settings_for(sim.url, {}), simulate=True)
    page = (await opened().run(app)).content.decode()
    await app.aclose()

    assert "Simulated: no service is asked" in page


async def test_one_that_is_being_stopped_says_so(gateway):
    app = gateway(fresh=True)
    app.drain()

    assert (await facts(app))["ready"] is False
    assert "Not ready" in (await opened().run(app)).content.decode()
    assert (await get("/health").run(app)).status == 200
