"""Which models there are: asked once, believed for a while, and never in the way."""

from __future__ import annotations

import anyio
import pytest

from kiro_asgi import simulator
from kiro_asgi.errors import UnknownModel
from kiro_asgi.net.catalogue import Catalogue, ModelSource
from kiro_asgi.net.transport import Transport
from kiro_asgi.upstreams.base import ModelCard
from kiro_asgi.upstreams.kiro import KiroUpstream, credential
from kiro_asgi.upstreams.kiro.models import did_you_mean, normalise, parse_models

pytestmark = pytest.mark.anyio

BUILTIN = (ModelCard("claude-sonnet-4.5", context_window=1), ModelCard("claude-builtin"))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def new_catalogue(url: str, clock: Clock, transport: Transport) -> Catalogue:
    upstream, secret = KiroUpstream(endpoint=url), credential("ksk_x")
    source = ModelSource(
        request=lambda: upstream.models_request(secret),
        parse=parse_models,
        normalise=normalise,
        suggest=did_you_mean,
        builtin=BUILTIN,
    )
    return Catalogue(transport, source, ttl=100.0, clock=clock)


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
    """Whoever asks next, asks."""
    async with simulator.serve() as running:
        running.enqueue((simulator.Stall(),), operation="ListAvailableModels")
        models = new_catalogue(running.url, Clock(), transport)
        with anyio.move_on_after(0.1):
            await models.cards()

        assert len(await models.cards()) > len(BUILTIN)
