"""The rules by which a prompt becomes messages that the service takes, in the order in which they are applied.

Each relies on those before it::

    Prompt ─► tools, names, schema ─► drafts (texts, attachments, thinking) ─► results ─► turns ─► sizes

A rule that applies asks `notes.Notes` whether it may, which counts it; one that is switched off leaves the request as
it was.  Nothing of the client's request is lost without a note, whose rule describes the loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from kiro_asgi.errors import ConfigError
from kiro_asgi.model.rules import Loss, Rule, differs, listed

_NONE, _FORM, _CONTENT = Loss.NONE, Loss.FORM, Loss.CONTENT

RULES: Final = listed(
    "adapted.signatures",
    Rule("adapted.stubs", "Tools that history mentions are defined, as the service missed a definition.", _NONE),
    Rule("adapted.untagged", "A model that declines to write its reasoning as text is not asked for tags.", _NONE),
    Rule("adapted.as_text", "Tool calls are sent as text, as the service found them improperly formed.", _FORM),
    Rule("contract.system_told", "The contract's translator puts the system text into the current message.", _FORM),
    Rule("contract.description_moved", "It cuts a description that is long, and puts it there in full, too.", _FORM),
    Rule("contract.call_told", "It sends an earlier tool call as text: its id and its name.", _CONTENT),
    Rule(
        "contract.schema_emptied",
        "A part of a schema without one of the six keywords that it keeps may be anything.",
        _CONTENT,
    ),
    Rule("contract.result_told", "It sends the result of an earlier tool call as text.", _FORM),
    Rule("contract.thinking_dropped", "It does not hand earlier thinking back.", _CONTENT),
    "tools.duplicate_dropped",
    Rule("tools.withheld", "With the choice “none” only tools that history mentions are defined.", _CONTENT),
    "tools.choice_unknown",
    differs("tools.stubbed", "A tool that history mentions and that is not offered any more is defined."),
    "tools.renamed",
    Rule("tools.undescribed", "A tool without a description gets its name as one.", _NONE),
    Rule("tools.description_moved", "A long description is cut, and stands in full in the system text.", _FORM),
    "schema.depth",
    "schema.keywords",
    Rule("schema.malformed", "Anything but a schema (true, false, null, text) is dropped.", _CONTENT),
    "schema.required",
    Rule("schema.reference", "A reference at a schema's root is replaced by its target, if it has one.", _NONE),
    "schema.renamed",
    "schema.combinators",
    "schema.root",
    Rule("text.unencodable", "Halves of surrogate pairs become U+FFFD.", _CONTENT),
    Rule("text.sanitized", "Escape sequences and control characters are taken out, if that is set.", _CONTENT),
    Rule("text.reminders_stripped", "System reminders are taken out, if that is set.", _CONTENT),
    "images.model",
    Rule("images.limit", "Of too many images the newest are sent; a sentence replaces each of the others.", _CONTENT),
    Rule("images.placed", "Where text stands between images, a remark stands for each image.", _FORM),
    "attachments.base64",
    "images.address",
    Rule("images.size", "An image over 10 MB is refused.", _NONE),
    "images.mismatch",
    "images.format",
    "documents.inlined",
    "documents.address",
    "documents.format",
    "documents.renamed",
    "turns.part_moved",
    "results.attachment_lifted",
    Rule("results.no_output", "A result without text gets a text that there was no output.", _NONE),
    "calls.input_wrapped",
    Rule("calls.empty_keys", "Arguments with an empty name are dropped.", _CONTENT),
    "thinking.dropped",
    "thinking.unsigned_dropped",
    "thinking.malformed_dropped",
    Rule("thinking.tags_dropped", "Earlier thinking that stands in tags before an answer is dropped.", _CONTENT),
    "calls.duplicate_dropped",
    "calls.id_changed",
    "calls.id_repeated",
    "results.orphan_to_text",
    "results.duplicate_dropped",
    "results.duplicate_to_text",
    "results.relocated",
    "turns.empty",
    "turns.prefill",
    "turns.user_first",
    "turns.merged",
    Rule("thinking.second_dropped", "Of a message's earlier thinking the first part is handed back.", _CONTENT),
    "calls.unanswered",
    "results.ordered",
    Rule("history.as_text", "Earlier tool calls and results become part of the user's text, if that is set.", _FORM),
    Rule("content.filled", "An empty message gets a short text.", _NONE),
    Rule("thinking.tags", "A model without thinking of its own is asked for thinking in tags.", _NONE),
    "thinking.unavailable",
    "thinking.effort",
    "sampling.max_tokens",
    Rule("tools.choice_told", "The choice of tools is stated in the system text.", _FORM),
    "output.schema_instruction",
    Rule("system.exchange", "The system text becomes the first exchange.", _FORM),
    differs(
        "sampling.ignored", "Temperature, top_p, top_k, seed and penalties are ignored: the service has no such fields."
    ),
    Rule("size.message", "A user's message over 600,000 characters is refused.", _NONE),
    Rule("size.result", "A tool's result over 800,000 characters is refused.", _NONE),
    Rule("size.trimmed", "The oldest exchanges of too long a conversation are left out, if that is set.", _CONTENT),
    Rule("size.payload", "A request that is larger than fits the model's window is refused.", _NONE),
)

TABLE: Final[Mapping[str, Rule]] = MappingProxyType({rule.name: rule for rule in RULES})
"""The same by name."""


def switched_off(names: Iterable[str]) -> frozenset[str]:
    """Look up the rules to switch off.

    Raises:
        ConfigError: A name is no rule's; the message suggests similar ones.
    """
    off = frozenset(names)
    if unknown := sorted(off - TABLE.keys()):
        raise ConfigError(f"kiro.rules_off: {'; '.join(map(_unknown, unknown))}", code="kiro.rules_off")
    return off


def _unknown(name: str) -> str:
    near = get_close_matches(name, TABLE, 3, 0.6)
    advice = f"did you mean {' or '.join(near)}?" if near else "kiro-asgi explain names those that apply to a request"
    return f"there is no rule {name!r:.60}; {advice}"
