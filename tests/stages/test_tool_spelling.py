from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.model.events import Notice, TextDelta, ToolCallEnd, ToolCallStart, ToolInputDelta
from kiro_asgi.stages.tool_spelling import CORRECTED, ToolSpelling, respelled
from tests.helpers import run

NAVIGATE, SHOT = "mcp__puppeteer__puppeteer_navigate", "mcp__puppeteer__puppeteer_screenshot"
READ, ISSUE = "mcp__filesystem__read_file", "mcp__github__create_issue"
TOOLS = (NAVIGATE, SHOT, READ, ISSUE, "navigate", "Bash")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        pytest.param("mcp__puppeteer_navigate", NAVIGATE, id="F237-the-tool-without-its-server"),
        pytest.param("mcp__navigate", NAVIGATE, id="F238-part-of-one-name"),
        pytest.param("mcp__fs_read_file", READ, id="F239-two-words-of-three"),
        pytest.param("mcp__github_issue_create", ISSUE, id="F239-order-does-not-count"),
        pytest.param("mcp__github__create_pull", None, id="half-of-the-tool's-words"),
        pytest.param("mcp__pup_navigate", None, id="one-word-of-three"),
        pytest.param("mcp__", None, id="nothing"),
        pytest.param("mcp__a__", None, id="a-server-alone"),
        pytest.param("mcp__e", None, id="one-letter"),
        pytest.param("mcp__puppeteer", None, id="part-of-two-names"),
        pytest.param("mcp__gitlab__create_issue", None, id="another-server"),
        pytest.param("mcp__puppeteer__navigate", NAVIGATE, id="its-server-and-part-of-its-name"),
        pytest.param("mcp__GitHub__Create_Issue", ISSUE, id="upper-case"),
        pytest.param("mcp__github__create_create_create", None, id="one-word-counts-once"),
        pytest.param("mcp__read_file\nforged line", None, id="no-name"),
        pytest.param("mcp__" + "read_file" * 30, None, id="endless"),
        pytest.param("puppeteer_navigate", None, id="F236-no-mcp-name"),
        pytest.param("bash", None, id="F236-no-mcp-name-but-for-case"),
        pytest.param(SHOT, None, id="F236-registered"),
    ],
)
def test_names(name, meant):
    """A wrong MCP name becomes that of the one tool that it must mean; where none is certain it stays (§2.7)."""
    assert respelled(name, TOOLS) == (meant or name)


@pytest.mark.parametrize(
    ("name", "tools"),
    [
        pytest.param("mcp__run", ("mcp__a__run", "mcp__b__run"), id="same-tool"),
        pytest.param("mcp__list", ("mcp__a__list_files", "mcp__a__list_files_deeply"), id="containment"),
        pytest.param("mcp__a__read_one_file", ("mcp__a__read_one_line", "mcp__a__copy_one_file"), id="words"),
        pytest.param("mcp__A__run", ("mcp__a__run", "mcp__a__RUN"), id="case"),
    ],
)
def test_two_candidates_are_none(name, tools):
    """What may mean either of two tools means neither, also where a later rule would prefer one."""
    assert respelled(name, tools) == name


def test_a_correction_is_noted_with_both_names():
    """The notice comes before the call; calls of known tools and everything else pass (F240)."""
    start, rest = ToolCallStart("c", "mcp__navigate"), [ToolInputDelta("{}"), ToolCallEnd("c"), TextDelta("t")]

    assert run(ToolSpelling(TOOLS), [start, *rest]) == [
        Notice(CORRECTED, f"mcp__navigate -> {NAVIGATE}"),
        ToolCallStart("c", NAVIGATE),
        *rest,
    ]
    assert run(ToolSpelling(TOOLS), [ToolCallStart("c", READ), *rest]) == [ToolCallStart("c", READ), *rest]


NAMES = st.lists(st.sampled_from(["mcp", "__", "_", "a", "b", "read", "file", "A", "-"]), max_size=8).map("".join)


@given(NAMES.map("mcp__{}".format) | st.text(max_size=20), st.lists(NAMES.map("mcp__{}".format), max_size=4))
def test_a_name_is_never_invented(name, tools):
    """Whatever comes in, a registered name or the same one comes out, and that is final."""
    meant = respelled(name, tools)

    assert meant == name or (name.startswith("mcp__") and meant in tools)
    assert respelled(meant, tools) == meant
