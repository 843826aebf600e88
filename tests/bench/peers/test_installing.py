"""What is installed for a gateway is in its environment, whatever else this process can import."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.installing import installed


def test_what_can_be_imported_here_is_installed_there_nevertheless(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A checkout that PYTHONPATH names, with what building it left there, is not what a user has."""
    there = tmp_path / "checkout" / "thing-1.0.dist-info"
    there.mkdir(parents=True)
    described = "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n"
    (there / "METADATA").write_text(described)
    wheel = tmp_path / "thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("thing.py", "")
        archive.writestr("thing-1.0.dist-info/METADATA", described)
        archive.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("thing-1.0.dist-info/RECORD", "")
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(f"thing @ {wheel.as_uri()}\n")
    monkeypatch.setenv("PYTHONPATH", str(there.parent))

    programs = installed(requirements, tmp_path)

    assert [*programs.parent.glob("lib/python*/site-packages/thing.py")]
