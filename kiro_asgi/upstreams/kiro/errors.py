"""What words mean at the Kiro service alone.

Two refusals look temporary and must not be treated so.  A suspended account, and an account limited for "suspicious
activity" (a 429), become kinds of `UpstreamDenied`: trying again is what turns the second into the first.

Source: https://github.com/aws/amazon-q-developer-cli (the open-source client)
"""

from __future__ import annotations

import re
from typing import Final

from kiro_asgi.errors import UpstreamSuspended
from kiro_asgi.failures.meanings import GENERAL, WORDS, Own, key_of
from kiro_asgi.failures.report import Object, document_of, names_failure
from kiro_asgi.wire.json import text_of

_SUSPENDED: Final = (UpstreamSuspended, "TEMPORARILY_SUSPENDED")

MEANINGS: Final = Own(phrases=((re.compile(r"\bsuspended\b", re.I), *_SUSPENDED),), statuses={423: _SUSPENDED})


def is_exception(name: str) -> bool:
    """Whether *name* is that of an exception: they are members of the same union as the events of an answer."""
    return names_failure(name)


def is_report(body: bytes) -> bool:
    """Whether a JSON body reports an error."""
    report: Object = document_of(body)
    names = (text_of(report, "code"), text_of(report, "__type"))
    if any(key_of(name) in GENERAL or key_of(name) in WORDS for name in names if name):
        return True
    said = any(text_of(report, name) for name in ("message", "Message", "errorMessage"))
    return said and not {"reason", "code", "__type"}.isdisjoint(report)
