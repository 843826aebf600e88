"""Variables of the environment that are not ours, though whoever has set them may think so: other programs' keys, and
misspelt names.  None of them is read; messages name them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from kiro_asgi.config.leaves import ENV_PREFIX, families, leaves, slices
from kiro_asgi.upstreams.manifest import manifests_in

_LIKE_OURS: Final = re.compile(r"K[IRO]{3}[_-]*[ASGI]{4}_+(?P<rest>\w+)", re.IGNORECASE | re.ASCII)
"""Our prefix with letters in another order, or with another number of underscores."""

_LINKED: Final = re.compile(r"(?:\w+_)?(?:SERVICE_HOST|(?:SERVICE_)?PORT(?:_\w+)?)", re.ASCII)
"""What Kubernetes sets in each container for a service that is called ``kiro-asgi``, behind that name.

Source: https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
"""

_MOST: Final = 8
"""Names that are compared with all settings, which takes milliseconds for each."""

_LONGEST: Final = 100
"""Characters of a name that is compared."""


def keys_elsewhere(root: type, environ: Mapping[str, str]) -> dict[str, str]:
    """Variables in which other programs find the key of a service, as far as they are set, to the variable that would
    have it read here."""
    known = leaves(root)
    return {
        name: known[f"{field}.api_key"].env
        for field, manifest in manifests_in(root)
        if field not in families(root)
        for name in manifest.key_variables
        if environ.get(name)
    }


def misspelt(root: type, environ: Iterable[str], reserved: Iterable[str]) -> Iterator[str]:
    """One line for every name in *environ* that was probably meant as ours; *reserved* are those that are read."""
    left = _MOST
    for name in sorted({*environ} - {*reserved}):
        found = _LIKE_OURS.fullmatch(name[:_LONGEST])
        if found is None or name.upper().startswith(ENV_PREFIX) or not left:
            continue
        meant = _meant(root, found["rest"].upper())
        if meant and not _LINKED.fullmatch(found["rest"]):
            left -= 1
            yield f"{name} is not read: names of settings begin with {ENV_PREFIX}, with two underscores; {meant}"


def _meant(root: type, rest: str) -> str:
    """What a variable was probably meant to be, as the end of a message; empty where it was hardly meant as ours."""
    bare = {_bare(leaf.env): leaf.env for leaf in leaves(root).values()}
    if close := get_close_matches(_bare(f"{ENV_PREFIX}{rest}"), bare, n=1, cutoff=0.9):
        return f"did you mean {bare[close[0]]}?"
    tables = {name.upper() for name in (*slices(root), *families(root))}
    return f"did you mean {ENV_PREFIX}{rest}?" if rest.partition("__")[0] in tables and "__" in rest else ""


def _bare(name: str) -> str:
    return name.replace("_", "")
