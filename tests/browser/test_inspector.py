"""The inspector in a browser: below a prefix, behind Django's login, with all that can happen to a call."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from attrs import evolve

from tests.browser.inspected import PASSWORD, PREFIX, Site, inspected_site
from tests.observers.facts import ATTEMPT, CALL, END, PLAN

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium, as tox -e browser has it")

PICTURES: Final = os.environ.get("KIRO_ASGI_PICTURES", "")
"""A folder for pictures of the page, for the documentation."""

DRIVER: Final = "chromedriver"

OPTIONS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

HOSTILE: Final = (
    "</td><img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>\u202egnp.exe"
)

SCENARIOS: Final = {
    "thinking": "complete",
    "parallel": "complete",
    "cut-tool": "complete",
    "once-503": "complete",
    "torn": "cut",
    "500": "refused",
    "bad-request": "refused",
    "quota": "refused",
    "long": "complete",
    "unicode": "complete",
    "interleaved": "complete",
    "empty": "refused",
}
"""Marker to how the call ends."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    state = {"engine": "sqlite", "path": str(folder / "state.db"), "usage": True}
    with inspected_site(folder, state=state) as running:
        yield running


@pytest.fixture(scope="module")
def driver(browser: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path = shutil.which(DRIVER)
    if path is None:
        pytest.skip(f"needs {DRIVER} (Debian: apt-get install chromium-driver)")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for option in (*OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options, Service(path))
    yield found
    found.quit()


def ask(site: Site, marker: str, model: str = "claude-sonnet-4.5", agent: str = "test", stream: bool = True) -> None:
    """Ask a question, and read all of the answer."""
    question = [{"role": "user", "content": marker}]
    body = json.dumps({"model": model, "max_tokens": 1000, "stream": stream, "messages": question}).encode()
    headers = {"content-type": "application/json", "x-api-key": "k", "user-agent": agent}
    try:
        with urlopen(Request(f"{site.url}{PREFIX}/v1/messages", body, headers), timeout=60) as answer:
            answer.read()
    except HTTPError as error:
        error.close()


def until(condition: Callable[[], Any], seconds: float = 10) -> Any:
    """What *condition* gives, once that is something."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, condition
        time.sleep(0.05)
    return found


def log_in(driver: Any, site: Site, name: str) -> None:
    driver.delete_all_cookies()
    driver.get(f"{site.url}/login/")
    for field, value in (("username", name), ("password", PASSWORD)):
        driver.find_element("name", field).send_keys(value)
    driver.find_element("css selector", "button").click()


def rows(driver: Any) -> list[list[str]]:
    """The cells of the rows in the page."""
    found = "[...document.querySelectorAll('table.calls tbody tr:not([aria-hidden])')]"
    return driver.execute_script(f"return {found}.map(row => [...row.cells].map(cell => cell.textContent))")


def show(driver: Any, where: str) -> None:
    driver.execute_script("location.hash = arguments[0]", where)


def screen(driver: Any, width: int, height: int = 800, scheme: str = "light") -> None:
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def picture(driver: Any, name: str) -> None:
    if PICTURES:
        Path(PICTURES, f"{name}.png").write_bytes(driver.get_screenshot_as_png())


def test_only_the_staff_may_look(driver, site):
    """Nobody without a session of the site's, nor somebody who is no staff; Django's login is the way in."""
    driver.get(site.inspector)
    assert "does not let you look" in driver.page_source
    log_in(driver, site, "bob")
    assert "does not let you look" in driver.page_source
    log_in(driver, site, "alice")
    until(lambda: driver.find_element("id", "live").text == "● live")
    assert driver.current_url.startswith(site.inspector)
    driver.get_log("browser")  # of the refusals


def test_each_outcome_is_seen(driver, site):
    """As it happens, with the words for it; a call says what was tried and when its answer came."""
    for marker in SCENARIOS:
        ask(site, f"sim:{marker}")

    def seen():
        return dict(zip(reversed(SCENARIOS), (row[1].split()[-1] for row in rows(driver)), strict=False))

    until(lambda: seen() == SCENARIOS)
    found = rows(driver)
    tries = dict(zip(reversed(SCENARIOS), (row[-1] for row in found), strict=True))
    assert tries["once-503"] == "2"

    show(driver, "calls?q=tries:2 outcome:complete")
    until(lambda: len(rows(driver)) == 1)
    driver.find_element("css selector", "table.calls tbody a").click()
    detail = driver.find_element("css selector", ".detail")
    until(lambda: "2 attempts" in detail.text)
    assert "UpstreamOverloaded" in detail.text or "503" in detail.text
    assert len(driver.find_elements("css selector", ".timeline rect.try")) == 2
    assert driver.find_element("id", "filter").get_attribute("value") == "tries:2 outcome:complete"
    show(driver, "calls?q=")


def test_a_call_under_way_is_there_at_once(driver, site):
    """Before its answer, and until its client leaves."""
    asking = threading.Thread(target=ask, args=(site, "sim:slow"))
    asking.start()
    until(lambda: rows(driver)[0][1].split()[-1] in ("waiting", "streaming"), 2)
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
    axe = (scripts.parent / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")
    retried = "[...document.querySelectorAll('table.calls tbody tr')].find(row => row.lastChild.textContent === '2')"
    chosen = driver.execute_script(f"return {retried}.querySelector('a').hash").removeprefix("#")
    for width, name in ((1280, ""), (390, "-narrow")):
        screen(driver, width, scheme=scheme)
        for where, page in (("calls", "calls"), (chosen, "call"), ("usage", "usage"), ("accounts", "accounts")):
            show(driver, where)
            time.sleep(0.7)
            picture(driver, f"inspector-{page}-{scheme}{name}")
            driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
            run = {"expression": "axe.run().then(found => JSON.stringify(found.violations))", "awaitPromise": True}
            told = driver.execute_cdp_cmd("Runtime.evaluate", run)["result"]["value"]
            assert [(each["id"], [it["html"] for it in each["nodes"]]) for each in json.loads(told)] == [], (
                page,
                width,
            )
            assert driver.execute_script("return document.documentElement.scrollWidth <= innerWidth"), (page, width)
    screen(driver, 1280)
    show(driver, "calls")
    loaded = driver.execute_script("return performance.getEntriesByType('resource').map(it => it.name)")
    assert [url for url in loaded if not url.startswith(site.inspector)] == []


def test_nothing_that_others_write_becomes_markup(driver, site):
    """A model, a path and a program with hostile names are text, whose hidden characters are seen."""
    before = len(rows(driver))
    ask(site, "hello", model=HOSTILE, agent=HOSTILE.encode("ascii", "ignore").decode())
    until(lambda: len(rows(driver)) == before + 1)
    assert HOSTILE.replace("\u202e", "⟨U+202E⟩") in rows(driver)[0][3]
    driver.find_element("css selector", "table.calls tbody a").click()
    until(lambda: "onerror" in driver.find_element("css selector", ".detail").text)
    assert driver.find_elements("css selector", "main img, main script") == []
    assert driver.title == "kiro-asgi inspector"
    show(driver, "calls")


def test_ten_thousand_calls_are_as_quick_as_ten(driver, site):
    """Only those in sight are in the page; one that changes is drawn within a tenth of a second."""
    calls = site.gateway._inspector.calls
    for number in range(10_000):
        call = evolve(CALL, request_id=f"req_x{number}", principal=f"key:{number % 7}")
        calls.began(call)
        calls.planned(call, PLAN)
        calls.attempted(call, ATTEMPT)
        calls.ended(call, END)
    until(lambda: "10,0" in f"{int(driver.find_element('css selector', '.count').text.split()[0]):,}", 30)
    assert len(rows(driver)) < 100
    scroll = (
        "const pane = document.querySelector('.rows'); pane.scrollTop = pane.scrollHeight; return pane.scrollHeight"
    )
    assert driver.execute_script(scroll) > 10_000 * 32
    until(lambda: "test" not in rows(driver)[-1][0] and rows(driver)[-1][1].split()[-1] in SCENARIOS.values())
    started = time.monotonic()
    show(driver, "calls?q=key:key:3")
    until(lambda: driver.find_element("css selector", ".count").text.startswith("1429 of"))
    assert time.monotonic() - started < 3


def test_no_rule_of_the_page_was_broken(driver):
    """No script failed, and the browser had nothing to refuse."""
    assert driver.get_log("browser") == []
