"""Images and files in ``data:`` URLs."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from functools import partial
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kiro_asgi.dialects.media import read_file, read_image
from kiro_asgi.errors import RequestError
from kiro_asgi.model.media_types import media_type_of
from kiro_asgi.model.prompt import Document, Image
from tests.growth import assert_linear

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3 >>>???"

Encode = Callable[[bytes], str]


def wrapped(content: bytes) -> str:
    text = b64encode(content).decode()
    return "\r\n".join(text[at : at + 76] for at in range(0, len(text), 76)) + "\n"


ENCODINGS: tuple[tuple[str, Encode], ...] = (
    (";base64", lambda content: b64encode(content).decode()),
    (";BASE64", lambda content: b64encode(content).decode().rstrip("=")),
    ("; base64 ", lambda content: urlsafe_b64encode(content).decode()),
    (";charset=utf-8;base64", lambda content: urlsafe_b64encode(content).decode().rstrip("=")),
    (";base64;name=a.png", lambda content: quote(b64encode(content).decode(), safe="")),
    (";base64", wrapped),
    ("", partial(quote, safe="")),
    (";name=x", lambda content: "".join(f"%{byte:02x}" for byte in content)),
)
"""Parameters, and how the bytes are written with them."""


@pytest.mark.parametrize("scheme", ["data:", "DATA:", "Data:", " data:"])
@pytest.mark.parametrize(("parameters", "encode"), ENCODINGS)
@given(tail=st.binary(max_size=100))
def test_every_spelling_is_read(scheme: str, parameters: str, encode: Encode, tail: bytes) -> None:
    """Images and files by ``data:`` URL in any spelling come out in one."""
    image, file = PNG + tail, PDF + tail
    for media_type in ("image/png", "IMAGE/PNG", "image/x-png", "", "application/octet-stream", "text/plain"):
        url = f"{scheme}{media_type}{parameters},{encode(image)}"
        assert read_image(url, "p") == Image("image/png", b64encode(image).decode())
    for media_type in ("application/pdf", "Application/PDF", "", "application/octet-stream", "text/plain"):
        url = f"{scheme}{media_type}{parameters},{encode(file)}"
        assert read_file(url, "t", "p") == Document("application/pdf", b64encode(file).decode(), title="t")


@given(st.binary(min_size=1, max_size=40), st.booleans(), st.sampled_from(["", ";charset=x", ";a=b;c=d"]))
@example(PDF, False, "")
def test_what_is_written_is_read(content: bytes, escaped: bool, parameters: str) -> None:
    """Base64 is kept without its escapes, whatever parameters stand before it; its beginning says what it is."""
    plain, proven = b64encode(content).decode(), media_type_of(content)
    url = f"data:Image/TIFF{parameters};base64,{quote(plain, safe='') if escaped else plain}"
    assert read_image(url, "p") == Image(proven if proven.startswith("image/") else "image/tiff", plain)
    assert read_file(url, "t", "p") == Document(proven or "image/tiff", plain, title="t")


@given(st.text(min_size=1, max_size=40), st.booleans())
def test_text_is_text(text: str, escaped: bool) -> None:
    """A file of a text type is read; one without a type is text."""
    data = quote(text, safe="") if escaped else b64encode(text.encode()).decode()
    url = f"data:{'' if escaped else ';base64'},{data}"
    assert read_file(url, "", "p") == Document("text/plain", text=text)


@pytest.mark.parametrize(
    ("charset", "content", "text"),
    [
        ("utf-8", "é€".encode(), "é€"),
        ("ISO-8859-1", b"\xe9\x80", "é€"),
        ("utf-16", "é".encode("utf-16"), "é"),
        ("punycode", "é".encode(), "é"),
        ("", b"\xff", "�"),
    ],
)
def test_text_has_a_character_set(charset: str, content: bytes, text: str) -> None:
    """The usual ones; any other is UTF-8, and what cannot be read is marked."""
    url = f"data:text/csv;charset={charset};base64,{b64encode(content).decode()}"
    assert read_file(url, "", "p").text == text


@given(st.text(max_size=30) | st.text("data:;base64,image/png=%4-_", max_size=40))
def test_anything_else_is_refused_at_its_place(url: str) -> None:
    """No other error than the one that names the place."""
    for read in (read_image, partial(read_file, title="")):
        try:
            read(url, place="p")
        except RequestError as error:
            assert (error.param, error.status) == ("p", 400)
        else:
            assert url.strip().lower().startswith("data:")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("data:image/png;base64,a", "invalid base64"),
        ("data:image/png;base64,iVBO=Rw0K", "invalid base64"),
        ("data:image/png;base64,iVB*Rw0K", "invalid base64"),
        ("data:image/png;base64,é", "invalid base64"),
        ("data:image/png;base64,", "empty data"),
        ("data:image/png,iVBORw0KGgo=", "expected base64"),
        ("data:text/html;base64,PHA+", "not an image: text/html"),
        ("data:;base64,PHA+", "not an image: no media type"),
        ("data:image/png;base64", "expected an address or a data: URL"),
        ("file:///etc/passwd", "expected an address or a data: URL"),
        ("ftp://h/a.png", "expected an address or a data: URL"),
    ],
)
def test_what_is_wrong_is_said(url: str, words: str) -> None:
    """With the place before it."""
    with pytest.raises(RequestError, match=f"^messages: {words}"):
        read_image(url, "messages")


@pytest.mark.parametrize("url", ["http://h/i.png", "https://h/i.png", "HTTPS://h/i.png"])
def test_an_address_is_kept(url: str) -> None:
    """Nothing is fetched here."""
    assert read_image(url, "p") == Image(url=url)
    assert read_file(url, "t", "p") == Document("application/pdf", url=url, title="t")


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\0\0\0\0WAVEfmt ", ""),
        (b"%PDF", ""),
        (b"", ""),
    ],
)
def test_the_first_bytes_prove_the_type(content: bytes, media_type: str) -> None:
    """Where they do; the others prove nothing."""
    assert media_type_of(content) == media_type


@pytest.mark.parametrize("piece", ["%41", "%", "%%", "a", "\n"])
def test_long_data_is_read_in_linear_time(piece: str) -> None:
    """Whatever it is made of."""

    def make(size: int) -> Callable[[], object]:
        url = "data:text/plain," + piece * size
        return partial(read_file, url, "", "p")

    assert_linear(make, 100_000)
    assert read_file("data:text/plain," + "%41" * 70_000, "", "p").text == "A" * 70_000
