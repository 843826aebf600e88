"""Who is let in."""

from __future__ import annotations

from typing import Any

import pytest

from kiro_asgi import ClientSettings, KeySettings, Settings, create_app
from kiro_asgi.asgi.door.auth import Authenticator
from kiro_asgi.errors import ConfigError, Unauthorized
from kiro_asgi.quota.settings import hash_of
from tests.asgi.driver import Exchange, http_scope
from tests.helpers import at_once


def authenticator(keys: Any = (), **client: Any) -> Authenticator:
    named = {name: KeySettings(hash=hash_of(key.encode())) for name, key in keys}
    return Authenticator(Settings(client=ClientSettings(**client), keys=named))


def principal(authenticator: Authenticator, asked: Any) -> str:
    return at_once(authenticator.identify(asked)).principal


KEYS = authenticator([("german", "schlüssel")], api_keys=("alpha-key", "beta-key"))
JSON = ((b"content-type", b"application/json"),)


def scope(*headers: tuple[bytes, bytes], **more):
    return {**http_scope("POST", "/v1/messages"), "headers": list(headers), **more}


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([(b"authorization", b"Bearer alpha-key")], id="bearer"),
        pytest.param([(b"authorization", b"bearer beta-key")], id="scheme-in-lower-case"),
        pytest.param([(b"Authorization", b"Bearer alpha-key")], id="header-name-in-mixed-case"),
        pytest.param([(b"x-api-key", b"beta-key")], id="x-api-key"),
        pytest.param([(b"x-api-key", b"alpha-key"), (b"authorization", b"Bearer alpha-key")], id="both"),
        pytest.param([(b"x-api-key", "schlüssel".encode())], id="not-ascii"),
    ],
)
def test_a_known_key_is_let_in(headers):
    """Both headers work on every path, with the same keys (F029)."""
    assert principal(KEYS, scope(*headers)).startswith("key:")


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([], id="nothing"),
        pytest.param([(b"authorization", b"")], id="empty"),
        pytest.param([(b"authorization", b"Bearer")], id="no-token"),
        pytest.param([(b"authorization", b"Bearer ")], id="blank-token"),
        pytest.param([(b"authorization", b"alpha-key")], id="no-scheme"),
        pytest.param([(b"authorization", b"Basic alpha-key")], id="wrong-scheme"),
        pytest.param([(b"authorization", b"Bearer,alpha-key")], id="wrong-separator"),
        pytest.param([(b"authorization", b"Bearer alpha-key alpha-key")], id="two-tokens"),
        pytest.param([(b"authorization", b"Bearer Alpha-Key")], id="wrong-case"),
        pytest.param([(b"authorization", b"Bearer alpha-ke")], id="too-short"),
        pytest.param([(b"authorization", b"Bearer alpha-key1")], id="too-long"),
        pytest.param([(b"authorization", b"Bearer alpha-key\x00")], id="with-nul"),
        pytest.param([(b"authorization", b"Bearer \xff\xfe")], id="not-utf8"),
        pytest.param([(b"authorization", b"Bearer alpha-key"), (b"authorization", b"Bearer alpha-key")], id="twice"),
        pytest.param([(b"x-api-key", b"alpha-key"), (b"x-api-key", b"x")], id="x-api-key-twice"),
        pytest.param([(b"x-api-key", b"")], id="x-api-key-empty"),
        pytest.param([(b"x-api-key", b"alpha-key,beta-key")], id="a-list-of-keys"),
        pytest.param([(b"x-api-key", b"Bearer alpha-key")], id="scheme-in-x-api-key"),
        pytest.param([(b"proxy-authorization", b"Bearer alpha-key")], id="wrong-header"),
        pytest.param([(b"cookie", b"alpha-key")], id="cookie"),
    ],
)
def test_everything_else_is_refused(headers):
    """A missing, wrong, doubled or oddly written key is refused (F029, R37)."""
    with pytest.raises(Unauthorized):
        principal(KEYS, scope(*headers))


def test_a_principal_tells_keys_apart_without_telling_them():
    """The principal is short, stable, different for each key, and not the key."""
    alpha, again, beta = (
        principal(KEYS, scope((b"x-api-key", key))) for key in (b"alpha-key", b"alpha-key", b"beta-key")
    )

    assert alpha == again != beta
    assert "alpha" not in alpha


def test_nobody_could_be_let_in():
    """Without keys, host auth or an explicit opt-out the app does not start (R37)."""
    with pytest.raises(ConfigError, match="api_keys"):
        authenticator()


def test_everybody_is_let_in_only_when_that_was_said():
    """Anonymous access is an explicit choice, and keys still win over it."""
    assert principal(authenticator(allow_anonymous=True), scope()) == "anonymous"
    with pytest.raises(Unauthorized):
        principal(authenticator(allow_anonymous=True, api_keys=("k",)), scope())


class User:
    """A user as Starlette's and Django's middlewares leave them in the scope."""

    def __init__(self, name: str, known: bool = True) -> None:
        self.display_name = name
        self.is_authenticated = known


class Nameless:
    """A user of a base class that promises more than it has, as Starlette's."""

    is_authenticated = True

    @property
    def identity(self) -> str:
        raise NotImplementedError


class Numbered:
    """A user whose key is the first."""

    is_authenticated = True
    pk = 0


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({"user": User("ann")}, "host:ann", id="scope-user"),
        pytest.param({"user": Nameless()}, "host:user", id="nameless"),
        pytest.param({"user": Numbered()}, "host:0", id="zero"),
        pytest.param({"state": {"principal": "ann"}}, "host:ann", id="state-principal"),
        pytest.param({"state": {"principal": User("ann")}}, "host:ann", id="state-principal-user"),
        pytest.param({"state": {"user": User("ann")}}, "host:ann", id="state-user"),
        pytest.param({"user": "bob", "state": {"user": User("ann")}}, "host:ann", id="beside-a-text"),
        pytest.param({"user": None, "state": None, "headers": None}, "", id="nothing"),
    ],
)
@pytest.mark.anyio
async def test_the_hosts_principal_is_taken(more, expected):
    """With host auth the identity that a middleware put in the scope counts (C06), where it says that it is
    authenticated, or stands where nothing else does."""
    trusting = authenticator(trust_host=True)
    asked = scope(*JSON, **more)
    if expected:
        assert (await trusting.identify(asked)).principal == expected
    else:
        with pytest.raises(Unauthorized):
            await trusting.identify(asked)


class Claiming(str):
    """A text with an attribute."""

    is_authenticated = "yes"


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="none"),
        pytest.param({"user": User("ann", known=False)}, id="not-authenticated"),
        pytest.param({"user": ""}, id="empty"),
        pytest.param({"user": "ann"}, id="text"),
        pytest.param({"user": "AnonymousUser"}, id="text-for-nobody"),
        pytest.param({"user": Claiming("ann")}, id="text-that-claims"),
        pytest.param({"user": b"ann"}, id="bytes"),
        pytest.param({"user": {"is_authenticated": True}}, id="dictionary"),
        pytest.param({"user": User}, id="class"),
        pytest.param({"state": {}}, id="empty-state"),
        pytest.param({"state": {"principal": ""}}, id="empty-principal"),
        pytest.param({"state": {"principal": 7}}, id="number"),
        pytest.param({"state": {"user": "ann"}}, id="text-in-state"),
        pytest.param({"state": "ann"}, id="state-is-text"),
        pytest.param({"state": [("principal", "ann")]}, id="state-is-list"),
        pytest.param({"state": User("ann")}, id="state-is-object"),
    ],
)
@pytest.mark.anyio
async def test_a_host_that_vouches_for_nobody_lets_nobody_in(more):
    """Host auth without an identity is a refusal (C06); a text that anybody may have put there vouches for nobody."""
    with pytest.raises(Unauthorized):
        await authenticator(trust_host=True).identify(scope(**more))


@pytest.mark.anyio
async def test_a_principal_in_the_scope_counts_only_where_the_host_is_trusted():
    """Nobody talks their way in through a scope that no middleware was asked to fill."""
    with pytest.raises(Unauthorized):
        await KEYS.identify(scope(user=User("ann"), state={"principal": "ann"}))


@pytest.mark.anyio
@pytest.mark.parametrize("missing", ["query_string", "headers", "root_path", "state", "http_version", "client"])
async def test_a_scope_that_lacks_something_is_served(missing):
    """Hosts that build scopes themselves leave out what they do not need."""
    trusting = create_app(Settings.from_mapping({"client": {"trust_host": True}, "kiro": {"api_key": "ksk_x"}}))
    for path in ("/health", "/v1/responses/resp_none", "/v1/responses/resp_none/input_items", "/nowhere"):
        for value in ({}, {missing: None}):
            odd = http_scope("GET", path, user=User("ann"), state={})
            del odd[missing]
            exchange = await Exchange({**odd, **value}).run(trusting)
            assert exchange.status == (200 if path == "/health" else 404)
    await trusting.aclose()
