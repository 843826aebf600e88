"""Who is let in by each recipe of the documentation, in each API, and whose is what is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from attrs import frozen

from kiro_asgi.simulator import Pause, answer, text
from kiro_asgi.simulator.server import Simulator
from tests.conformance.asked import EACH_API, EACH_WAY, ask
from tests.conformance.asking import MODEL
from tests.conformance.clients import Clients, undisturbed
from tests.conformance.gateways import Gateway
from tests.e2e.hosts.servers import Served, served

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


@frozen
class Visitor(Clients):
    """Somebody's official clients, with what they show of themselves."""

    _key: str = "no-key"

    def openai(self, gateway: Gateway, **more: Any) -> openai.OpenAI:
        return super().openai(gateway, key=self._key)

    def anthropic(self, gateway: Gateway, **more: Any) -> anthropic.Anthropic:
        return super().anthropic(gateway, key=self._key)


Shown = tuple[dict[str, str], str]
"""Headers, and a key."""

Showing = Callable[[str, str], Shown]
"""The site's URL and a name to what its owner shows."""


def session(url: str, name: str) -> Shown:
    return {"cookie": f"theme=dark; sessionid=session-of-{name}"}, "no-key"


def token(url: str, name: str) -> Shown:
    return {}, f"token-of-{name}"


def header(url: str, name: str) -> Shown:
    return {"x-forwarded-user": name}, "no-key"


def login(url: str, name: str) -> Shown:
    password = {"ada": "lovelace", "bob": "noyce"}.get(name, "guess")
    form = {"name": name, "password": password}
    answered = httpx2.post(f"{url}/quart/login", data=form, trust_env=False, timeout=20)
    assert answered.status_code == (401 if password == "guess" else 200)
    return {"cookie": answered.headers.get("set-cookie", "QUART_AUTH=made-up").partition(";")[0]}, "no-key"


def nothing(url: str, name: str) -> Shown:
    return {}, "no-key"


RECIPES: dict[str, tuple[str, Showing]] = {
    "django-session": ("django/llm", session),
    "django-token": ("django/llm", token),
    "channels": ("channels/llm", session),
    "starlette": ("starlette/llm", token),
    "quart": ("quart/llm", login),
    "proxy": ("proxied", header),
}
"""To where the gateway is, and what its users show."""

EACH_RECIPE = pytest.mark.parametrize("recipe", RECIPES)

STRANGERS = [
    *(pytest.param(path, showing, "eve", id=name) for name, (path, showing) in RECIPES.items() if name != "proxy"),
    *(pytest.param(path, nothing, "eve", id=f"{path}-nothing") for path in dict(RECIPES.values())),
    pytest.param("proxied", header, "", id="proxy-empty"),
]


@pytest.fixture(scope="module")
def site(service: Simulator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    settings = {
        "KIRO_ASGI__CLIENT__TRUST_HOST": "true",
        "KIRO_ENDPOINT": service.url,
        "PYTHONPATH": os.pathsep.join([str(EXAMPLES), str(EXAMPLES / "django_project")]),
        "RECIPES_ROOM": str(tmp_path_factory.mktemp("recipes")),
    }
    with undisturbed(), served("hypercorn", "recipes:application", service.url, **settings) as running:
        yield running
        status, _, errors = running.stop()
    assert status == 0
    assert "Traceback" not in errors and "rror" not in errors and "Task was destroyed" not in errors, errors


Meet = Callable[[str, Showing, str], tuple[Visitor, Gateway]]
"""Where the gateway is, what its users show, and a name; to clients, and the gateway as they know it."""


@pytest.fixture
def meet(site: Served) -> Iterator[Meet]:
    """Makes clients of somebody's."""
    with ExitStack() as stack:

        def made(path: str, showing: Showing, name: str) -> tuple[Visitor, Gateway]:
            headers, key = showing(site.url, name)
            one = stack.enter_context(openai.DefaultHttpxClient(headers=headers))
            other = stack.enter_context(anthropic.DefaultHttpxClient(headers=headers))
            return Visitor(one, other, key), Gateway(f"{site.url}/{path}")

        yield made


@EACH_RECIPE
@EACH_API
@EACH_WAY
def test_who_is_known_is_answered(recipe: str, api: str, stream: bool, meet: Meet) -> None:
    """C06: in each API, whole and streamed."""
    ada, gateway = meet(*RECIPES[recipe], "ada")

    assert ask(ada, gateway, api, "sim:count=3", stream=stream).text == "1 2 3 "


@pytest.mark.parametrize(("path", "showing", "name"), STRANGERS)
@EACH_API
def test_a_stranger_is_not(path: str, showing: Showing, name: str, api: str, meet: Meet, sim: Simulator) -> None:
    """C06: whoever shows nothing, or something made up, is refused in the API's own words, before anything is asked."""
    eve, gateway = meet(path, showing, name)
    with pytest.raises((openai.AuthenticationError, anthropic.AuthenticationError)) as refused:
        ask(eve, gateway, api, "sim:count=3", stream=False)

    error = refused.value.body["error"] if api == "messages" else refused.value.body
    assert (error["type"], error.get("code")) == (
        ("authentication_error", None) if api == "messages" else ("invalid_request_error", "invalid_api_key")
    )
    assert sim.requests == ()


@EACH_RECIPE
def test_what_is_kept_is_the_users_own(recipe: str, meet: Meet) -> None:
    """C06: the host's user is whom a stored response belongs to: others do not find it."""
    (ada, gateway), (bob, _) = (meet(*RECIPES[recipe], name) for name in ("ada", "bob"))
    kept = ada.openai(gateway).responses.create(model=MODEL, input="sim:count=3")

    assert ada.openai(gateway).responses.retrieve(kept.id).output_text == "1 2 3 "
    with pytest.raises(openai.NotFoundError):
        bob.openai(gateway).responses.retrieve(kept.id)


@EACH_RECIPE
def test_a_stream_comes_word_by_word(recipe: str, meet: Meet, sim: Simulator) -> None:
    """C06: no recipe holds anything back: the first word is there while the service has not said the next."""
    sim.enqueue(answer(*text("first "), Pause(0.5), *text("last")))
    ada, gateway = meet(*RECIPES[recipe], "ada")
    chunks = ada.openai(gateway).chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "hi"}], stream=True
    )
    first = next(chunk for chunk in chunks if chunk.choices[0].delta.content)
    complete = sim.requests[-1].complete

    assert (first.choices[0].delta.content, complete) == ("first ", False)
    assert [*chunks][-1].choices[0].finish_reason == "stop"


@pytest.mark.parametrize(
    ("address", "names", "status"),
    [
        pytest.param("127.0.0.1", ["ada"], 404, id="proxy"),
        pytest.param("127.0.0.2", ["ada"], 401, id="somebody-else"),
        pytest.param("127.0.0.1", ["ada", "bob"], 401, id="two-names"),
        pytest.param("127.0.0.1", ["ada", "ada"], 401, id="twice"),
    ],
)
def test_a_header_counts_only_where_the_proxy_has_set_it(
    address: str, names: list[str], status: int, site: Served
) -> None:
    """C06: a client that reaches the server without the proxy, or adds to its header, is nobody."""
    with httpx2.Client(transport=httpx2.HTTPTransport(local_address=address), timeout=20) as client:
        found = client.get(
            f"{site.url}/proxied/v1/responses/resp_1", headers=[("x-forwarded-user", name) for name in names]
        )

    assert found.status_code == status


def test_a_session_and_a_token_of_one_user_are_one_client(meet: Meet) -> None:
    """C06: what a program stores with Ada's token, she finds in her browser."""
    program, gateway = meet(*RECIPES["django-token"], "ada")
    browser, _ = meet(*RECIPES["django-session"], "ada")
    kept = program.openai(gateway).responses.create(model=MODEL, input="sim:count=3")

    assert browser.openai(gateway).responses.retrieve(kept.id).id == kept.id


@EACH_API
@EACH_RECIPE
@pytest.mark.parametrize(
    ("foreign", "status"),
    [({"origin": "https://evil.example"}, 403), ({"content-type": "text/plain"}, 415)],
    ids=["origin", "form"],
)
def test_no_page_of_another_site_asks_for_a_user(
    foreign: dict[str, str], status: int, recipe: str, api: str, site: Served, sim: Simulator
) -> None:
    """A browser shows the host's cookies for whatever page makes it ask."""
    path, showing = RECIPES[recipe]
    headers, key = showing(site.url, "ada")
    url = f"{site.url}/{path}/v1/{'chat/completions' if api == 'chat' else api}"
    shown = {"content-type": "application/json", "x-api-key": key, **headers, **foreign}

    assert httpx2.post(url, content=b"{}", headers=shown, trust_env=False, timeout=20).status_code == status
    assert sim.requests == ()
