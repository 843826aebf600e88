"""How `tox -e newcomer` reads pages, and that ours can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.newcomer.__main__ import OTHERS, PAGES, Done, first_answer, installations
from tests.newcomer.pages import Step, matches, steps_of
from tests.newcomer.terminal import is_installation

MARKDOWN = """\
```sh
# a comment
python3 -m venv .venv && .venv/bin/pip install -q x
curl -sN http://h \\
  -d '{}'
curl http://h -d '{
  "a": 1}'
```

Words.

<!-- not run: needs
     a key -->

```sh
export KEY=…
```

```python
print(1)
```

```text
1
…
```

```python
application = 1
```

```toml
a = 1
```
"""
REST = """\
.. code-block:: console
   :caption: A caption

   $ one \\
       --more
   1.5 s of 3

   $ two

.. not run: takes long

.. code-block:: python

   for x in "ab":

       print(x)

Words.

.. code-block:: text

   no output of anything
"""


def read(text: str, suffix: str, folder: Path) -> list[tuple[str, ...]]:
    page = folder / f"page{suffix}"
    page.write_text(text)
    return [(step.language, step.code, *step.output, step.not_run) for step in steps_of(page)]


def test_a_page_in_markdown(tmp_path: Path) -> None:
    """Commands in their order, with what is said of their output, and why some are not run."""
    assert read(MARKDOWN, ".md", tmp_path) == [
        ("shell", "python3 -m venv .venv && .venv/bin/pip install -q x", ""),
        ("shell", "curl -sN http://h \\\n  -d '{}'", ""),
        ("shell", "curl http://h -d '{\n  \"a\": 1}'", ""),
        ("shell", "export KEY=…", "needs a key"),
        ("python", "print(1)\n", "1", "…", ""),
    ]


def test_a_page_in_restructuredtext(tmp_path: Path) -> None:
    """The same; text behind words is no output."""
    assert read(REST, ".rst", tmp_path) == [
        ("shell", "one \\\n    --more", "1.5 s of 3", ""),
        ("shell", "two", ""),
        ("python", 'for x in "ab":\n\n    print(x)\n', "takes long"),
    ]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        (["a", "b"], "a\nb\n", True),
        (["a", "b"], "a\nc\n", False),
        (["a"], "a\nb\n", False),
        (["a … (z)"], "a b c (z)\n", True),
        (["a … (z)"], "a b c (y)\n", False),
        (["a", "…", "z"], "a\nb\nc\nz\n", True),
        (["a", "…", "z"], "a\nz\n", True),
        (["a", "…", "z"], "a\nb\n", False),
        (["5 ms  text, 1.25 s at 127.0.0.1:9999"], "12 ms  text, 0.5 s at 127.0.0.1:4711\n", True),
        (["5 apples"], "6 apples\n", False),
    ],
)
def test_outputs_are_compared(shown: list[str], printed: str, same: bool) -> None:
    """What may differ is what differs from run to run, and what the page leaves out."""
    assert matches(shown, printed) is same


def test_the_first_answer_is_counted_from_the_installation_on() -> None:
    """Making an environment is not; commands that ask nothing are on the way."""
    codes = ("python3 -m venv .venv", ".venv/bin/pip install x", "kiro-asgi serve", "curl http://h", "curl http://h")
    done = [Done(Step("p", "shell", code), 10.0, "ok") for code in codes]

    assert (first_answer(done), first_answer(done[:3])) == (30.0, None)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_our_pages_install_and_ask(page: Path) -> None:
    """Each begins with an installation and leads to an answer."""
    codes = [step.code for step in steps_of(page) if not step.not_run]

    assert any("pip install" in code for code in codes)
    assert any("curl " in code or "print(" in code or "kiro-asgi demo" in code for code in codes)


def test_what_the_other_pages_install_is_installed() -> None:
    """The ordinary tests need no package index, and leave these steps out: none of them is lost between the two."""
    left = [step.place for page in OTHERS for step in steps_of(page) if is_installation(step) and not step.not_run]

    assert left == [step.place for step in installations()] != []
