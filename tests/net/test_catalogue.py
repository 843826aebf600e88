"""Which models there are: asked once, believed for a while, and never in the way."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from time import monotonic
from urllib.parse import parse_qs

import anyio
import pytest

from kiro_asgi import simulator
from kiro_asgi.errors import Unauthorized, UnknownModel, UpstreamFault
from kiro_asgi.net.catalogue import LIST_PATIENCE, NAME_PATIENCE, Catalogue, ModelSource
from kiro_asgi.net.requests import fetch_whole
from kiro_asgi.net.single_flight import SingleFlight
from kiro_asgi.net.transport import Transport
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.kiro.account import credential
from kiro_asgi.upstreams.kiro.models import did_you_mean, normalise, parse_models
from kiro_asgi.upstreams.kiro.settings import KiroSettings
from kiro_asgi.upstreams.kiro.upstream import KiroUpstream

pytestmark = pytest.mark.anyio

LIST = "ListAvailableModels"
BUILTIN = (ModelCard("claude-sonnet-4.5", context_window=1), ModelCard("claude-builtin"))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def new_catalogue(
    url: str,
    clock: Callable[[], float],
    transport: Transport,
    aliases: Mapping[str, str] | None = None,
    *,
    ttl: float = 100.0,
) -> Catalogue:
    upstream, secret = KiroUpstream(settings=KiroSettings(endpoint=url)), credential("ksk_x")

    async def ask(page: str) -> bytes:
        answer = await fetch_whole(transport, upstream.models_request(secret, page=page), patience=5.0)
        if answer.status != 200:
            raise UpstreamFault("no list")
        return answer.body

    source = ModelSource(
        ask=ask,
        parse=parse_models,
        normalise=normalise,
        suggest=did_you_mean,
        builtin=BUILTIN,
        aliases=aliases or {},
    )
    return Catalogue(source, SingleFlight("listing", transport), ttl=ttl, clock=clock)


def asked(running: simulator.Simulator) -> int:
    return sum("ListAvailableModels" in request.path for request in running.requests)


async def test_a_built_in_name_costs_no_call(transport):
    """The first request for a known model waits for nothing."""
    async with simulator.serve() as running:
        models = new_catalogue(running.url, Clock(), transport)

        assert await models.find("claude-builtin") == BUILTIN[1]
        assert asked(running) == 0


async def test_the_list_is_asked_for_once_and_then_again_when_it_is_old(transport):
    """One call serves everybody until the list is too old to be believed; many at once make one call."""
    clock = Clock()
    async with simulator.serve() as running:
        models = new_catalogue(running.url, clock, transport)
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(models.cards)
        assert asked(running) == 1
        clock.now = 99.0
        await models.cards()
        assert asked(running) == 1
        clock.now = 101.0
        await models.cards()
        assert asked(running) == 2


async def test_what_is_listed_hides_what_is_built_in(transport):
    """The service knows its own models best."""
    async with simulator.serve() as running:
        models = new_catalogue(running.url, Clock(), transport)
        await models.cards()

        assert (await models.find("claude-sonnet-4.5")).context_window > 1


@pytest.mark.parametrize("name", ["claude-sonnet-4-5", "claude-sonnet-4-5-20250929", "Claude-Sonnet-4.5"])
async def test_every_spelling_means_the_same_model(name, transport):
    """Names are compared in one spelling."""
    async with simulator.serve() as running:
        assert (await new_catalogue(running.url, Clock(), transport).find(name)).id == "claude-sonnet-4.5"


async def test_a_name_that_is_not_listed_is_refused_with_a_hint(transport):
    """Where the service lists its models, another name is unknown, and the nearest ones are named (F032, F035)."""
    async with simulator.serve() as running:
        with pytest.raises(UnknownModel, match=r"did you mean .*claude-sonnet-4\.5") as caught:
            await new_catalogue(running.url, Clock(), transport).find("claude-sonet-4.5")

    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


async def test_a_name_is_passed_on_where_the_service_lists_nothing(transport):
    """A service without a list decides for itself, and is not asked for it again at once."""
    clock = Clock()
    async with simulator.serve(models=None) as running:
        models = new_catalogue(running.url, clock, transport)

        assert (await models.find("brand-new-model")).id == "brand-new-model"
        await models.find("another-model")
        assert asked(running) == 1
        assert await models.cards() == BUILTIN


async def test_an_unreachable_list_is_no_failure(transport):
    """A list that cannot be fetched leaves the built-in models."""
    with simulator.running() as running:
        url = running.url
    models = new_catalogue(url, Clock(), transport)

    assert await models.cards() == BUILTIN


async def test_a_cancelled_asker_does_not_lock_the_others_out(transport):
    """What one client asked for goes on without it, for those that come after."""
    async with simulator.serve() as running:
        running.enqueue((simulator.Pause(0.3), *page("late")), operation=LIST)
        models = new_catalogue(running.url, Clock(), transport)
        with anyio.move_on_after(0.1):
            await models.cards()

        assert [card.id for card in await models.cards()] == ["late"]
        assert asked(running) == 1


@asynccontextmanager
async def hanging(transport: Transport, ttl: float = 100.0) -> AsyncIterator[tuple[Catalogue, simulator.Simulator]]:
    """A catalogue whose service does not answer; at the end nothing is asked any more."""
    async with simulator.serve() as running:
        running.enqueue((simulator.Stall(),), operation=LIST)
        models = new_catalogue(running.url, monotonic, transport, ttl=ttl)
        yield models, running
        await models.aclose()
        with anyio.fail_after(5):  # the thread ends a moment after its work
            while any(thread.name == "kiro-asgi listing" for thread in threading.enumerate()):  # noqa: ASYNC110
                await anyio.sleep(0.01)


@pytest.mark.parametrize("ttl", [100.0, 0.0], ids=["kept", "not-kept"])
async def test_a_service_that_hangs_holds_up_the_first_and_nobody_after(ttl, transport):
    """A client waits `LIST_PATIENCE` seconds from when the service was asked; later ones get what is known, at once."""
    async with hanging(transport, ttl) as (models, running):
        assert models.state == "unasked"
        with anyio.fail_after(LIST_PATIENCE + 2):
            assert await models.cards() == BUILTIN
        with anyio.fail_after(2 * LIST_PATIENCE):  # of five, each would wait as long
            assert [await models.cards() for _ in range(5)] == [BUILTIN] * 5
        assert models.state == ("asking" if ttl else "UpstreamTimeout")
        assert asked(running) == 1


async def test_a_name_that_no_list_has_waits_longer_and_is_passed_on(transport):
    """Whom to ask depends on it; a service that hangs still does not keep a request to itself."""
    async with hanging(transport) as (models, _):
        began = monotonic()
        assert (await models.find("brand-new")).id == "brand-new"

        assert LIST_PATIENCE < monotonic() - began < NAME_PATIENCE + 3


async def test_clients_that_leave_leave_no_thread_behind(transport):
    """One thread asks; none waits for it, however many clients come and go while a service hangs."""
    async with hanging(transport) as (models, _):
        for _ in range(20):
            with anyio.move_on_after(0.001):
                await models.cards()

        assert sum("kiro-asgi" in thread.name or "AnyIO" in thread.name for thread in threading.enumerate()) <= 2


def page(*ids: str, following: str | None = None) -> simulator.Script:
    return simulator.json_answer(200, {"models": [{"modelId": name} for name in ids], "nextToken": following})


def tokens(running: simulator.Simulator) -> list[str]:
    """The page tokens of the requests so far."""
    return [parse_qs(request.query).get("nextToken", [""])[0] for request in running.requests]


async def test_all_pages_are_read(transport):
    """The list goes on as long as the service says so; a model that is on two pages is one."""
    async with simulator.serve() as running:
        running.enqueue(page("a", following="p2"), page("b", "a", following="p3"), page("c"), operation=LIST)
        models = new_catalogue(running.url, Clock(), transport)

        assert [card.id for card in await models.cards()] == ["a", "b", "c"]
        assert tokens(running) == ["", "p2", "p3"]


async def test_a_repeated_page_ends_the_list(transport):
    """A service that goes round in circles is asked once for each page."""
    async with simulator.serve() as running:
        running.enqueue(page("a", following="p2"), page("b", following="p2"), operation=LIST)
        models = new_catalogue(running.url, Clock(), transport)

        assert [card.id for card in await models.cards()] == ["a", "b"]
        assert tokens(running) == ["", "p2"]


async def test_pages_are_bounded(transport):
    """A list without an end has one here."""
    async with simulator.serve() as running:
        running.enqueue(*(page(f"m{n}", following=f"p{n}") for n in range(40)), operation=LIST)
        models = new_catalogue(running.url, Clock(), transport)

        assert len(await models.cards()) == len(running.requests) == 20


async def test_half_a_list_is_none(transport):
    """Where a page is missing, models are missing that there are: nothing is denied on such grounds."""
    async with simulator.serve() as running:
        running.enqueue(page("a", following="p2"), simulator.json_answer(500, {}), operation=LIST)
        models = new_catalogue(running.url, Clock(), transport)

        assert await models.cards() == BUILTIN
        assert (await models.find("brand-new")).id == "brand-new"


async def test_a_list_that_cannot_be_renewed_stays(transport):
    """What was known is better than nothing, also for saying no; the service is asked again soon."""
    clock = Clock()
    async with simulator.serve() as running:
        running.enqueue(page("a"), simulator.json_answer(500, {}), page("b"), operation=LIST)
        models = new_catalogue(running.url, clock, transport)
        await models.cards()
        clock.now = 101.0
        assert [card.id for card in await models.cards()] == ["a"]
        with pytest.raises(UnknownModel):
            await models.find("b")
        clock.now = 162.0

        assert (await models.find("b")).id == "b"


async def test_without_a_credential_names_are_passed_on(transport):
    """That there is none is said by whoever asks for an answer, not by the list."""

    async def ask(page: str) -> bytes:
        raise Unauthorized("no credential")

    source = ModelSource(ask=ask, parse=parse_models, normalise=normalise, suggest=did_you_mean, builtin=BUILTIN)
    models = Catalogue(source, SingleFlight("listing", transport))

    assert await models.cards() == BUILTIN
    assert (await models.find("any")).id == "any"


ALIASES = {
    "fast": "claude-haiku-4.5",
    "Deep": "claude-opus-4-8-high",
    "auto": "claude-sonnet-4.5",
    "claude-sonnet-4-5": "claude-opus-5",
    "gone": "no-such-model",
}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        pytest.param("fast", "claude-haiku-4.5", id="alias"),
        pytest.param("kiro/FAST", "claude-haiku-4.5", id="in-any-spelling"),
        pytest.param("deep", "claude-opus-4.8", id="with-a-wish"),
        pytest.param("auto", "claude-sonnet-4.5", id="before-a-model"),
        pytest.param("claude-sonnet-4-5", "claude-opus-5", id="before-a-spelling"),
        pytest.param("claude-sonnet-4.5", "claude-sonnet-4.5", id="not-before-an-id"),
        pytest.param("claude-sonnet-4", "claude-sonnet-4", id="no-alias"),
    ],
)
async def test_an_alias_means_its_model(name, meant, transport):
    """An alias counts before a model of the same name, and a model's very id before an alias spelled differently."""
    async with simulator.serve() as running:
        models = new_catalogue(running.url, Clock(), transport, ALIASES)
        await models.cards()

        assert (await models.find(name)).id == meant


async def test_the_wishes_of_an_alias_are_known(transport):
    """What stands for a name can be asked what it wishes."""
    models = new_catalogue("http://127.0.0.1:1", Clock(), transport, ALIASES)

    assert models.meant("DEEP") == "claude-opus-4-8-high"
    assert models.meant("claude-opus-4.8-low") == "claude-opus-4.8-low"


async def test_aliases_are_listed_as_models(transport):
    """Each as an entry of its own, with what the model can; one that means no listed model is left out."""
    async with simulator.serve() as running:
        models = new_catalogue(running.url, Clock(), transport, ALIASES)
        listed = {card.id: card for card in await models.cards()}
        deep = await models.card("Deep")

        assert listed["Deep"] == deep
        assert (deep.id, deep.name, deep.context_window) == ("Deep", "Deep", 1_000_000)
        assert (listed["auto"].name, "gone" in listed) == ("auto", False)
        assert (await models.card("claude-opus-4-8")).id == "claude-opus-4.8"
        with pytest.raises(UnknownModel, match=r"did you mean .*Deep"):
            await models.card("Deepp")
        with pytest.raises(UnknownModel, match="no-such-model"):
            await models.card("gone")


async def test_aliases_of_unknown_models_are_believed_without_a_list(transport):
    """Where the service lists nothing, an operator knows best."""
    async with simulator.serve(models=None) as running:
        models = new_catalogue(running.url, Clock(), transport, ALIASES)

        assert (await models.find("gone")).id == "no-such-model"
        assert "gone" in {card.id for card in await models.cards()}
