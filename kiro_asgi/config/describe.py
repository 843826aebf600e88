"""Every setting as a row of text, for the reference and for ``kiro-asgi check``.

The explanations are the docstrings under the fields, read from the source: there is no second place to keep in step.
"""

from __future__ import annotations

import ast
import inspect
from textwrap import dedent
from typing import Any

import attrs
from attrs import frozen

from kiro_asgi.config.leaves import Leaf, leaves, members_of, values_of
from kiro_asgi.config.tree import Settings
from kiro_asgi.setting import Choices


@frozen
class SettingRow:
    """One setting in words."""

    path: str
    env: str
    type: str
    default: str
    value: str
    """The current value; a secret is masked."""

    choices: tuple[str, ...]
    """The values that are allowed, but for empty where that is the default; none where any value is."""

    doc: str
    """The docstring under the field, on one line; reStructuredText."""


def describe(settings: Settings | None = None) -> tuple[SettingRow, ...]:
    """Rows in the order of the source; *settings* gives the values, the defaults where there are none."""
    settings = settings or Settings()
    values, root = values_of(settings), type(settings)
    known = leaves(root, members_of(root, values))
    docs = {owner: _field_docs(owner) for owner in {leaf.owner for leaf in known.values()}}
    return tuple(
        SettingRow(
            leaf.path,
            leaf.env,
            _type_name(leaf.type),
            display(leaf, leaf.default),
            display(leaf, values[leaf.path]),
            _choices(leaf),
            docs[leaf.owner][leaf.name],
        )
        for leaf in known.values()
    )


def display(leaf: Leaf, value: Any) -> str:
    """*value* as it would be written in the environment; a secret only as its number of characters."""
    texts = value if isinstance(value, tuple) else (value,)
    if leaf.secret:
        return ", ".join(f"*** ({len(text)} characters)" for text in texts if text)
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(f"{text:.15g}" if isinstance(text, float) else str(text) for text in texts)


def _choices(leaf: Leaf) -> tuple[str, ...]:
    rule = leaf.declared.rule
    return tuple(filter(None, rule.words)) if isinstance(rule, Choices) else ()


def _type_name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and kind in (bool, int, float, str) else "list of str"


def _field_docs(owner: type) -> dict[str, str]:
    """Field name to the docstring under it, in the class or in the one that it shares fields with.

    A class whose source is not to be had has none: that of an upstream from outside may be made anywhere.
    """
    docs = dict.fromkeys((it.name for it in attrs.fields(owner)), "")
    for kind in filter(attrs.has, reversed(owner.__mro__)):
        try:
            body = ast.parse(dedent(inspect.getsource(kind))).body[0]
        except (OSError, TypeError):
            continue
        assert isinstance(body, ast.ClassDef)
        for target, text in zip(body.body, body.body[1:], strict=False):
            match target, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                    docs[name] = " ".join(words.split())
    return docs
