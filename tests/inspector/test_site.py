"""The inspector as a browser asks it: who may look, what there is to see, and nothing of it where it is off."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

import anyio
import pytest

from kiro_asgi import Client, ConfigError, create_app, mount
from kiro_asgi.asgi.exchange.observation import Observers
from kiro_asgi.inspector.site import Inspector
from kiro_asgi.quota.settings import hash_of
from tests.asgi.conftest import settings_for
from tests.asgi.driver import Exchange, ask, get, http_scope
from tests.parts import part_of

pytestmark = pytest.mark.anyio

SECRET = "a-secret-of-its-own"
ON = {"enabled": True, "secret": SECRET}


def asked(path, method="GET", host="127.0.0.1:8000", body=b"", prefix="", **headers):
    given = [("host", host), *((name.replace("_", "-"), value) for name, value in headers.items())]
    return Exchange(http_scope(method, f"{prefix}/inspector{path}", given), [body])


def sign_in(secret=SECRET, **more):
    return asked("/api/session", "POST", body=json.dumps({"secret": secret}).encode(), **more)


async def signed_in(app):
    answer = await sign_in().run(app)
    return answer.headers["set-cookie"].partition(";")[0]


async def test_who_may_look(gateway, monkeypatch):
    """Whoever has shown the secret, from the page itself, under a name of this machine; no key of a client's helps."""
    monkeypatch.setattr("kiro_asgi.inspector.site._REFUSED", 0)
    app = gateway(inspector=ON)
    for path in ("/api/calls", "/api/calls/x", "/api/events", "/api/usage", "/api/usage.csv", "/api/accounts"):
        assert (await asked(path, authorization="Bearer k").run(app)).status == 401
    assert (await sign_in("k").run(app)).status == 401
    assert (await asked("/api/session", "POST", body=b"[" * 5000).run(app)).status == 400

    answer = await sign_in().run(app)
    cookie, *marks = answer.headers["set-cookie"].split("; ")
    assert {*marks} == {"HttpOnly", "SameSite=Strict", "Max-Age=28800"}
    assert SECRET not in cookie
    assert (await asked("/api/calls", cookie=f"x=y; {cookie}").run(app)).json() == {"calls": []}
    name = cookie.partition("=")[0]
    for bad in (cookie[:-1], cookie.replace("=1", "=9", 1), f"{name}=..", f"{name}=\xe9"):
        assert (await asked("/api/calls", cookie=bad).run(app)).status == 401
    assert (await asked("/api/calls", cookie=cookie, sec_fetch_site="cross-site").run(app)).status == 403
    for host in ("evil.example", "127.0.0.1.evil.example", ""):
        assert (await asked("/", cookie=cookie, host=host).run(app)).status == 421
    assert (await asked("/api/calls", "POST", cookie=cookie).run(app)).headers["allow"] == "GET, DELETE"
    ended = await asked("/api/session", "DELETE", cookie=cookie).run(app)
    assert "Max-Age=0" in ended.headers["set-cookie"]


async def test_a_session_ends(gateway):
    """With the secret."""
    app = gateway(inspector=ON)
    cookie = await signed_in(app)
    other = gateway(inspector={**ON, "secret": "another-secret-of-its-own"})
    assert (await asked("/api/calls", cookie=cookie).run(other)).status == 401


async def test_the_page_is_safe_by_its_headers(gateway):
    """No script but its own, nothing that becomes one, no frame, no other origin, and no copy of what is told."""
    app = gateway(inspector=ON, cors={"origins": ["*"]})
    page = await asked("/", origin="https://evil.example").run(app)
    assert page.status == 200
    assert b'src="app.js"' in page.content
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "require-trusted-types-for 'script'" in page.headers["content-security-policy"]
    assert page.headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in page.headers
    again = await asked("/", if_none_match=page.headers["etag"]).run(app)
    assert (again.status, again.content) == (304, b"")
    told = await asked("/api/calls", cookie=await signed_in(app)).run(app)
    assert told.headers["cache-control"] == "no-store"
    paths = {"": 308, "/app.js": 200, "/index.html": 404, "/../site.py": 404}
    assert {path: (await asked(path).run(app)).status for path in paths} == paths


async def test_calls_are_listed_as_they_happen(gateway):
    """Each outcome, with what is known of it; the inspector's own requests are none.  A mount point changes nothing."""
    app = gateway(fresh=True, inspector=ON, prices={"models": ["claude-*=3/15"]}, retry={"attempts": 2})
    await ask("anthropic", "sim:text", stream=True).run(app)
    await ask("openai", "sim:500", stream=False).run(app)
    await get("/v1/models", key="wrong").run(app)
    cookie = await signed_in(app)
    site = mount(create_app(settings_for("http://127.0.0.1:1", {})), "/a/b", app)

    listed = (await asked("/api/calls", cookie=cookie, prefix="/a/b").run(site)).json()["calls"]
    assert [call["outcome"] for call in listed] == ["complete", "refused", "refused"]
    good, failed, stranger = listed
    assert (good["principal"][:4], good["upstream"], good["attempts"], good["finish"]) == ("key:", "kiro", 1, "end")
    tokens = good["usage"]
    costs = {name: price * tokens[name] / 1e6 for name, price in (("input", 3), ("output", 15))}
    estimated = sum(cost for name, cost in costs.items() if tokens[f"{name}_estimated"])
    assert sum(costs.values()) > 0
    assert good.get("estimated_cost", 0) == pytest.approx(estimated, abs=1e-7)
    assert good["cost"] == pytest.approx(sum(costs.values()) - estimated, abs=1e-7)
    assert good["first"] < good["seconds"]
    assert (failed["attempts"], failed["error"]) == (2, "UpstreamOverloaded")
    assert (stranger["status"], stranger.get("upstream")) == (401, None)
    one = (await asked(f"/api/calls/{good['id']}", cookie=cookie).run(app)).json()
    assert sum(size for _, size in one["received"]) == one["received_bytes"] == good["received_bytes"] > 0
    assert [each["outcome"] for each in one["tries"]] == ["complete"]
    assert (await asked("/api/calls/req_x", cookie=cookie).run(app)).status == 404
    assert "sim:text" not in json.dumps([listed, one])
    assert (await asked("/api/accounts", cookie=cookie).run(app)).json()["upstreams"][0]["credentials"]


async def test_changes_are_told(gateway):
    """All that is kept at first, then what changes; whoever comes again is told what was missed, and no more."""
    app = gateway(fresh=True, inspector=ON)
    await ask("anthropic", "sim:text", stream=True).run(app)
    cookie = await signed_in(app)

    async def follow(**headers):
        viewer = asked("/api/events", cookie=cookie, **headers)

        async def leave(message):
            if message.get("body"):
                viewer.leave.set()

        viewer.on_send = leave
        with anyio.fail_after(5):
            await viewer.run(app)
        identity, told = viewer.content.decode().split("\n\n")[0].split("\n")
        return identity.removeprefix("id: "), json.loads(told.removeprefix("data: "))

    identity, told = await follow()
    assert told["fresh"]
    assert [call["number"] for call in told["calls"]] == [1]
    await ask("anthropic", "sim:text", stream=True).run(app)
    _, told = await follow(last_event_id=identity)
    assert not told["fresh"]
    assert [call["number"] for call in told["calls"]] == [2]
    assert (await follow(last_event_id="another-1"))[1]["fresh"]
    assert (await follow(last_event_id="00000000-1-1"))[1]["fresh"]
    calls = part_of(app, Inspector).calls
    calls.delete(calls.all()[0].facts.request_id)
    assert (await follow(last_event_id=identity))[1]["gone"] == [1]
    viewer = asked("/api/events", cookie=cookie)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(viewer.run, app)
            await anyio.sleep(0.05)
            app.drain()
    assert viewer.complete
    assert (await asked("/api/events", cookie=cookie).run(app)).status == 503


async def test_the_host_decides(gateway, service):
    """Where it is asked to, in place of the secret, and under any name."""

    async def staff(scope):
        return scope.get("user") == "alice"

    settings = settings_for(service.url, {"inspector": {"enabled": True, "trust_host": True}})
    with pytest.raises(ConfigError, match="may_inspect"):
        create_app(settings)
    app = create_app(settings, may_inspect=staff)
    for user, status in (("alice", 200), ("bob", 403), (None, 403)):
        for path in ("/", "/api/calls"):
            request = asked(path, host="site.example")
            request.scope["user"] = user
            assert (await request.run(app)).status == status
    await app.aclose()


async def test_usage_is_summed(gateway, tmp_path):
    """By what was asked for, as JSON and for spreadsheets; where none is kept, that is said."""
    cookie = await signed_in(gateway(inspector=ON))
    assert (await asked("/api/usage", cookie=cookie).run(gateway(inspector=ON))).json() == {"kept": False}
    state = {"engine": "sqlite", "path": str(tmp_path / "state.db"), "usage": True}
    before = gateway(fresh=True, state=state)
    await ask("anthropic", "sim:text", stream=True).run(before)
    await before.aclose()
    app = gateway(fresh=True, state=state, inspector=ON)

    async def usage(path, query):
        request = asked(path, cookie=cookie)
        request.scope["query_string"] = query
        return await request.run(app)

    told = (await usage("/api/usage", b"by=upstream,model")).json()
    (total,) = told["totals"]
    assert (total["upstream"], total["model"], total["requests"]) == ("kiro", "claude-sonnet-4.5", 1)
    table = await usage("/api/usage.csv", b"by=model")
    assert table.content.decode().splitlines()[1].startswith("claude-sonnet-4.5,1,0,")
    assert table.headers["content-disposition"].startswith("attachment")
    for query in (b"by=secret", b"by=day,day", b"first=today", b"a=b&" * 5000):
        assert (await usage("/api/usage", query)).status == 400


async def test_nothing_is_there_where_it_is_off(gateway):
    """Not at its path, and among no observers; ``tests/test_architecture.py`` sees that nothing is imported."""
    app = gateway()
    assert (await asked("/").run(app)).status == 404
    assert part_of(app, Observers)._observers == ()


@pytest.mark.parametrize(
    "slice_",
    [{"enabled": True}, {"secret": "short"}, {"hosts": ["http://x"]}],
    ids=str,
)
def test_settings_that_cannot_work(slice_):
    with pytest.raises(ConfigError, match=r"inspector\."):
        settings_for("http://127.0.0.1:1", {"inspector": slice_})


async def test_what_stays_and_what_goes(gateway):
    """A call that is pinned stays, one that is deleted goes; of what is pinned there is a limit."""
    app = gateway(inspector=ON, fresh=True)
    cookie = await signed_in(app)
    for _ in range(3):
        await ask("anthropic", "Hello", stream=True).run(app)

    async def change(path, method, call):
        exchange = asked(path, method, cookie=cookie)
        exchange.scope["query_string"] = f"call={call}".encode()
        return (await exchange.run(app)).status

    async def kept():
        calls = (await asked("/api/calls", cookie=cookie).run(app)).json()["calls"]
        return [call["id"] for call in sorted(calls, key=lambda call: call["number"])]

    first, second, third = await kept()
    assert await change("/api/pins", "PUT", second) == 200
    assert await change("/api/calls", "DELETE", first) == 200
    assert await kept() == [second, third]
    assert await change("/api/calls", "DELETE", "") == 200
    assert await kept() == [second]
    assert await change("/api/calls", "DELETE", "nobody") == 200
    assert await change("/api/pins", "DELETE", second) == 200
    assert await change("/api/pins", "PUT", "nobody") == 409
    part_of(app, Inspector).calls._bytes = 1000
    assert await change("/api/pins", "PUT", second) == 409
    assert await change("/api/pins", "POST", second) == 405
    assert (await asked("/api/calls", "DELETE", cookie=cookie, sec_fetch_site="same-site").run(app)).status == 403
    assert (await asked("/api/calls", "DELETE").run(app)).status == 401


async def test_state(gateway, sim):
    """Models, settings without secrets, and what a service's last answer said of what is left."""
    app = gateway(inspector=ON, openai={"api_key": "sk-secret", "endpoint": f"{sim.url}/v1"})
    cookie = await signed_in(app)
    await ask("openai", "Hello", stream=True, model="openai/gpt-4o").run(app)
    told = (await asked("/api/accounts", cookie=cookie).run(app)).json()
    assert "claude-sonnet-4.5" in told["models"]["kiro"] and told["version"]
    assert "sk-secret" not in json.dumps(told) and SECRET not in json.dumps(told)
    assert isinstance(told["allowances"], dict)


PAST = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        ({"disabled": True}, "disabled_api_key", "client's key disabled"),
        ({"expires": PAST.isoformat()}, "expired_api_key", "client's key expired"),
    ],
)
@pytest.mark.parametrize("by_host", [False, True])
async def test_a_key_that_is_not_valid_is_named(by_host, more, code, words, caplog):
    """Whether it is disabled or has expired is said, and whose it is: to the operator, not to the client."""
    named = {"keys": {"cyd": {"hash": hash_of(b"k"), **more}}}
    if by_host:
        client = Client(name="cyd", disabled="disabled" in more, expires=PAST if "expires" in more else None)
        app = create_app({"inspector": ON}, simulate=True, keys=lambda shown: client)
    else:
        app = create_app({"inspector": ON, **named}, simulate=True)
    with caplog.at_level(logging.INFO, "kiro_asgi.access"):
        refused = await ask("openai", "hi", stream=False).run(app)
    (call,) = (await asked("/api/calls", cookie=await signed_in(app)).run(app)).json()["calls"]

    assert (refused.status, "cyd" in refused.content.decode()) == (401, False)
    assert call["principal"] == ("host:cyd" if by_host else "key:cyd")
    assert (call["remarks"][0]["words"], call["code"]) == (words, code)
    assert f"principal={call['principal']}" in caplog.text
