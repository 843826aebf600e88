"""The inspector in a browser: below a prefix, behind Django's login, with all that can happen to a call."""

from __future__ import annotations

import threading
import time
from typing import Final

import pytest
from attrs import evolve

from kiro_asgi.inspector.site import Inspector
from tests.browser.inspected import ask
from tests.browser.looking import log_in, picture, rows, screen, show, until, violations
from tests.observers.facts import ATTEMPT, CALL, END, PLAN
from tests.parts import part_of

pytest.importorskip("selenium.webdriver", reason="needs selenium, as tox -e browser has it")

HOSTILE: Final = (
    "</td><img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>\u202egnp.exe"
)

SCENARIOS: Final = {
    "thinking": "✓ 200 complete",
    "parallel": "✓ 200 complete",
    "cut-tool": "✂ 200 tool call cut",
    "once-503": "↻ 200 tried again",
    "torn": "✂ 200 broken stream",
    "500": "✗ 529 service overloaded",
    "bad-request": "✗ 400 service refuses the request",
    "quota": "✗ 402 account's quota spent",
    "long": "✂ 200 stopped at the limit",
    "unicode": "✓ 200 complete",
    "interleaved": "✓ 200 complete",
    "empty": "✗ 502 empty answer",
}
"""Marker to the sign and the words of its row."""


ASKED: Final = {
    "parallel": "⚙ get_weathersim:parallel",
    "interleaved": "⚙ get_weathersim:interleaved",
}
"""Marker to what its row says was asked, with the tools that were called."""


def test_only_the_staff_may_look(driver, site):
    """Nobody without a session of the site's, nor somebody who is no staff; Django's login is the way in."""
    driver.get(site.inspector)
    assert "does not let you open the inspector" in driver.page_source
    log_in(driver, site, "bob")
    assert "does not let you open the inspector" in driver.page_source
    log_in(driver, site, "alice")
    until(lambda: driver.find_element("id", "live").text == "● live")
    assert driver.current_url.startswith(site.inspector)
    driver.get_log("browser")  # of the refusals


def test_each_outcome_is_seen(driver, site):
    """As it happens, with the words for it; a call says what was tried and when its answer came."""
    for marker in SCENARIOS:
        ask(site, f"sim:{marker}")

    def seen():
        return dict(zip(reversed(SCENARIOS), (row[1].partition(" +")[0] for row in rows(driver)), strict=False))

    until(lambda: len(seen()) == len(SCENARIOS) and not any("▸" in words for words in seen().values()))
    assert seen() == SCENARIOS
    found = rows(driver)
    tries = dict(zip(reversed(SCENARIOS), (row[-1] for row in found), strict=True))
    assert tries["once-503"] == "2"

    show(driver, "calls?q=tries:2 outcome:complete")
    until(lambda: len(rows(driver)) == 1)
    driver.execute_script("document.querySelector('table.calls tbody a').click()")
    detail = driver.find_element("css selector", ".detail")
    until(lambda: "2 attempts" in detail.text)
    until(lambda: "UpstreamOverloaded" in detail.text)
    assert len(driver.find_elements("css selector", ".timeline rect.try")) == 2
    assert driver.find_element("id", "filter").get_attribute("value") == "tries:2 outcome:complete"
    show(driver, "calls?q=")


def test_chips_count_and_choose(driver, site):
    """What failed, what lost something, what called a tool; each chooses, and a second click undoes it."""

    def chip(name):
        return next(it for it in driver.find_elements("css selector", ".chip") if it.text.startswith(name))

    chosen = {"Errors": 5, "Notices": 5, "Tools": 2, "Slow": 0}
    assert {name: int(chip(name).text.split()[1]) for name in chosen} == chosen
    for name, count in chosen.items():
        chip(name).click()
        until(lambda count=count: len(rows(driver)) == count)
        assert driver.find_element("css selector", ".nothing").is_displayed() is (count == 0)
        chip(name).click()
        until(lambda: len(rows(driver)) == len(SCENARIOS))
    green = "return [...document.querySelectorAll('table.calls .good')].map(it => it.textContent)"
    assert {*driver.execute_script(green)} == {"✓ 200 complete"}


def test_rows_say_what_was_asked_and_are_found_by_it(driver, site):
    """The question, and the tools; by words of requests and of answers, also where a call comes while one looks."""
    until(lambda: [row[2] for row in rows(driver)] == [ASKED.get(it, f"sim:{it}") for it in reversed(SCENARIOS)])
    # Each differs from the one before it, or what is still shown would pass for what was found.
    for words, count in (("sim:torn", 1), ("temporarily", 0), ("text:simulated", 2), ("-sim:", 0), ("oslo", 2)):
        show(driver, f"calls?q={words}")
        until(lambda count=count: len(rows(driver)) == count)
    show(driver, "calls?q=needle")
    until(lambda: rows(driver) == [] or None)
    ask(site, "In a haystack: a needle")
    until(lambda: len(rows(driver)) == 1)
    show(driver, "calls?q=")
    until(lambda: len(rows(driver)) == len(SCENARIOS) + 1)


def test_a_field_that_there_is_not_is_said(driver, site):
    show(driver, "calls?q=colour:red")
    until(lambda: "There is no field “colour”" in driver.find_element("css selector", ".unknown").text)
    show(driver, "calls?q=")
    until(lambda: not driver.find_element("css selector", ".unknown").is_displayed())


def test_a_call_under_way_is_there_at_once(driver, site):
    """Before its answer, and until its client leaves."""
    asking = threading.Thread(target=ask, args=(site, "sim:slow"))
    asking.start()
    until(lambda: rows(driver)[0][1].split()[-1] in ("waiting", "streaming"))
    asking.join()
    until(lambda: rows(driver)[0][1].split()[-1] == "complete")


def test_keys_are_enough(driver, site):
    """Down, up, open, close and filter without a mouse; in a field, keys are letters."""
    from selenium.webdriver.common.keys import Keys

    body = driver.find_element("css selector", "body")
    driver.execute_script("document.activeElement.blur()")
    for key in ("j", "j", "k", Keys.ENTER):
        body.send_keys(key)
    until(lambda: driver.find_element("css selector", ".detail").is_displayed())
    body.send_keys(Keys.ESCAPE)
    until(lambda: not driver.find_element("css selector", ".detail").is_displayed())
    body.send_keys("/")
    driver.switch_to.active_element.send_keys("jp")
    assert driver.find_element("id", "filter").get_attribute("value") == "jp"
    assert until(lambda: rows(driver) == [] or None)
    driver.find_element("id", "filter").clear()
    show(driver, "calls?q=")
    until(lambda: rows(driver))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible(scheme, driver, site, scripts):
    """By axe-core, at a desk and on a telephone; nothing scrolls sideways, and nothing is loaded from elsewhere."""
    retried = "[...document.querySelectorAll('table.calls tbody tr')].find(row => row.lastChild.textContent === '2')"
    chosen = driver.execute_script(f"return {retried}.querySelector('a').hash").removeprefix("#")
    for width, name in ((1280, ""), (390, "-narrow")):
        screen(driver, width, scheme=scheme)
        for where, page in (("calls", "calls"), (chosen, "call"), ("usage", "usage"), ("accounts", "accounts")):
            show(driver, where)
            time.sleep(0.7)
            picture(driver, f"inspector-{page}-{scheme}{name}")
            assert violations(driver, scripts) == [], (page, width)
            assert driver.execute_script("return document.documentElement.scrollWidth <= innerWidth"), (page, width)
    screen(driver, 1280)
    show(driver, "calls")
    loaded = driver.execute_script("return performance.getEntriesByType('resource').map(it => it.name)")
    assert [url for url in loaded if not url.startswith(site.inspector)] == []


def test_the_list_fits_a_desk(driver, site):
    """Nothing of it is to the side at 1,280 pixels, and costs have their currency; no legend of a chart is in two
    lines."""
    screen(driver, 1280)
    show(driver, "calls")
    until(lambda: rows(driver))
    time.sleep(0.7)
    picture(driver, "list-1280")
    wide = driver.execute_script("const it = document.querySelector('.rows'); return [it.scrollWidth, it.clientWidth]")
    assert wide[0] <= wide[1]
    cells = "return [...document.querySelectorAll('table.calls tbody tr')].map(it => it.cells[11]?.textContent ?? '')"
    costs = [cost for cost in driver.execute_script(cells) if cost]
    assert costs and all("$" in cost for cost in costs)
    show(driver, "usage")
    time.sleep(0.7)
    picture(driver, "usage-1280")
    heights = driver.execute_script("return [...document.querySelectorAll('figcaption')].map(it => it.clientHeight)")
    assert heights and max(heights) < 30, "one line has about 20 pixels"
    show(driver, "calls")
    until(lambda: rows(driver))


def test_nothing_that_others_write_becomes_markup(driver, site):
    """A model, a path and a program with hostile names are text, whose hidden characters are seen."""
    before = len(rows(driver))
    ask(site, "hello", model=HOSTILE, agent=HOSTILE.encode("ascii", "ignore").decode())
    until(lambda: len(rows(driver)) == before + 1)
    until(lambda: HOSTILE.replace("\u202e", "⟨U+202E⟩") in rows(driver)[0][3])
    ask(site, HOSTILE, agent=HOSTILE.encode("ascii", "ignore").decode())
    until(lambda: HOSTILE.replace("\u202e", "⟨U+202E⟩") in rows(driver)[0][2])
    driver.execute_script("document.querySelector('table.calls tbody a').click()")
    until(lambda: "onerror" in driver.find_element("css selector", ".detail").text)
    assert driver.find_elements("css selector", "main img, main script") == []
    assert driver.title == "kiro-asgi inspector"
    show(driver, "calls")


def test_ten_thousand_calls_are_as_quick_as_ten(driver, site):
    """Only those in sight are in the page; one that changes is drawn within a tenth of a second."""
    calls = part_of(site.gateway, Inspector).calls
    for number in range(10_000):
        call = evolve(CALL, request_id=f"req_x{number}", principal=f"key:{number % 7}")
        calls.began(call)
        calls.planned(call, PLAN)
        calls.attempted(call, ATTEMPT)
        calls.ended(call, END)
    until(lambda: driver.find_element("css selector", ".count").text.startswith("10,0"), 30)
    assert len(rows(driver)) < 100
    scroll = (
        "const pane = document.querySelector('.rows'); pane.scrollTop = pane.scrollHeight; return pane.scrollHeight"
    )
    assert driver.execute_script(scroll) > 10_000 * 32
    until(lambda: rows(driver)[-1][1].partition(" +")[0] in SCENARIOS.values())
    show(driver, "calls?q=haystack")
    until(lambda: len(rows(driver)) == 1)
    until(lambda: "Searching" not in driver.find_element("css selector", ".list").text, 20)
    assert len(rows(driver)) == 1
    show(driver, "calls?q=key:key:3")
    until(lambda: driver.find_element("css selector", ".count").text.startswith("1,429 of"))


def test_no_rule_of_the_page_was_broken(driver):
    """No script failed, and the browser had nothing to refuse."""
    assert driver.get_log("browser") == []
