"""The page at the mount point in a browser: below a prefix, wide and narrow, light and dark."""

from __future__ import annotations

import pytest

from tests.browser.inspected import PREFIX
from tests.browser.looking import log_in, picture, screen, until, violations

pytest.importorskip("selenium.webdriver", reason="needs selenium, as tox -e browser has it")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_reads_on_every_screen(width, scheme, driver, site, scripts):
    """axe-core finds nothing, nothing is wider than the screen, and the browser refuses nothing of the page's own."""
    driver.get_log("browser")
    screen(driver, width, scheme=scheme)
    driver.get(f"{site.url}{PREFIX}/")
    until(lambda: driver.find_elements("tag name", "h1"))

    assert violations(driver, scripts) == []
    wide, window = driver.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= window
    ground = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 24, 28)"}[scheme], "its style was refused"
    assert [each for each in driver.get_log("browser") if each["level"] == "SEVERE"] == []
    picture(driver, f"start-page-{width}-{scheme}")


def test_it_leads_to_what_it_names(driver, site):
    """The addresses are those of this browser; the inspector is one click away."""
    log_in(driver, site, "alice")
    screen(driver, 1280)
    driver.get(f"{site.url}{PREFIX}/")
    text = driver.find_element("tag name", "main").text

    assert f"{site.url}{PREFIX}/v1" in text
    assert f"curl {site.url}{PREFIX}/v1/chat/completions" in text
    driver.find_element("link text", "Inspector").click()
    until(lambda: driver.find_element("id", "live").text == "● live")
    assert driver.current_url.startswith(site.inspector)
