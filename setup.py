"""The description of the package, which a package index shows: README.md, made right for readers elsewhere.

All else is in ``setup.cfg``.  An index shows the text alone, so what leads into the tree leads to the project's address
there (``url`` in ``setup.cfg``); as long as there is none, links become their words, and pictures are left out.
"""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent

FILE: Final = r"(?!https?:|#)[^)\"\s]+"
LINK: Final = re.compile(rf"\[([^\]]+)\]\(({FILE})\)")
PICTURE: Final = re.compile(rf"((?:src|srcset)=)\"({FILE})\"")
PICTURES: Final = re.compile(r"<picture>.*?</picture>\n*|<img [^>]*>\n*", re.DOTALL)


def description(text: str, url: str) -> str:
    """*text* for an index, which has no checkout, only the package by its name; *url* is the project's, or empty."""
    text = text.replace("'.[", "'kiro-asgi[")
    if not url:
        return LINK.sub(r"\1", PICTURES.sub("", text))
    return PICTURE.sub(rf'\1"{url}/raw/HEAD/\2"', LINK.sub(rf"[\1]({url}/blob/HEAD/\2)", text))


if __name__ == "__main__":
    from setuptools import setup

    config = ConfigParser()
    config.read(ROOT / "setup.cfg", "utf-8")
    setup(
        long_description=description(
            (ROOT / "README.md").read_text("utf-8"), config.get("metadata", "url", fallback="").rstrip("/")
        )
    )
