"""Secrets in texts of others: every form, every part of some length, and nothing else."""

from __future__ import annotations

import html
import json
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.redaction import PARTIAL, REDACTED, Redactor
from tests.growth import assert_linear

FORMS = {
    "itself": lambda secret: secret,
    "percent-encoded": lambda secret: quote(secret, safe=""),
    "in a form": quote_plus,
    "in JSON": lambda secret: json.dumps(secret)[1:-1],
    "in JSON with slashes escaped": lambda secret: json.dumps(secret)[1:-1].replace("/", "\\/"),
    "in HTML": html.escape,
    "in hexadecimal": lambda secret: secret.encode().hex(),
    "in capital letters": str.upper,
    "backwards": lambda secret: secret[::-1],
    "in Base64": lambda secret: b64encode(secret.encode()).decode(),
    "in Base64 for URLs": lambda secret: urlsafe_b64encode(secret.encode()).decode(),
    "in Basic authentication": lambda secret: b64encode(b"me:" + secret.encode()).decode(),
    "in Base64 after four bytes": lambda secret: b64encode(b"four" + secret.encode() + b"!").decode(),
    "in Base64 in a URL": lambda secret: quote(b64encode(secret.encode()).decode(), safe=""),
    "at its beginning": lambda secret: secret[:PARTIAL],
    "at its end": lambda secret: secret[-PARTIAL:],
    "in part backwards": lambda secret: secret[-PARTIAL:][::-1],
    "in its middle": lambda secret: secret[5 : 5 + PARTIAL],
}
SECRET = 'aorZ9/x+Qw~"\\<&7Kd-LmNpRsTuVy0123456789==abcdefg'


def longest_common(text: str, forms: set[str]) -> int:
    """The longest part of any form in *text*."""
    text = text.lower()
    return max(
        (
            stop - start
            for form in forms
            for start in range(len(form))
            for stop in range(start + 1, len(form) + 1)
            if form[start:stop].lower() in text
        ),
        default=0,
    )


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("around", ["{}", "the token {} is not taken", "x{}y", '{{"said":"{}"}}'])
def test_a_secret_is_found_in_every_form(form, around):
    """Whatever a service makes of what it quotes, 16 characters of it in a row never go on."""
    quoted = form(SECRET)
    hidden = Redactor.of(["another secret", SECRET, "short"]).hide(around.format(quoted))

    assert REDACTED in hidden
    assert longest_common(hidden, {quoted}) < PARTIAL
    before, behind = around.format("\n").split("\n")
    assert hidden.startswith(before) and hidden.endswith(behind)


@given(
    secret=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=60),
    before=st.text(max_size=20),
    behind=st.text(max_size=20),
    form=st.sampled_from(sorted(FORMS)),
)
def test_no_form_of_any_secret_is_left(secret, before, behind, form):
    """The same for any printable secret, wherever in a text: what is left of it is shorter than a part that counts."""
    quoted = FORMS[form](secret)
    hidden = Redactor.of([secret]).hide(before + quoted + behind)
    if form.startswith("in Base64") or form == "in Basic authentication":
        quoted = quoted.rstrip("=")[6:-3]  # characters that depend on what is around the secret
    if len(secret) >= PARTIAL:
        assert quoted == "" or quoted.lower() not in hidden.lower() or len(quoted) < PARTIAL
    elif form in ("itself", "in hexadecimal", "in capital letters"):
        assert quoted.lower() not in hidden.lower().replace(REDACTED, "")


@given(st.text(), st.lists(st.text(min_size=8)))
def test_what_holds_no_secret_stays_as_it_is(text, secrets):
    """Nothing is taken out that is not there, and bytes of any kind come out as they went in."""
    strange = [f"\N{SNOWMAN}{secret}\N{SNOWMAN}" for secret in secrets if secret not in text]

    assert Redactor.of(strange).hide(text) == text
    assert Redactor.of(strange).hide_in(b"\xff\x80" + text.encode("utf-8", "replace")).startswith(b"\xff\x80")


@pytest.mark.parametrize("secret", ["", "k", "seven77"])
def test_what_is_shorter_than_eight_characters_is_no_secret(secret):
    """It could not be told from a word that anybody might write."""
    assert Redactor.of([secret]).hide(f"a word {secret} there") == f"a word {secret} there"


def test_a_short_secret_counts_as_a_whole():
    """From eight to fifteen characters only all of it is taken out."""
    redactor = Redactor.of(["hunter2hunter"])

    assert redactor.hide("it is hunter2hunter.") == f"it is {REDACTED}."
    assert redactor.hide("it is hunter2hunte.") == "it is hunter2hunte."


@pytest.mark.parametrize("piece", ["a", SECRET, SECRET[:15], SECRET[8:15], "ab" * 8])
@pytest.mark.parametrize("secret", [SECRET, "a" * 200, "ab" * 100])
def test_looking_is_linear_work(piece, secret):
    """Whatever is repeated in a text, and however a secret repeats itself."""
    redactor = Redactor.of([secret])

    assert_linear(lambda size: lambda: redactor.hide(piece * size), 400)
