"""The programs that the page on clients shows say what they are meant to say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.pages import ADDRESS, EXAMPLES
from tests.clients.surroundings import Gateway

ANSWER = "You said: Hello there\n"


@pytest.mark.parametrize(("example", "answers"), [("vercel", 3), ("openai", 1), ("anthropic", 1)])
def test_an_example(gateway: Gateway, scripts: Path, example: str, answers: int) -> None:
    """With the address that it has in the page, and the key, it prints every answer."""
    source = (EXAMPLES / f"{example}.mjs").read_text("utf-8")
    (scripts / "example.mjs").write_text(source.replace(ADDRESS, gateway.base))

    output = gateway.run("node", "example.mjs", folder=scripts, home=scripts)

    assert output.count(ANSWER) == answers


@pytest.mark.parametrize(("example", "answers"), [("langchain", 3), ("pydantic_ai", 1), ("openai_agents", 1)])
def test_a_framework(gateway: Gateway, frameworks: Path, tmp_path: Path, example: str, answers: int) -> None:
    """The same for the frameworks of Python."""
    source = (EXAMPLES / f"with_{example}.py").read_text("utf-8")
    (tmp_path / "example.py").write_text(source.replace(ADDRESS, gateway.base))

    output = gateway.run(str(frameworks), "example.py", folder=tmp_path, home=tmp_path)

    assert output.count(ANSWER) == answers


def test_another_key_is_refused(gateway: Gateway, scripts: Path) -> None:
    """The key in the examples is what lets them in."""
    source = (EXAMPLES / "openai.mjs").read_text("utf-8").replace("choose-a-key", "another")
    (scripts / "example.mjs").write_text(source.replace(ADDRESS, gateway.base))

    with pytest.raises(AssertionError, match="AuthenticationError: 401"):
        gateway.run("node", "example.mjs", folder=scripts, home=scripts)


def test_nothing_but_the_gateway_can_be_reached(gateway: Gateway, scripts: Path) -> None:
    """A client that wants to tell somebody something cannot."""
    if not gateway.enter:
        pytest.skip("clients run in the machine's own network")

    links = gateway.run("ip", "-oneline", "link", folder=scripts, home=scripts).splitlines()

    assert [line.split(":")[1].strip() for line in links] == ["lo"]
