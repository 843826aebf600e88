"""Somebody who has never seen the page finds out why a call failed: from opening it to the cause in three clicks."""

from __future__ import annotations

from typing import Any, Final

import pytest
from attrs import field, frozen

from tests.browser.inspected import ask, clear
from tests.browser.looking import log_in, picture, rows, screen, until

pytest.importorskip("selenium.webdriver", reason="needs selenium, as tox -e browser has it")

CLICKS: Final = 3

SCHEMA: Final = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL: Final = {"name": "get_weather", "input_schema": SCHEMA}


@frozen
class Failure:
    """A failure, and what a stranger has to find."""

    asked: str
    chip: str
    """The button above the list that one would press."""

    row: str
    """Words of its row."""

    cause: str
    advice: str
    more: str = ""
    """What only the recording shows."""

    body: dict[str, Any] = field(factory=dict)


FAILURES: Final = {
    "cut call": Failure(
        "Weather? sim:cut-tool",
        "Notices",
        "tool call cut",
        "The service stopped in the middle of a tool call.",
        "let the tool take less at once",
        "What came of the call of get_weather",
        {"tools": [TOOL]},
    ),
    "wrong schema": Failure(
        "Where? sim:text",
        "Errors",
        "not the demanded JSON",
        "The answer had to be JSON of the request's schema, and was not",
        "Make the schema simpler",
        body={"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    ),
    "refused key": Failure(
        "Hello sim:token-invalid",
        "Errors",
        "service refuses the key",
        "The service does not take the gateway's credential, or not any more. The client's own key is in order.",
        "kiro-asgi doctor tests each",
        "401",
        {"model": "openai/gpt-4o"},
    ),
    "exhausted limit": Failure(
        "Hello sim:quota",
        "Errors",
        "account's quota spent",
        "The account's quota at the service is used up.",
        "Wait for the reset",
        "402",
    ),
    "broken stream": Failure(
        "Hello sim:torn",
        "Errors",
        "broken stream",
        "The service's stream broke off in the middle of a frame.",
        "look for a proxy on the way",
    ),
}


def one(found: list[Any]) -> Any:
    """The only one; ``None`` where there are more, or none."""
    return found[0] if len(found) == 1 else None


@pytest.mark.parametrize("name", FAILURES)
def test_a_stranger_finds_the_cause(name, driver, site):
    """The call is not green, stands out among good ones, and opens on the cause and what to do about it."""
    failure = FAILURES[name]
    log_in(driver, site, "alice")
    clear(site)
    for _ in range(2):
        ask(site, "Hello")
    ask(site, failure.asked, **failure.body)
    ask(site, "Hello again")
    driver.get_log("browser")  # of the login
    for width in (1280, 390):
        screen(driver, width)
        driver.get(site.inspector)
        assert clicks_to_the_cause(driver, failure) <= CLICKS
        picture(driver, f"inspector-stranger-{name.replace(' ', '-')}-{width}")
    screen(driver, 1280)
    assert driver.get_log("browser") == []


def clicks_to_the_cause(driver: Any, failure: Failure) -> int:
    clicks = 0

    def click(place: str) -> None:
        nonlocal clicks
        until(lambda: driver.execute_script(f"const it = {place}; it?.click(); return Boolean(it)"))
        clicks += 1

    click(f"[...document.querySelectorAll('button')].find(it => it.textContent === '{failure.chip} 1')")
    until(lambda: [failure.row in row[1] for row in rows(driver)] == [True])
    assert driver.find_elements("css selector", "table.calls .good") == []
    click("document.querySelector('table.calls tbody a')")
    words = (failure.cause, failure.advice, failure.more)
    panel = "return document.querySelector('.problems')?.textContent ?? ''"
    until(lambda: all(each in driver.execute_script(panel) for each in words) and driver.execute_script(panel))
    return clicks
