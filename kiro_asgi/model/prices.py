"""Prices of models, and what an answer costs by them, in the operator's currency.

Only what the service has counted is a cost that is known; what comes of an estimate stands apart, and the two are never
one sum.

Source of the form of the file: https://github.com/BerriAI/litellm/blob/main/model_prices_and_context_window.json
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, field, frozen

from kiro_asgi.model.events import SideRun, Usage, UsageSource
from kiro_asgi.model.handling import Tier
from kiro_asgi.patterns import Pattern, first_of

_MILLION: Final = 1_000_000

_MOST: Final = 1e12
"""The highest price; a whole number in a file may be longer than a float can be."""


@frozen
class Money:
    """The cost of an answer."""

    counted: float = 0.0
    """Of what the service counted."""

    estimated: float = 0.0
    """Of what was estimated here."""

    @property
    def total(self) -> float:
        """Both together: for limits, which must not wait for a count, and for nothing that is shown."""
        return self.counted + self.estimated


@frozen(kw_only=True)
class Rates:
    """Prices of one token."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float | None = None
    """``None``: as any other of the prompt."""

    cache_write: float | None = None
    thinking: float | None = None
    """``None``: as any other of the answer."""

    image: float | None = None
    """Of a token of an image in the answer; ``None``: as any other of it."""

    def parts(self, usage: Usage) -> Iterator[tuple[float, UsageSource | None]]:
        """Cost of each kind of tokens, and where its count comes from."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        thinking = self.output if self.thinking is None else self.thinking
        image = self.output if self.image is None else self.image
        # Where thinking has a price of its own, the cost of an answer is no more certain than how much of it that is.
        counted = thinking == self.output or usage.thinking_source is UsageSource.UPSTREAM
        answer = usage.output_source if counted else usage.thinking_source
        yield usage.input_tokens * self.input, usage.input_source
        yield usage.cache_read_tokens * read, usage.cache_source
        yield usage.cache_write_tokens * write, usage.cache_source
        images = min(usage.image_tokens, usage.output_tokens - usage.thinking_tokens)
        yield (usage.output_tokens - usage.thinking_tokens - images) * self.output, answer
        yield usage.thinking_tokens * thinking, answer
        yield images * image, answer


def _nothing(_: str) -> None:
    """No price: that of a table alone knows no other model."""


@frozen(kw_only=True)
class Price:
    """What answers of one model cost."""

    rates: Rates | None = None
    """``None``: tokens have no price of their own."""

    above: tuple[tuple[int, Rates], ...] = ()
    """Tokens of a prompt beyond which all of it, and its answer, costs more; most first."""

    request: float = 0.0
    credit: float = 0.0
    """Of one credit, as the service meters them."""

    tiers: Mapping[Tier, Price] = field(factory=dict)
    """What they cost at a service tier that has a price of its own."""

    unread_images: frozenset[str] = frozenset()
    """Names of prices of images in an answer by number or size, which no service counts: what an answer with images
    costs is not known."""

    of_model: Callable[[str], Price | None] = field(default=_nothing, eq=False, repr=False)
    """The price of another model of the service, which may have a part in the answer."""

    def cost(self, usage: Usage) -> Money | None:
        """What an answer of *usage* costs; ``None`` where it costs credits alone, and the service has not said how
        many, where it has images whose price is by number or size, or where another model that has no price had a part
        in it.  Of several runs, each is as long as its own prompt."""
        if usage.image_tokens and self.unread_images:
            return None
        if self.rates is None and not self.request and usage.metering is None:
            return None
        counted, estimated = self.request, 0.0
        if usage.metering is not None and usage.metering.source is UsageSource.UPSTREAM:
            counted += usage.metering.amount * self.credit
        elif usage.metering is not None:
            estimated += usage.metering.amount * self.credit
        of_tier = self if usage.tier is None else self.tiers.get(usage.tier, self)
        for cost, source in of_tier._parts(usage.of_answer):
            if source is UsageSource.UPSTREAM:
                counted += cost
            else:
                estimated += cost
        for run in usage.side_runs:
            price = self.of_model(run.model) if run.model else of_tier
            if price is None:
                return None
            counted += sum(cost for cost, _ in price._parts(_counted(run)))
        return Money(counted, estimated)

    def having(self, rates: Mapping[str, Any]) -> Price:
        """The same with these *rates*, whatever the length of a prompt and the tier."""
        if self.rates is None:
            return self
        return evolve(
            self,
            rates=evolve(self.rates, **rates),
            above=tuple((tokens, evolve(each, **rates)) for tokens, each in self.above),
            tiers={tier: price.having(rates) for tier, price in self.tiers.items()},
            unread_images=frozenset[str]() if "image" in rates else self.unread_images,
        )

    def _parts(self, usage: Usage) -> Iterable[tuple[float, UsageSource | None]]:
        """As of `Rates`, of one run."""
        longer = (rates for tokens, rates in self.above if usage.prompt_tokens > tokens)
        rates = next(longer, self.rates)
        return () if rates is None else rates.parts(usage)


def _counted(run: SideRun) -> Usage:
    """The counts of *run* alone."""
    return Usage(run.input_tokens, run.output_tokens, run.cache_read_tokens, run.cache_write_tokens)


def row_of(text: str) -> tuple[Pattern, tuple[float, ...]]:
    """Pattern and numbers of a row such as ``gpt-*=1.25/10``."""
    pattern, _, numbers = text.rpartition("=")
    return Pattern(pattern), tuple(map(float, numbers.split("/")))


def rates_of(numbers: Iterable[float]) -> Rates:
    """The rates of a row: of a million tokens of input, output, cache read and cache write."""
    each = [number / _MILLION for number in numbers]
    return Rates(
        input=each[0],
        output=each[1],
        cache_read=each[2] if len(each) > 2 else None,
        cache_write=each[3] if len(each) > 3 else None,
    )


@frozen(kw_only=True)
class Prices:
    """The prices of all models, as far as the operator has named them."""

    rates: tuple[tuple[Pattern, Rates], ...] = ()
    """Pattern of models to their rates; the first that fits counts."""

    thinking: tuple[tuple[Pattern, float], ...] = ()
    """The same for the price of a token of thinking."""

    images: tuple[tuple[Pattern, float], ...] = ()
    """The same for that of a token of an image."""

    requests: tuple[tuple[Pattern, float], ...] = ()
    credits: tuple[tuple[Pattern, float], ...] = ()
    table: Mapping[str, Price] = field(factory=dict, repr=False)
    """Prices by exact name, for models that no pattern fits."""

    currency: str = "USD"
    """Of all of them."""

    @property
    def known(self) -> bool:
        """Whether there is any."""
        return bool(self.rates or self.requests or self.credits or self.table)

    def of(self, upstream: str, model: str) -> Price | None:
        """The price of *model* at *upstream*; ``None`` where it has none."""
        names = f"{upstream}/{model}", model
        rates = first_of(self.rates, names)
        request, credit = first_of(self.requests, names), first_of(self.credits, names)
        listed = next((self.table[name] for name in names if name in self.table), None)
        price = listed if rates is None else Price(rates=rates)
        if price is None and request is None and credit is None:
            return None
        price = evolve(price or Price(), of_model=partial(self.of, upstream), credit=credit or 0.0)
        price = price if request is None else evolve(price, request=request)
        own = {"thinking": first_of(self.thinking, names), "image": first_of(self.images, names)}
        given: dict[str, Any] = {name: value for name, value in own.items() if value is not None}
        return price.having(given) if given else price


# A table in LiteLLM's form.

_MEMBERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "input_cost_per_token": "input",
        "output_cost_per_token": "output",
        "cache_read_input_token_cost": "cache_read",
        "cache_creation_input_token_cost": "cache_write",
        "output_cost_per_reasoning_token": "thinking",
        "output_cost_per_image_token": "image",
    }
)
"""Member of a model's entry to the rate that it is."""

_UNREAD_IMAGES: Final = frozenset(("output_cost_per_image", "output_cost_per_pixel"))
"""Prices of images in an answer that go by their number or size."""

_REQUEST: Final = "input_cost_per_request"
_MEMBER: Final = re.compile(r"(.+?)(?:_above_([0-9]{1,6})k_tokens)?(?:_(flex|priority))?")
_USUAL: Final = ""
_SAMPLE: Final = "sample_spec"
"""Name of the entry that explains the others."""


def read_table(document: Any) -> dict[str, Price]:
    """Prices by the names of models; entries without a price of tokens are left out.

    Raises:
        ValueError: It has not this form; the message names the place.
    """
    if type(document) is not dict:
        raise ValueError("is not an object with models for its members")
    prices = {name: _price(name, entry) for name, entry in document.items() if name != _SAMPLE}
    return {name: price for name, price in prices.items() if price is not None}


def _price(name: str, entry: Any) -> Price | None:
    if type(entry) is not dict:
        raise ValueError(f"{name[:100]}: is not an object")
    tiers: dict[str, dict[int, dict[str, float]]] = {_USUAL: {0: {}}}
    for member, value in entry.items():
        read = _MEMBER.fullmatch(member)
        rate = _MEMBERS.get(read[1]) if read else None
        if read and rate is not None and value is not None:
            levels = tiers.setdefault(read[3] or _USUAL, {0: {}})
            levels.setdefault(int(read[2]) * 1_000 if read[2] else 0, {})[rate] = _number(name, member, value)
    request = 0.0 if entry.get(_REQUEST) is None else _number(name, _REQUEST, entry[_REQUEST])
    longer = tiers.pop(_USUAL)
    usual = longer.pop(0)
    if "input" not in usual:
        return None
    unread = frozenset[str]() if "image" in usual else frozenset(each for each in _UNREAD_IMAGES if entry.get(each))
    of_tiers = {Tier(tier): _by_length({**usual, **levels.pop(0)}, levels) for tier, levels in tiers.items()}
    return evolve(_by_length(usual, longer), request=request, unread_images=unread, tiers=of_tiers)


def _by_length(rates: Mapping[str, float], longer: Mapping[int, Mapping[str, float]]) -> Price:
    """A price of these *rates*, and those of *longer* prompts, which have the rest from them."""
    above = ((tokens, Rates(**{**rates, **own})) for tokens, own in sorted(longer.items(), reverse=True))
    return Price(rates=Rates(**rates), above=tuple(above))


def _number(name: str, member: str, value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= _MOST:  # as nothing compares with NaN
        raise ValueError(f"{name[:100]}.{member}: is no price, but {value!r:.60}")
    return float(value)
