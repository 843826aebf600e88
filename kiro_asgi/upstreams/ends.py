"""Why an answer ended, where a service says it in a word that its own table may not have.

The table of a service comes first, however the word is spelt: ``MAX_TOKENS``, ``max-tokens`` and ``maxTokens`` are
one word.  Any other word is classed by what it says.  A word that says nothing leaves the answer as good as it looks,
and is passed on by a notice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kiro_asgi.errors import UpstreamError, UpstreamFault, UpstreamOverloaded, UpstreamQuotaSpent, UpstreamThrottled
from kiro_asgi.failures.meanings import LIMITING, parts_of_word
from kiro_asgi.failures.texts import clean
from kiro_asgi.model.events import Notice, Stop, StopReason

Meaning = StopReason | type[UpstreamError]
"""An error for an answer that the service gave up; its class says whether the service is asked again."""

CUT: Final = frozenset(
    {
        *(StopReason.LENGTH, StopReason.CONTEXT_FULL, StopReason.CONTENT_FILTER, StopReason.PAUSED),
        StopReason.COMPACTED,
    }
)
"""Ends after which the last call may be incomplete."""

_NOT_WHOLE: Final = (CUT | {StopReason.REFUSAL}) - {StopReason.PAUSED}

_NO_TABLE: Final[Mapping[str, Meaning]] = MappingProxyType({})

_LONGEST: Final = 200
"""Characters of a word that are read."""

_SHOWN: Final = 60
"""Characters of it that errors and notices show."""

_CLASSES: Final[tuple[tuple[re.Pattern[str], Meaning | None], ...]] = (
    (LIMITING, UpstreamThrottled),
    (re.compile(r"_quota|_credit|_billing|_balance|_payment|_spend|_usage_limit"), UpstreamQuotaSpent),
    (re.compile(r"overload|_capacity|_busy_|_resource"), UpstreamOverloaded),
    (
        re.compile(
            r"(?<!t)error|_err_|exception|_fault|crash|_abort|_cancel|malform|network|connect|interrupt|_internal"
            r"|unavailable|unreachable|time_?d?_?out|_deadline|_memory|_oom_|_shut|_kill|_terminat|_preempt|_evict"
            r"|_stall|_expir|_hang|_stuck|_clos|_reset|_brok|corrupt|_panic|_retr(?:y|ies)_|_attempt|_upstream|_backend"
            r"|_server_|_provider"
        ),
        UpstreamFault,
    ),
    (re.compile(r"_permission|_access_|_auth|_account|_unsupported"), UpstreamError),
    (
        re.compile(
            r"filter|safety|unsafe|_not_safe|sensitiv|moderat|polic(?:y|ies)|block|prohibit|refus|_declin|guard_?rail"
            r"|recitation|_spii_|_pii_|copyright|violat|harm|censor|jailbreak|armor|toxic|_nsfw|_hate|violen|sexual"
            r"|terror|appropriate|disallow|_not_allowed|forbid|_deni|_deny|_bann?|_risk|inspect|_pup_|_csam|_abus"
            r"|_illegal|_restrict|_injection|_reject|_escalat"
        ),
        StopReason.CONTENT_FILTER,
    ),
    (
        re.compile(
            r"_fail|_unsuccess|_invalid|_unexpected|_bad_|_wrong|_lost_|_drop|_unfinish|_incorrect|_unreadable"
            r"|_premature|_abnormal|_repeti|_degenerat|_degraded"
        ),
        UpstreamFault,
    ),
    # Asked again, the model would say the same.
    (re.compile(r"_no_|_not_|_never_|_without_|_missing"), UpstreamError),
    (
        re.compile(r"context|_window|_model_length|_too_long_|_(?:prompt|input)_(?:token|limit|length)"),
        StopReason.CONTEXT_FULL,
    ),
    (
        re.compile(
            r"length|_max|_limit|exceed|budget|truncat|_cut|_incomplete|_partial|_cap_|_capped_|_out_of_tokens?_"
            r"|_too_many_tokens_|_insufficient_tokens_|_tokens?_exhaust"
        ),
        StopReason.LENGTH,
    ),
    (re.compile(r"_exhaust|_insufficient|_too_many|_out_of_"), UpstreamFault),
    (re.compile(r"_unspecified|_unknown|_other_|_undefined|_unset_|_none_"), None),
    (re.compile(r"_compact"), StopReason.COMPACTED),
    (re.compile(r"_paus|_continu|_suspend|_defer|_pending|_await"), StopReason.PAUSED),
    (
        re.compile(r"_tools?_|_tool_?(?:call|use)|_functions?_|function_?call|_calls?_|_requires_action"),
        StopReason.TOOL_CALL,
    ),
    (re.compile(r"_stop_?(?:seq|word|string|phrase)"), StopReason.STOP_SEQUENCE),
    (
        re.compile(
            r"_end(?:ed|ing|turn|of\w*)?_|_eo[fst]_|_stop(?:s|ped)?_|_done_|_complete[ds]?_|_completion_|_finish(?:ed)?_"
            r"|_success|_natural|_normal"
        ),
        StopReason.END,
    ),
)
"""What stands in a word, of which each part is between underscores, to its meaning; the first that fits.

A failure precedes what failed (``tool_use_error``), a filter the failure that it calls itself
(``data_inspection_failed``), and both precede a limit; ``None`` is a word that says that it says nothing."""


def meaning_of(said: Any, known: Mapping[str, Meaning] = _NO_TABLE) -> Meaning | None:
    """The meaning of the word *said*, by the service's own table, or else by what it says; ``None`` for neither."""
    text = (said if type(said) is str else str(said))[:_LONGEST]
    key = _key(text)
    for word, meaning in known.items():
        if _key(word) == key:
            return meaning
    parts = parts_of_word(text)
    return next((meaning for pattern, meaning in _CLASSES if pattern.search(parts)), None)


def end_of(said: Any, known: Mapping[str, Meaning] = _NO_TABLE) -> StopReason | None:
    """Why an answer ended that ended with the word *said*; ``None`` for a word without a meaning.

    Raises:
        UpstreamError: The service gave the answer up; its code is the word.
    """
    meaning = meaning_of(said, known)
    if meaning is None or isinstance(meaning, StopReason):
        return meaning
    word = _shown(said)
    raise meaning(f"the service gave up its answer: {word}", code=word)


WORDS: Final = (
    *("finish_reason", "finishReason", "stop_reason", "stopReason", "native_finish_reason", "done_reason"),
    "finish_details",
)
"""Members that say why an answer ended, at services that do not use the name that their API has for it."""

NAMES: Final = frozenset(WORDS)


def word_in(*places: Mapping[str, Any]) -> Any:
    """Why an answer ended, where the member that should say it does not: under another name, or in another place."""
    for place in places:
        if not NAMES.isdisjoint(place) and (found := next(filter(None, map(place.get, WORDS)), None)):
            return found
    return None


def outlasts(meaning: Meaning | None) -> bool:
    """Whether an answer that is said to have ended so is not whole, whatever else is said of its end afterwards."""
    return isinstance(meaning, type) or meaning in _NOT_WHOLE


def kept(before: Stop | None, now: Stop) -> Stop:
    """The end of an answer of which it is said more than once: that it is not whole holds, otherwise the last."""
    return before if before is not None and outlasts(before.reason) and not outlasts(now.reason) else now


def unknown(said: Any) -> Notice:
    """The notice of a word without a meaning."""
    return Notice("stop.unknown", _shown(said))


def _key(word: str) -> str:
    return parts_of_word(word).replace("_", "")


def _shown(said: Any) -> str:
    return clean(str(said)[:_LONGEST])[:_SHOWN]
