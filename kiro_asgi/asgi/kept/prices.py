"""The operator's prices, from the settings and from the file that they name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from kiro_asgi.config import PriceSettings
from kiro_asgi.errors import ConfigError
from kiro_asgi.limits import PRICE_FILE_BYTES, PRICE_FILE_VALUES
from kiro_asgi.model.prices import Price, Prices, rates_of, read_table, row_of
from kiro_asgi.patterns import Pattern
from kiro_asgi.private import read_ordinary
from kiro_asgi.wire.json import JsonError, loads

_MILLION = 1_000_000


def new_prices(settings: PriceSettings) -> Prices:
    """The prices that *settings* have; blocks.

    Raises:
        ConfigError: The file cannot be read, or has another form.
    """
    models = map(row_of, settings.models)
    return Prices(
        rates=tuple((pattern, rates_of(numbers)) for pattern, numbers in models),
        thinking=tuple((pattern, price / _MILLION) for pattern, price in _single(settings.thinking)),
        images=tuple((pattern, price / _MILLION) for pattern, price in _single(settings.images)),
        requests=tuple(_single(settings.requests)),
        credits=tuple(_single(settings.credits)),
        table=_table(Path(settings.file).expanduser()) if settings.file else {},
        currency=settings.currency,
    )


def _single(rows: Iterable[str]) -> Iterable[tuple[Pattern, float]]:
    return ((pattern, numbers[0]) for pattern, numbers in map(row_of, rows))


def _table(path: Path) -> Mapping[str, Price]:
    try:
        data = read_ordinary(path, PRICE_FILE_BYTES)
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}") from None
    try:
        return read_table(loads(data, max_bytes=PRICE_FILE_BYTES, max_values=PRICE_FILE_VALUES))
    except JsonError as error:
        raise _unusable(path, error.message) from None
    except ValueError as error:
        raise _unusable(path, str(error)) from None


def _unusable(path: Path, why: str) -> ConfigError:
    return ConfigError(
        f"prices.file: {path}: {why}; give it a file in the form of LiteLLM's model_prices_and_context_window.json",
        code="prices.file",
    )
