"""A bug that is logged fails the test that meets it, and one that is caused on purpose does not."""

from __future__ import annotations

import logging

import pytest

from tests.unexpected import Bugs, first_bug, look_for_bugs, watched


def _bugs(words: str, logger: str = "kiro_asgi") -> Bugs:
    with watched() as bugs:
        try:
            raise LookupError(words)
        except LookupError:
            logging.getLogger(logger).exception("unexpected LookupError", extra={"request_id": "req_1"})
    return bugs


@pytest.mark.unexpected("of the test")
@pytest.mark.parametrize("logger", ["kiro_asgi", "asyncio", "hypercorn.error"])
def test_a_traceback_in_a_log_fails(logger: str) -> None:
    """Whoever logs it: the gateway, the event loop, a server; the failure names the call and says how to opt out."""
    with pytest.raises(AssertionError, match=r"(?s)request req_1.*LookupError: of the test.*pytest\.mark\.unexpected"):
        _bugs("of the test", logger).check(())


@pytest.mark.unexpected("of the test")
def test_what_is_caused_on_purpose_does_not() -> None:
    """By words of it; other words, and words that nothing has, fail."""
    _bugs("of the test").check(["of the test"])
    with pytest.raises(AssertionError, match="a bug was logged"):
        _bugs("of the test").check(["of another"])
    with pytest.raises(AssertionError, match="nothing unexpected was logged"):
        Bugs([]).check(["of the test"])


def test_an_error_without_a_traceback_does_not() -> None:
    """It is a message for operators."""
    with watched() as bugs:
        logging.getLogger("kiro_asgi").error("a response is damaged, and counts as missing: %s", "resp_1")
    bugs.check(())


@pytest.mark.unexpected("serve wrote")
@pytest.mark.parametrize(
    "text",
    [
        "ERROR unexpected LookupError\nTraceback (most recent call last):\n",
        '{"level":"error","exception":"Traceback (most recent call last):\\n"}\n',
        "Task exception was never retrieved\n",
        "Exception ignored in: <generator>\n",
        "ERROR kiro_asgi: work in the background failed: OSError()\n",
    ],
)
def test_a_bug_in_what_a_process_wrote_fails(text: str) -> None:
    """As text, and as lines of JSON."""
    with watched() as bugs:
        look_for_bugs(f"first line\n{text}", "serve")
    with pytest.raises(AssertionError, match="serve wrote:\nfirst line\n"):
        bugs.check(())


def test_other_output_does_not() -> None:
    """Complaints of a server are no bugs."""
    assert not first_bug("WARNING answer broken off\nERROR no connection can be accepted for a second\n")
