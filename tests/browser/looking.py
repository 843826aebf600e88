"""A browser that looks at the inspector."""

from __future__ import annotations

import json
import os
import time
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


def violations(driver: Any, scripts: Path) -> list[tuple[str, list[str]]]:
    """What axe-core finds wrong with the page for people who do not see it, or have no mouse."""
    axe = (scripts.parent / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")
    driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
    run = {"expression": "axe.run().then(found => JSON.stringify(found.violations))", "awaitPromise": True}
    told = driver.execute_cdp_cmd("Runtime.evaluate", run)["result"]["value"]
    return [(each["id"], [it["html"] for it in each["nodes"]]) for each in json.loads(told)]
