"""Every rule by which a prompt becomes messages that the service takes: its name, its effect, the loss, and
the module that applies it; in their order.

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
from kiro_asgi.model.notes import Loss, Rule

_NONE, _FORM, _CONTENT = Loss.NONE, Loss.FORM, Loss.CONTENT

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "adapted.signatures",
        "Thinking is not handed back, as the service refused a signature.",
        _CONTENT,
        "kiro.upstream",
    ),
    Rule(
        "adapted.stubs",
        "Tools that history mentions are defined, as the service missed a definition.",
        _NONE,
        "kiro.upstream",
    ),
    Rule(
        "adapted.as_text",
        "Tool calls are sent as text, as the service found them improperly formed.",
        _FORM,
        "kiro.upstream",
    ),
    Rule(
        "contract.system_told",
        "The contract's translator puts the system text into the current message.",
        _FORM,
        "kiro.contract.request",
    ),
    Rule(
        "contract.description_moved",
        "It cuts a description that is long, and puts it there in full, too.",
        _FORM,
        "kiro.contract.request",
    ),
    Rule(
        "contract.call_told",
        "It sends an earlier tool call as text: its id and its name.",
        _CONTENT,
        "kiro.contract.request",
    ),
    Rule(
        "contract.schema_emptied",
        "A part of a schema without one of the six keywords that it keeps may be anything.",
        _CONTENT,
        "kiro.contract.request",
    ),
    Rule(
        "contract.result_told", "It sends the result of an earlier tool call as text.", _FORM, "kiro.contract.request"
    ),
    Rule("contract.thinking_dropped", "It does not hand earlier thinking back.", _CONTENT, "kiro.contract.request"),
    Rule("tools.duplicate_dropped", "Of tools with the same name the first counts.", _CONTENT, "tools"),
    Rule("tools.withheld", "With the choice “none” only tools that history mentions are defined.", _CONTENT, "tools"),
    Rule("tools.choice_unknown", "A choice that names a tool which is not there is refused.", _NONE, "tools"),
    Rule("tools.stubbed", "A tool that history mentions and that is not offered any more is defined.", _NONE, "tools"),
    Rule(
        "tools.renamed",
        "A name over 64 characters, with foreign characters, or like another but for case, is replaced; answers have "
        "the client's name.",
        _FORM,
        "texts",
    ),
    Rule("tools.undescribed", "A tool without a description gets its name as one.", _NONE, "tools"),
    Rule(
        "tools.description_moved", "A long description is cut, and stands in full in the system text.", _FORM, "tools"
    ),
    Rule("schema.depth", "Schemas nested deeper than 32 levels become anything.", _CONTENT, "tools"),
    Rule("schema.keywords", "Keywords that some back ends refuse are taken out of schemas.", _CONTENT, "tools"),
    Rule("schema.malformed", "Anything but a schema (true, false, null, text) is dropped.", _CONTENT, "tools"),
    Rule(
        "schema.required", "An empty list of required names, and names of no property, are dropped.", _CONTENT, "tools"
    ),
    Rule(
        "schema.reference",
        "A reference at a schema's root is replaced by its target, if it has one.",
        _NONE,
        "tools",
    ),
    Rule("schema.combinators", "Alternatives at a schema's root become its own properties.", _CONTENT, "tools"),
    Rule("schema.root", "The root of a schema is an object with properties.", _FORM, "tools"),
    Rule("text.unencodable", "Halves of surrogate pairs become U+FFFD.", _CONTENT, "texts"),
    Rule("text.sanitized", "Escape sequences and control characters are taken out, if that is set.", _CONTENT, "texts"),
    Rule("text.reminders_stripped", "System reminders are taken out, if that is set.", _CONTENT, "texts"),
    Rule("images.model", "An image for a model that takes none is refused.", _NONE, "drafts"),
    Rule(
        "images.limit",
        "Of too many images the newest are sent; a sentence replaces each of the others.",
        _CONTENT,
        "drafts",
    ),
    Rule("images.placed", "Where text stands between images, a remark stands for each image.", _FORM, "drafts"),
    Rule(
        "attachments.base64",
        "Base64 is written without line breaks, in the standard alphabet and padded; anything else is refused.",
        _FORM,
        "drafts",
    ),
    Rule("images.address", "An image by address is refused; see `fetch.allow`.", _NONE, "drafts"),
    Rule("images.size", "An image over 10 MB is refused.", _NONE, "drafts"),
    Rule("images.mismatch", "An image has the format that its bytes have.", _NONE, "drafts"),
    Rule("images.format", "An image in a format that the service does not know is refused.", _NONE, "drafts"),
    Rule("documents.inlined", "A plain-text document becomes part of the text.", _FORM, "drafts"),
    Rule(
        "documents.address",
        "A document by address is refused; see `fetch.allow`.",
        _NONE,
        "drafts",
    ),
    Rule("documents.format", "A document in a format that the service does not know is refused.", _NONE, "drafts"),
    Rule("documents.renamed", "Documents have names that differ, in the service's alphabet.", _FORM, "drafts"),
    Rule(
        "turns.part_moved", "A part that only the other side can have becomes a message of that side.", _FORM, "drafts"
    ),
    Rule(
        "results.attachment_lifted", "An image or a document in a tool's result moves to the message.", _FORM, "drafts"
    ),
    Rule("results.no_output", "A result without text gets a text that there was no output.", _NONE, "drafts"),
    Rule("calls.input_wrapped", "Arguments that are not an object become one.", _FORM, "drafts"),
    Rule("calls.empty_keys", "Arguments with an empty name are dropped.", _CONTENT, "drafts"),
    Rule("thinking.dropped", "Earlier thinking is not handed back, if that is set.", _CONTENT, "drafts"),
    Rule(
        "thinking.unsigned_dropped",
        "Earlier thinking without a signature, or with another service's, is not handed back.",
        _CONTENT,
        "drafts",
    ),
    Rule(
        "thinking.malformed_dropped",
        "Earlier thinking is not handed back if its text is missing, or its seal is not base64.",
        _CONTENT,
        "drafts",
    ),
    Rule(
        "thinking.tags_dropped", "Earlier thinking that stands in tags before an answer is dropped.", _CONTENT, "texts"
    ),
    Rule(
        "calls.duplicate_dropped",
        "A call that repeats another of the message, id and all, is dropped.",
        _NONE,
        "turns",
    ),
    Rule(
        "calls.id_changed", "An id in a foreign alphabet or too long is replaced, in call and result.", _FORM, "turns"
    ),
    Rule("calls.id_repeated", "An id that an earlier call has is replaced, in call and result.", _FORM, "turns"),
    Rule("results.orphan_to_text", "A result that answers no call becomes text.", _FORM, "turns"),
    Rule("results.duplicate_dropped", "A result that repeats one for the same call is dropped.", _NONE, "turns"),
    Rule("results.duplicate_to_text", "A second, different result for the same call becomes text.", _FORM, "turns"),
    Rule("results.relocated", "A result that comes late moves behind its call.", _FORM, "turns"),
    Rule("turns.empty", "An empty conversation becomes one user's message.", _NONE, "turns"),
    Rule("turns.prefill", "Behind an assistant's last message a user's message asks it to go on.", _NONE, "turns"),
    Rule(
        "turns.user_first", "Before an assistant's message at the beginning a user's message is added.", _NONE, "turns"
    ),
    Rule("turns.merged", "Neighbouring messages of one side become one.", _FORM, "turns"),
    Rule(
        "thinking.second_dropped", "Of a message's earlier thinking the first part is handed back.", _CONTENT, "turns"
    ),
    Rule("calls.unanswered", "A call without a result gets an error that says so.", _NONE, "turns"),
    Rule("results.ordered", "Results stand in the order of their calls.", _NONE, "turns"),
    Rule(
        "history.as_text",
        "Earlier tool calls and results become part of the user's text, if that is set.",
        _FORM,
        "turns",
    ),
    Rule("content.filled", "An empty message gets a short text.", _NONE, "turns"),
    Rule("thinking.tags", "A model without thinking of its own is asked for thinking in tags.", _NONE, "kiro.request"),
    Rule(
        "thinking.unavailable",
        "A demand for thinking that the model does not take is dropped.",
        _CONTENT,
        "kiro.request",
    ),
    Rule(
        "thinking.effort",
        "An effort that the model does not have becomes the nearest that it has.",
        _FORM,
        "kiro.request",
    ),
    Rule(
        "sampling.max_tokens",
        "The greatest length of the answer is kept within the model's bounds.",
        _NONE,
        "kiro.request",
    ),
    Rule("tools.choice_told", "The choice of tools is stated in the system text.", _FORM, "tools"),
    Rule("output.schema_instruction", "The schema of the answer is stated in the system text.", _FORM, "tools"),
    Rule("system.exchange", "The system text becomes the first exchange.", _FORM, "kiro.request"),
    Rule(
        "sampling.ignored",
        "Temperature, top_p, top_k, seed and penalties are ignored: the service has no such fields.",
        _CONTENT,
        "kiro.request",
    ),
    Rule("size.message", "A user's message over 600,000 characters is refused.", _NONE, "kiro.request"),
    Rule("size.result", "A tool's result over 800,000 characters is refused.", _NONE, "kiro.request"),
    Rule(
        "size.trimmed",
        "The oldest exchanges of too long a conversation are left out, if that is set.",
        _CONTENT,
        "kiro.request",
    ),
    Rule("size.payload", "A request that is larger than fits the model's window is refused.", _NONE, "kiro.request"),
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
