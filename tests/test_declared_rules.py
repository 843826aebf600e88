"""A part from outside declares the rules of its notes in its manifest; one that it does not is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve

from kiro_asgi import ConfigError, Settings
from kiro_asgi.asgi.exchange.explain import explain
from kiro_asgi.model.notes import Note
from kiro_asgi.model.rules import CATALOGUE, Loss, Rule
from kiro_asgi.upstreams import Configured, DirectSettings, Manifest, Rendered, common, direct_setup
from tests.asgi.test_handed_in import DIALECT, PLAIN, Odd, Without

SHORTENED = Rule("plain.shortened", "Blank lines are left out.", Loss.CONTENT)
NOTE = Note("plain.shortened", 2, "body")


def explained(body: bytes, *parties: Any, api: str | None = None, **tables: Any) -> list[dict[str, Any]]:
    """The rules of a request, as they are reported."""
    kiro = {"kiro": {"api_key": "k"}}
    settings = Settings.including(*parties).from_mapping({**kiro, **tables})
    rules: list[dict[str, Any]] = explain(body, settings, api, None, None)["rules"]
    return rules


def noting(*rules: Rule | str) -> Any:
    """A client API whose every request has a note, with *rules* in its manifest."""
    dialect = Without(
        DIALECT,
        "notes",
        notes=lambda body, parsed: (NOTE,),
        parse=lambda body, headers=(): DIALECT.parse(body, [(b"x-model", b"claude-sonnet-4.5")]),
    )
    return evolve(PLAIN, make=lambda options: dialect, rules=rules)


def test_a_client_api_declares_its_rules() -> None:
    """The report has the sentence and the loss of what it notes."""
    assert explained(b"hi", noting(SHORTENED), api="plain")[0] == {
        "rule": "plain.shortened",
        "times": 2,
        "place": "body",
        "loss": "content",
        "what": "Blank lines are left out.",
    }


@pytest.mark.parametrize("rules", [(), ("turns.merged",)])
def test_an_undeclared_rule_of_a_client_api_is_refused(rules: tuple[str, ...]) -> None:
    """By its name, with the place where it belongs; it was a KeyError."""
    with pytest.raises(ConfigError) as caught:
        explained(b"hi", noting(*rules), api="plain")

    assert caught.value.message == (
        "the client API plain notes the rule 'plain.shortened', which it does not declare; "
        "add it to DialectManifest.rules"
    )


class Noting(Odd):
    """A service whose every request has two notes."""

    def render(self, prompt: Any, model: Any, credential: Any, conversation: str = "") -> Rendered:
        rendered = super().render(prompt, model, credential, conversation)
        return evolve(rendered, notes=(Note("turns.merged"), Note("river.dammed")), document={})


DAMMED = Rule("river.dammed", "Water is held back.", Loss.FORM)
BODY = json.dumps({"model": "river/m", "messages": [{"role": "user", "content": "hi"}]}).encode()


def river(in_manifest: tuple[Rule | str, ...], in_setup: tuple[Rule, ...]) -> Manifest[Any]:
    """A service with rules in its manifest, and in what that makes."""

    def make(configured: Configured[Any]) -> Any:
        return direct_setup(configured, Noting(**common(configured)), in_setup, "http://h")

    return Manifest(name="river", title="River", settings=DirectSettings, make=make, rules=in_manifest)


@pytest.mark.parametrize(
    ("in_manifest", "in_setup"),
    [
        (("turns.merged", DAMMED), ()),
        ((DAMMED,), (CATALOGUE["turns.merged"],)),
        ((DAMMED,), (CATALOGUE["turns.merged"], DAMMED)),
        ((), (CATALOGUE["turns.merged"], DAMMED)),
    ],
)
def test_an_upstream_declares_its_rules_in_either_place(in_manifest: Any, in_setup: Any) -> None:
    """Names of the catalogue mean what they mean everywhere."""
    rows = explained(BODY, river(in_manifest, in_setup), river={"api_key": "k"})

    assert [(row["rule"], row["what"]) for row in rows if row["rule"] in ("turns.merged", "river.dammed")] == [
        ("turns.merged", CATALOGUE["turns.merged"].what),
        ("river.dammed", "Water is held back."),
    ]


def test_an_undeclared_rule_of_an_upstream_is_refused() -> None:
    """A name of the catalogue too: the party does not say that it has the rule."""
    with pytest.raises(ConfigError) as caught:
        explained(BODY, river((DAMMED,), ()), river={"api_key": "k"})

    assert caught.value.message == (
        "the upstream river notes the rule 'turns.merged', which it does not declare; add it to Manifest.rules"
    )
