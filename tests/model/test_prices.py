"""Prices: which holds for a model, what an answer costs by it, and a table in LiteLLM's form."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.events import Metering, SideRun, Usage, UsageSource
from kiro_asgi.model.handling import Tier
from kiro_asgi.model.prices import Money, Price, Prices, Rates, rates_of, read_table, row_of
from kiro_asgi.patterns import Pattern

COUNTED, ESTIMATED = UsageSource.UPSTREAM, UsageSource.ESTIMATE
RATES = Rates(input=1.0, output=10.0, cache_read=0.1, cache_write=1.25, thinking=20.0)
"""Of one token, so that sums can be seen."""

COUNTED_USAGE = Usage(
    *(5, 7, 100, 8, 3), input_source=COUNTED, output_source=COUNTED, cache_source=COUNTED, thinking_source=COUNTED
)
TOKENS = st.integers(0, 10**9)
SOURCES = st.sampled_from(UsageSource)


def test_each_kind_of_tokens_has_its_price():
    assert Price(rates=RATES).cost(COUNTED_USAGE) == Money(5 + 4 * 10 + 3 * 20 + 10 + 10.0)


def test_what_has_no_price_of_its_own_costs_as_the_rest():
    """What was read from a cache or written to it as any of the prompt, thinking as any of the answer."""
    assert Price(rates=Rates(input=1.0, output=10.0)).cost(COUNTED_USAGE) == Money(5 + 100 + 8 + 70.0)


def test_thinking_that_was_estimated_makes_the_cost_of_the_answer_an_estimate():
    """Where it has a price of its own: how much of the answer it was is not known, however well that was counted."""
    usage = evolve(COUNTED_USAGE, thinking_source=ESTIMATED)
    same = evolve(RATES, thinking=None)

    assert Price(rates=RATES).cost(usage) == Money(5 + 10 + 10.0, 4 * 10 + 3 * 20)
    assert Price(rates=same).cost(usage) == Money(5 + 10 + 10.0 + 70)


def test_images_have_a_price_of_their_own():
    """Of their tokens; where there is none they cost as the rest, and they are no more than the answer without
    thinking."""
    usage = evolve(COUNTED_USAGE, image_tokens=2)
    dear = evolve(RATES, image=100.0)

    assert Price(rates=dear).cost(usage) == Money(5 + 2 * 10 + 3 * 20 + 2 * 100 + 10 + 10.0)
    assert Price(rates=RATES).cost(usage) == Price(rates=RATES).cost(COUNTED_USAGE)
    assert Price(rates=dear).cost(evolve(usage, image_tokens=9)) == Money(5 + 3 * 20 + 4 * 100 + 10 + 10.0)


@given(st.builds(Usage, TOKENS, TOKENS, TOKENS, TOKENS, input_source=SOURCES, output_source=SOURCES,
                 cache_source=st.one_of(st.none(), SOURCES), thinking_source=st.just(COUNTED)))  # fmt: skip
def test_what_was_estimated_is_never_part_of_what_was_counted(usage):
    """Whatever was counted by whom."""
    cost = Price(rates=RATES).cost(usage)
    counted = sum(
        tokens * rate
        for tokens, rate, source in (
            (usage.input_tokens, 1.0, usage.input_source),
            (usage.cache_read_tokens, 0.1, usage.cache_source),
            (usage.cache_write_tokens, 1.25, usage.cache_source),
            (usage.output_tokens, 10.0, usage.output_source),
        )
        if source is COUNTED
    )

    assert cost is not None
    assert cost.counted == pytest.approx(counted)
    assert cost.total == pytest.approx(
        usage.input_tokens
        + 0.1 * usage.cache_read_tokens
        + 1.25 * usage.cache_write_tokens
        + 10.0 * usage.output_tokens
    )


def test_long_prompts_cost_more():
    """All of them, and their answers, from the length on that the price names."""
    price = Price(rates=Rates(input=1.0), above=((200, Rates(input=4.0)), (100, Rates(input=2.0))))
    costs = [price.cost(Usage(tokens, input_source=COUNTED)) for tokens in (100, 101, 200, 201)]

    assert costs == [Money(100.0), Money(202.0), Money(400.0), Money(804.0)]


def test_requests_and_credits_cost_beside_tokens_or_without_them():
    """A service that meters credits has counted them; where it has not, the cost is not known, and not nothing."""
    metered = Usage(5, 7, metering=Metering(2.5))

    assert Price(request=0.5, credit=2.0).cost(metered) == Money(5.5)
    assert Price(credit=2.0).cost(Usage(5, 7)) is None
    assert Price(request=0.5).cost(Usage(5, 7)) == Money(0.5)
    assert Price(rates=Rates(input=1.0), credit=2.0).cost(metered) == Money(5.0, 5.0)


PRICES = Prices(
    rates=(
        (Pattern("claude-opus-*"), Rates(input=5.0)),
        (Pattern("kiro/claude-*"), Rates(input=0.0)),
        (Pattern("claude-*"), Rates(input=3.0)),
    ),
    thinking=((Pattern("claude-haiku-*"), 9.0),),
    requests=((Pattern("openai/*"), 0.5),),
    credits=((Pattern("kiro/*"), 2.0),),
    table={
        "gpt-5": Price(rates=Rates(input=1.0), above=((9, Rates(input=2.0)),)),
        "gemini/gemini-pro": Price(rates=Rates(input=7.0)),
    },
)


@pytest.mark.parametrize(
    ("upstream", "model", "price"),
    [
        pytest.param("anthropic", "claude-opus-4", Price(rates=Rates(input=5.0)), id="first"),
        pytest.param("kiro", "claude-sonnet", Price(rates=Rates(input=0.0), credit=2.0), id="upstream"),
        pytest.param("anthropic", "claude-haiku-4", Price(rates=Rates(input=3.0, thinking=9.0)), id="thinking"),
        pytest.param("openai", "gpt-5",
                     Price(rates=Rates(input=1.0), above=((9, Rates(input=2.0)),), request=0.5), id="table"),
        pytest.param("gemini", "gemini-pro", Price(rates=Rates(input=7.0)), id="table-upstream"),
        pytest.param("kiro", "auto", Price(credit=2.0), id="credits"),
        pytest.param("openai", "other", Price(request=0.5), id="requests"),
        pytest.param("custom", "gemini-pro", None, id="unknown"),
    ],
)  # fmt: skip
def test_the_first_row_that_fits_counts_and_then_the_table(upstream, model, price):
    assert PRICES.of(upstream, model) == price


def test_without_prices_nothing_has_one():
    assert (Prices().known, Prices().of("openai", "gpt-5")) == (False, None)


def test_a_row_has_prices_of_a_million_tokens():
    pattern, numbers = row_of("a=b/claude-*=3/15/0.3")

    assert pattern == Pattern("a=b/claude-*")
    assert rates_of(numbers) == Rates(input=3e-06, output=1.5e-05, cache_read=pytest.approx(3e-07))


TABLE = {
    "sample_spec": {"input_cost_per_token": "price", "mode": "one of chat, embedding"},
    "gpt-5": {
        "input_cost_per_token": 1.25e-06,
        "output_cost_per_token": 1e-05,
        "cache_read_input_token_cost": 1.25e-07,
        "litellm_provider": "openai",
        "supports_vision": True,
    },
    "gemini/gemini-2.5-pro": {
        "input_cost_per_token": 1.25e-06,
        "input_cost_per_token_above_200k_tokens": 2.5e-06,
        "output_cost_per_token": 1e-05,
        "output_cost_per_token_above_200k_tokens": 1.5e-05,
        "output_cost_per_reasoning_token": None,
    },
    "text-embedding-3-small": {"input_cost_per_token": 2e-08, "output_cost_per_token": 0.0},
    "dall-e-3": {"input_cost_per_pixel": 1e-08, "mode": "image_generation"},
}


def test_a_table_in_the_public_form_is_read():
    """Entries without a price of tokens are left out, and so is the one that explains the others."""
    prices = read_table(TABLE)

    assert prices == {
        "gpt-5": Price(rates=Rates(input=1.25e-06, output=1e-05, cache_read=1.25e-07)),
        "gemini/gemini-2.5-pro": Price(
            rates=Rates(input=1.25e-06, output=1e-05), above=((200_000, Rates(input=2.5e-06, output=1.5e-05)),)
        ),
        "text-embedding-3-small": Price(rates=Rates(input=2e-08)),
    }


TIERED = {
    "input_cost_per_token": 1e-06,
    "output_cost_per_token": 2e-06,
    "input_cost_per_token_above_200k_tokens": 3e-06,
    "input_cost_per_token_priority": 5e-06,
    "output_cost_per_token_priority": 7e-06,
    "input_cost_per_token_above_200k_tokens_priority": 9e-06,
    "input_cost_per_token_flex": 5e-07,
    "input_cost_per_token_batches": 1e-07,
}
TIERS = [
    pytest.param(None, 10, 10e-06 + 14e-06, id="not-said"),
    pytest.param(Tier.STANDARD, 10, 10e-06 + 14e-06, id="standard"),
    pytest.param(Tier.SCALE, 10, 10e-06 + 14e-06, id="without-a-price-of-its-own"),
    pytest.param(Tier.PRIORITY, 10, 50e-06 + 49e-06, id="priority"),
    pytest.param(Tier.PRIORITY, 300_000, 2.7 + 49e-06, id="priority-long"),
    pytest.param(Tier.FLEX, 10, 5e-06 + 14e-06, id="flex-and-the-rest-as-usual"),
    pytest.param(Tier.STANDARD, 300_000, 0.9 + 14e-06, id="long"),
]


@pytest.mark.parametrize(("tier", "tokens", "expected"), TIERS)
def test_a_tier_may_have_a_price_of_its_own(tier, tokens, expected):
    """By the tier that answered, whatever was asked for."""
    price = Prices(table=read_table({"m": TIERED})).of("openai", "m")
    usage = Usage(tokens, 7, input_source=COUNTED, output_source=COUNTED, tier=tier)

    assert price.cost(usage) == Money(pytest.approx(expected))


def test_a_price_that_the_operator_sets_holds_at_each_tier():
    """Of thinking and images, whatever the table says."""
    prices = Prices(table=read_table({"m": TIERED}), thinking=((Pattern("m"), 1.0),))
    usage = Usage(*(0, 7, 0, 0, 7), output_source=COUNTED, thinking_source=COUNTED, tier=Tier.PRIORITY)

    assert prices.of("openai", "m").cost(usage) == Money(7.0)


def test_each_run_is_as_long_as_its_own_prompt_and_as_dear_as_its_model():
    """A long summary makes the short answer behind it no dearer, and an advisor has a price of its own."""
    prices = Prices(
        table=read_table(TABLE),
        rates=((Pattern("adviser"), rates_of([1000, 2000])), (Pattern("service/inexpensive"), rates_of([1, 1]))),
    )
    price = prices.of("gemini", "gemini/gemini-2.5-pro")
    summary, advice = SideRun("compaction", "", 300_000, 10), SideRun("advisor_message", "adviser", 7, 3)
    usage = evolve(COUNTED_USAGE, input_tokens=300_100, output_tokens=20, cache_read_tokens=0, cache_write_tokens=0)
    usage = evolve(usage, thinking_tokens=0, side_runs=(summary,))
    advised = evolve(usage, input_tokens=300_107, output_tokens=23, side_runs=(summary, advice))
    expected = 100 * 1.25e-06 + 10 * 1e-05 + 300_000 * 2.5e-06 + 10 * 1.5e-05

    assert price.cost(usage) == Money(pytest.approx(expected))
    assert price.cost(advised) == Money(pytest.approx(expected + 7 * 1e-03 + 3 * 2e-03))
    unknown = evolve(advised, side_runs=(summary, evolve(advice, model="nobody")))
    assert price.cost(unknown) is None, "a model without a price had a part in it"


IMAGE_ENTRIES = [
    pytest.param({"output_cost_per_image": 0.04}, False, id="by-number"),
    pytest.param({"output_cost_per_pixel": 1e-08}, False, id="by-size"),
    pytest.param({"output_cost_per_image": 0.04, "output_cost_per_image_token": 3e-05}, True, id="by-token-as-well"),
    pytest.param({"output_cost_per_image_token": 3e-05}, True, id="by-token"),
    pytest.param({"output_cost_per_image": None, "input_cost_per_image": 0.01}, True, id="of-the-prompt"),
    pytest.param({}, True, id="none"),
]


@pytest.mark.parametrize(("more", "known"), IMAGE_ENTRIES)
def test_images_by_number_or_size_have_no_price_that_is_known(more, known):
    """No service counts them: an answer without any costs its tokens, one with some is not known."""
    entry = {"input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06, **more}
    prices = Prices(table=read_table({"painter": entry}))
    price = prices.of("gemini", "painter")
    dearer = evolve(prices, images=((Pattern("painter"), 5e-05),)).of("gemini", "painter")
    usage = evolve(COUNTED_USAGE, image_tokens=2)

    assert price.cost(COUNTED_USAGE) is not None
    assert (price.cost(usage) is not None) is known
    assert dearer.cost(usage) is not None, "the operator's row has a price for their tokens"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        pytest.param([], "is not an object", id="list"),
        pytest.param({"gpt": 5}, "gpt: is not an object", id="entry"),
        pytest.param({"gpt": {"input_cost_per_token": "1"}}, "gpt.input_cost_per_token: is no price", id="text"),
        pytest.param({"gpt": {"output_cost_per_token": -1}}, "gpt.output_cost_per_token: is no price", id="negative"),
        pytest.param({"gpt": {"output_cost_per_token": True}}, "is no price, but True", id="bool"),
        pytest.param({"gpt": {"input_cost_per_token": 10**400}}, "gpt.input_cost_per_token: is no price", id="huge"),
    ],
)
def test_a_table_of_another_form_is_refused_with_the_place(document, words):
    with pytest.raises(ValueError, match=words):
        read_table(document)
