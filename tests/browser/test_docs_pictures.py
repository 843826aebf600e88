"""The pictures of the documentation: made here, and as old as the words in them."""

from __future__ import annotations

import time

import pytest

from tests.browser.inspected import ask, clear
from tests.browser.looking import DOCUMENTED, documented, log_in, screen, show, until
from tests.browser.test_scenarios import choose, ended, panel

pytest.importorskip("selenium.webdriver", reason="needs selenium, as tox -e browser has it")

WRITE_FILE = {"name": "write_file", "input_schema": {"type": "object"}}

ASKED = (
    ("What is a fjord?", {}),
    ("Think about it: sim:thinking", {}),
    ("Write a.py: sim:cut-tool", {"tools": [WRITE_FILE]}),
    ("Once more, please: sim:once-503", {}),
    ("Tell me all: sim:long", {}),
    ("And now? sim:torn", {}),
)


@pytest.fixture(scope="module")
def calls(driver, site):
    """Ids of six calls, which are all that there are."""
    log_in(driver, site, "alice")
    until(lambda: driver.find_element("id", "live").text == "● live")
    screen(driver, 1280)
    driver.get_log("browser")  # of the login
    clear(site)
    return [ask(site, content, **more) for content, more in ASKED]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_list_and_a_call(scheme, driver, calls):
    ended(driver, calls[3])
    screen(driver, 1280, scheme=scheme)
    panel = "return document.querySelector('.problems')?.textContent ?? ''"
    until(lambda: "tried again" in driver.execute_script(panel))
    time.sleep(0.7)
    documented(driver, f"inspector-call-{scheme}")
    if scheme == "light":
        screen(driver, 390)
        show(driver, "calls?q=")
        time.sleep(0.7)
        documented(driver, "inspector-calls-light-narrow")
    screen(driver, 1280)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_usage(scheme, driver, calls):
    screen(driver, 1280, scheme=scheme)

    def is_written():
        """Usage is, every few seconds."""
        show(driver, "calls")
        show(driver, "usage")
        time.sleep(0.5)
        return driver.find_elements("css selector", ".page table")

    until(is_written, 60)
    time.sleep(0.7)
    documented(driver, f"inspector-usage-{scheme}", without="table")
    screen(driver, 1280)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_cut_tool_call(scheme, driver, calls):
    """As the guide goes through it."""
    screen(driver, 1280, 640, scheme=scheme)
    call = ended(driver, calls[2])
    if scheme == "light":
        show(driver, "calls?q=notice:call.cut")
        until(lambda: "1 of 6" in driver.find_element("css selector", ".count").text)
        time.sleep(0.5)
        documented(driver, "inspector-cut-1-list-light")
        panel(driver, f"{call}/answer", "was cut after")
        documented(driver, "inspector-cut-2-answer-light")
    screen(driver, 1280, 860, scheme=scheme)
    panel(driver, f"{call}/stream", "From the service")
    choose(driver, "ToolCallCut")
    until(lambda: "Choose a row" not in driver.find_element("css selector", ".step").text)
    time.sleep(0.3)
    documented(driver, f"inspector-cut-3-stream-{scheme}")
    if scheme == "light":
        panel(driver, f"{call}/compare", "Do this call again")
        driver.find_element("id", "setting").send_keys("stream.tool_emission")
        value = driver.find_element("id", "value")
        value.clear()
        value.send_keys("incremental")
        driver.find_element("css selector", "#panel form button").click()
        until(lambda: "They differ from byte" in driver.find_element("id", "panel").text)
        documented(driver, "inspector-cut-4-compare-light")
        panel(driver, f"{call}/facts", "Save tape")
        driver.execute_script("document.querySelector('.exports').scrollIntoView(false)")
        documented(driver, "inspector-cut-5-facts-light")
    screen(driver, 1280)
    show(driver, "calls?q=")


def test_each_picture_is_made_here(driver):
    """Those of the inspector in the documentation, and no others."""
    assert {path.stem for path in DOCUMENTED.glob("inspector-*.png")} == {
        *(f"inspector-{name}-{scheme}" for name in ("call", "usage", "cut-3-stream") for scheme in ("light", "dark")),
        *(f"inspector-cut-{step}-light" for step in ("1-list", "2-answer", "4-compare", "5-facts")),
        "inspector-calls-light-narrow",
    }
    assert driver.get_log("browser") == []
