"""A browser that looks at the inspector."""

from __future__ import annotations

import base64
import json
import os
import re
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.browser.inspected import PASSWORD, Site

PICTURES: Final = os.environ.get("KIRO_ASGI_PICTURES", "")
"""A folder for pictures of the page, for the documentation."""


def until(condition: Callable[[], Any], seconds: float = 30) -> Any:
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
    until(lambda: "/login/" not in driver.current_url)


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


DOCUMENTED: Final = Path(__file__).parents[2] / "docs" / "pictures"
"""The pictures of the documentation, each with the words in it, so that it is seen when they change."""

_WORDS: Final = b"tEXtwords\0"
_PNG_HEAD: Final = 33
"""Bytes of a PNG before its second chunk."""

_NUMBERS: Final = (
    (r"\b(?:req|msg|tooluse|call|toolu|key)[_:][0-9a-zA-Z_-]+", "id"),
    (r"(?:≈|< |[$€£])*\d[\d.,:/]*", "#"),
    (r"# (?:ms|min # s|s)\b", "# s"),
    (r"# (?:B|KiB|MiB|GiB)\b", "# B"),
    (r"\s+", " "),
)
"""What differs from run to run, and what stands for it."""

_SEEN: Final = """
    const found = [], skipped = arguments[0] + "svg, figcaption, script, style, [hidden], .live, .hex, .when, option";
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) if (!walk.currentNode.parentElement.closest(skipped)) found.push(walk.currentNode.data);
    return found.join(" ");
"""


def _words(driver: Any, without: str) -> bytes:
    text = driver.execute_script(_SEEN, without and f"{without}, ")
    for pattern, stands in _NUMBERS:
        text = re.sub(pattern, stands, text)
    return base64.b64encode(zlib.compress(text.strip().encode()))


def documented(driver: Any, name: str, without: str = "") -> None:
    """Take a picture of the documentation, or see that the one that it has is of the same words.

    Those in elements that *without* selects may be others.
    """
    words = _words(driver, without)
    if PICTURES:
        png, body = driver.get_screenshot_as_png(), _WORDS + words
        chunk = (len(body) - 4).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
        Path(PICTURES, f"{name}.png").write_bytes(png[:_PNG_HEAD] + chunk + png[_PNG_HEAD:])
        return
    png = (DOCUMENTED / f"{name}.png").read_bytes()
    start = png.find(_WORDS)
    kept = png[start + len(_WORDS) :][: int.from_bytes(png[start - 4 : start], "big") - len(_WORDS) + 4]
    shown = [zlib.decompress(base64.b64decode(each)).decode() for each in (kept, words)] if start > 0 else ["none", ""]
    assert shown[0] == shown[1], f"{name}: make it again with KIRO_ASGI_PICTURES=docs/pictures"


def violations(driver: Any, scripts: Path) -> list[tuple[str, list[str]]]:
    """What axe-core finds wrong with the page for people who do not see it, or have no mouse."""
    axe = (scripts.parent / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")
    driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
    run = {"expression": "axe.run().then(found => JSON.stringify(found.violations))", "awaitPromise": True}
    told = driver.execute_cdp_cmd("Runtime.evaluate", run)["result"]["value"]
    return [(each["id"], [it["html"] for it in each["nodes"]]) for each in json.loads(told)]
