"""What the inspector's page says of twelve calls, each with a way of its own to go wrong, or to go well."""

from __future__ import annotations

import base64
import json
import socket
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from attrs import field, frozen

from tests.browser.inspected import PREFIX, ask
from tests.browser.looking import log_in, picture, screen, show, until, violations

pytest.importorskip("selenium.webdriver", reason="needs selenium, as tox -e browser has it")

HOSTILE: Final = "</pre><img src=x onerror=document.title=1><script>document.title=1</script>\u202egnp"

PNG: Final = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000080000000808020000004b6d29dc0000001c49444154789c63f8cfc0f01f1b66c02a4a"
        "920e06b001e4ea00006d7f3fc1d1a9cb1d0000000049454e44ae426082"
    )
).decode()

QUESTION: Final = {"type": "text", "text": "What is this?"}
IMAGE: Final = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
SEARCH: Final = {"type": "web_search_20250305", "name": "web_search"}
WEATHER: Final = {"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}


@frozen
class Scenario:
    """A call, and what is seen of it."""

    content: Any
    answer: tuple[str, ...]
    """In the answer as the client sees it, and in what the services said."""

    chosen: str
    """An item in the middle column."""

    request: tuple[str, ...] = ()
    """In the request, before and after."""

    more: Mapping[str, Any] = field(factory=dict)


SCENARIOS: Final = {
    "thinking": Scenario(
        "sim:thinking", ("Thinking · 39 characters", "sealed", "the model had said all"), "ThinkingDelta"
    ),
    "parallel tools": Scenario(
        "sim:parallel", ("Call of", "Stopped because: the model called a tool"), "ToolCallStart"
    ),
    "cut call": Scenario("sim:cut-tool", ("was cut after", "left out"), "ToolCallFragment"),
    "retry": Scenario(
        "Once more: sim:once-503",
        ("kiro, status 503", "MODEL_TEMPORARILY_UNAVAILABLE", "kiro, status 200"),
        "TextDelta",
    ),
    "torn frame": Scenario("sim:torn", ("broke off here", "frame.truncated"), "TextDelta"),
    "fall-over": Scenario(
        "Hi",
        ("What came of each attempt", "away: service unreachable", "UpstreamUnreachable", "kiro, status 200"),
        "TextDelta",
        more={"model": "fallen"},
    ),
    "passthrough": Scenario(
        "sim:thinking",
        ("passed on unchanged", "Thinking ·"),
        "",
        ("the request went through as it is",),
        {"model": "anthropic/claude-sonnet-4-5"},
    ),
    "web search": Scenario(
        "sim:tool=web_search",
        ("web_search",),
        "BlockStart",
        ("web_search",),
        {"tools": [SEARCH], "model": "claude-sonnet-4.5"},
    ),
    "images": Scenario([QUESTION, IMAGE], ("I also see 1 image",), "TextDelta", ("images",)),
    "hostile text": Scenario(
        f'sim:tool=get_weather {{"city": "{HOSTILE}"}}',
        ("</pre><img src=x onerror", "⟨U+202E⟩gnp"),
        "ToolInputDelta",
        ("</pre><img",),
        {"tools": [WEATHER]},
    ),
}


@pytest.fixture(scope="module")
def page(driver, site):
    """The page, signed in."""
    log_in(driver, site, "alice")
    until(lambda: driver.find_element("id", "live").text == "● live")
    driver.get_log("browser")
    screen(driver, 1400, 900)
    return driver


def ended(page, request_id: str) -> str:
    """The address of a call, once it has ended."""
    call = f"call/{request_id}"
    show(page, f"{call}/facts")
    outcome = ", ".join(f".detail .head .{kind}" for kind in ("good", "bad", "left"))
    until(lambda: page.find_elements("css selector", outcome) and page.find_elements("id", "tab-facts"))
    return call


def panel(page, where: str, word: str = "") -> str:
    """The text of a tab, once it has *word*."""
    show(page, where)
    chosen = f"a[role=tab][aria-selected=true][href='#{where}']"
    until(lambda: page.find_elements("css selector", chosen))

    def text() -> str:
        found = page.execute_script("return document.getElementById('panel').textContent")
        return found if word in found else ""

    return until(text)


def choose(page, words: str) -> None:
    """Choose the first item of the middle column that begins with *words*."""
    script = """
        const pane = document.querySelectorAll('.virtual')[1];
        for (const line of pane.querySelectorAll('.line'))
            if (line.querySelector('.words').textContent.startsWith(arguments[0])) { line.click(); return true; }
        pane.scrollTop += pane.clientHeight;
    """
    until(lambda: page.execute_script(script, words))


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_seen(name, page, site, scripts):
    """The answer, an item with what led to it and what came of it, the request; nothing becomes markup."""
    scenario = SCENARIOS[name]
    call = ended(page, ask(site, scenario.content, **scenario.more))

    answer = panel(page, f"{call}/answer", scenario.answer[0])
    for words in scenario.answer:
        assert words in answer
    picture(page, f"inspector-answer-{name.replace(' ', '-')}")
    stream = panel(page, f"{call}/stream", "From the service")
    assert "gives another answer" not in stream and "not recorded" not in stream
    if scenario.chosen:
        choose(page, scenario.chosen)
        until(lambda: "Choose a row" not in page.find_element("css selector", ".step").text)
        linked = (
            "return [...document.querySelectorAll('.column')].map(it => it.querySelectorAll('.linked, .same').length)"
        )
        counts = until(lambda: page.execute_script(linked))
        assert counts[0] and counts[1], counts
        picture(page, f"inspector-stream-{name.replace(' ', '-')}")
    for words in ("What the client sent", *scenario.request):
        panel(page, f"{call}/request", words)
    assert page.title == "kiro-asgi inspector"
    assert page.find_elements("css selector", "main img, main script") == []


def test_an_image_is_shown_when_asked_for(page, site):
    """Of the request, and no sooner."""
    panel(page, f"{ended(page, ask(site, [QUESTION, IMAGE]))}/request", "What the client sent")
    script = """
        const lines = document.querySelectorAll('.column')[0].querySelectorAll('.line');
        for (const line of lines) if (line.textContent.includes('data: ')) { line.click(); return true; }
    """
    until(lambda: page.execute_script(script))
    until(lambda: page.find_elements("xpath", "//button[text()='Show the image']"))[0].click()
    until(lambda: page.execute_script("return document.querySelector('img.shown')?.naturalWidth") == 8)


def test_ten_thousand_events_stay_fluid(page, site):
    """Each row is there, few are drawn; the last is chosen, and what it comes from is found."""
    call = ended(page, ask(site, "sim:count=10000", max_tokens=100_000))
    panel(page, f"{call}/stream", "From the service")
    middle = page.find_elements("css selector", ".virtual")[1]
    until(lambda: page.execute_script("return arguments[0].scrollHeight", middle) > 20_000 * 22)
    page.execute_script("arguments[0].scrollTop = arguments[0].scrollHeight", middle)
    until(lambda: page.execute_script("return arguments[0].textContent.includes('MessageEnd')", middle))
    choose(page, "MessageEnd")
    until(lambda: "stop_reason" in page.find_element("css selector", ".step").text)
    assert page.execute_script("return document.querySelectorAll('.line').length") < 300


def test_a_client_that_leaves(page, site):
    """What had come until then is seen, and that nobody was there any more."""
    url, question = urlsplit(site.url), [{"role": "user", "content": "sim:slow"}]
    body = json.dumps({"model": "claude-sonnet-4.5", "max_tokens": 99, "stream": True, "messages": question}).encode()
    lines = (
        f"POST {PREFIX}/v1/messages HTTP/1.1",
        f"host: {url.netloc}",
        "x-api-key: k",
        f"content-length: {len(body)}",
    )
    head = "".join(f"{line}\r\n" for line in (*lines, ""))
    with socket.create_connection((url.hostname or "", url.port or 0)) as client:
        client.sendall(head.encode() + body)
        came = b""
        while b"content_block_delta" not in came:
            came += client.recv(65536)
    call = ended(page, came.partition(b"request-id: ")[2].partition(b"\r\n")[0].decode())
    assert "client left" in page.find_element("css selector", ".detail .head").text
    assert "broke off here" in panel(page, f"{call}/answer", "broke off")
    assert "TextDelta" in panel(page, f"{call}/stream", "TextDelta")


def test_a_call_is_done_again_otherwise(page, site):
    """With another setting: where it differs is said, and both are shown; a wrong value is told."""
    panel(page, f"{ended(page, ask(site, 'sim:thinking'))}/compare", "Do this call again")
    setting, value = page.find_element("id", "setting"), page.find_element("id", "value")
    setting.send_keys("kiro.fake_reasoning_handling")
    value.clear()
    value.send_keys("remove")
    run = page.find_element("css selector", "#panel form button")
    run.click()
    until(lambda: "They differ from byte" in page.find_element("id", "panel").text)
    assert "thinking_delta" in page.find_elements("css selector", ".column pre")[0].text
    value.clear()
    value.send_keys("nonsense")
    run.click()
    until(lambda: "must be one of" in page.find_element("id", "panel").text)
    page.get_log("browser")  # of the refusal


def test_keys_are_enough_in_a_stream(page, site):
    """From column to column, and from row to row; the tabs, too."""
    from selenium.webdriver.common.keys import Keys

    panel(page, f"{ended(page, ask(site, 'sim:tool'))}/answer", "get_weather")
    page.find_element("css selector", "[role=tab][aria-selected=true]").send_keys(Keys.ARROW_RIGHT)
    until(lambda: page.find_elements("css selector", ".virtual"))
    columns = page.find_elements("css selector", ".virtual")
    columns[0].send_keys(Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    page.switch_to.active_element.send_keys(Keys.ENTER)
    title = "return document.querySelector('.step h3')?.textContent ?? ''"
    until(lambda: "Frame" in page.execute_script(title))
    assert page.switch_to.active_element == columns[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_tabs_are_accessible(scheme, page, site, scripts):
    """By axe-core, at a desk and on a telephone; nothing scrolls sideways."""
    call = ended(page, ask(site, "sim:thinking-tool"))
    for width, name in ((1400, ""), (390, "-narrow")):
        screen(page, width, 900, scheme=scheme)
        for tab in ("facts", "answer", "stream", "request", "conversation", "compare"):
            panel(page, f"{call}/{tab}")
            time.sleep(0.5)
            if tab == "stream":
                choose(page, "Frame toolUseEvent")
                time.sleep(0.3)
            picture(page, f"inspector-{tab}-{scheme}{name}")
            assert violations(page, scripts) == [], (tab, width)
            assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth"), (tab, width)
    screen(page, 1400, 900)


def test_no_rule_of_the_page_was_broken(page):
    """No script failed, and the browser had nothing to refuse."""
    assert page.get_log("browser") == []
