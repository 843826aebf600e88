"""Images and files in ``data:`` URLs."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.dialects.media import read_file, read_image
from kiro_asgi.errors import RequestError
from kiro_asgi.model.prompt import Document, Image


@given(st.binary(min_size=1, max_size=40), st.booleans(), st.sampled_from(["", ";charset=x", ";a=b;c=d"]))
def test_what_is_written_is_read(content: bytes, escaped: bool, parameters: str) -> None:
    """Base64 is kept, with the escapes taken out, whatever parameters stand before it."""
    plain = b64encode(content).decode()
    url = f"data:Image/PNG{parameters};base64,{quote(plain, safe='') if escaped else plain}"
    assert read_image(url, "p") == Image("image/png", plain)
    assert read_file(url, "t", "p") == Document("image/png", plain, title="t")


@given(st.text(min_size=1, max_size=40))
def test_text_is_text(text: str) -> None:
    """A file of a text type is read; one without a type is text."""
    url = f"data:;base64,{b64encode(text.encode()).decode()}"
    assert read_file(url, "", "p") == Document("text/plain", text=text)


@given(st.text(max_size=30) | st.text("data:;base64,image/png=", max_size=40))
def test_anything_else_is_refused_at_its_place(url: str) -> None:
    """No other error than the one that names the place."""
    try:
        read_image(url, "p")
    except RequestError as error:
        assert error.param == "p"
    else:
        assert url.startswith("data:image/")


@pytest.mark.parametrize("url", ["http://h/i.png", "https://h/i.png"])
def test_an_address_is_kept(url: str) -> None:
    """Nothing is fetched here."""
    assert read_image(url, "p") == Image(url=url)
