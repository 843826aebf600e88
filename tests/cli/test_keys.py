"""Keys by the command: listed, shown, and changed in the file of settings, of which nothing else changes."""

from __future__ import annotations

import json
import re
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kiro_asgi.cli import main
from kiro_asgi.quota.settings import hash_of

A, B = hash_of(b"a"), hash_of(b"b")
SOON = (datetime.now(UTC) + timedelta(days=3)).strftime("%Y-%m-%dT%H:%M:%SZ")
FILE = f"""# Who may come in.
[client]
allow_anonymous = false  # no

[keys.alice]  # since May
hash = "{A}"
group = "team"
models = [
  "kiro/*",  # her own
]
tokens_per_day = 2_000

# Bob came later.
[keys.bob]
expires = {SOON}
hash = "{B}"

[groups.team]
cost_per_month = 50.0
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "gateway.toml"
    path.write_text(FILE)
    path.chmod(0o640)
    return path


def keys(*arguments: object) -> int:
    return main(["keys", *map(str, arguments)])


def document(path: Path) -> Any:
    return tomllib.loads(path.read_text())


def test_keys_are_listed(file, capsys):
    """With what each is restricted to, and when it ends; a hash is no one's business."""
    assert keys("list", "--config", file) == 0
    head, alice, bob = capsys.readouterr().out.splitlines()
    assert head.split() == ["name", "state", "group", "models", "expires"]
    assert alice.split() == ["alice", "active", "team", "kiro/*"]
    assert bob.split()[:5] == ["bob", "expires", "in", "3", "days"]

    assert keys("list", "--json", "--config", file) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(each["name"], each["state"]) for each in listed] == [("alice", "active"), ("bob", "expires in 3 days")]
    assert "sha256" not in str(listed)


def test_without_keys_the_list_says_how_to_make_one(capsys):
    assert keys("list") == 0
    assert "kiro-asgi keys new NAME" in capsys.readouterr().out


def test_a_key_is_shown_with_its_limits_and_those_of_its_group(file, capsys):
    assert keys("show", "alice", "--config", file) == 0
    shown = dict(re.split(r":\s+", line, maxsplit=1) for line in capsys.readouterr().out.splitlines())

    assert shown["state"] == "active"
    assert (shown["limit"], shown["limit of team"]) == ("2000 tokens per day", "50 cost per month")
    assert keys("show", "carol", "--config", file) == 1
    assert "there is no key carol; there are: alice, bob" in capsys.readouterr().err


def changed(**tables: Any) -> Any:
    """What the file says with other *tables* of keys; ``None`` for none."""
    before = tomllib.loads(FILE)
    both = {**before["keys"], **tables}
    return {**before, "keys": {name: table for name, table in both.items() if table is not None}}


@pytest.mark.parametrize("name", ["alice", "bob"])
def test_a_key_is_disabled_and_enabled(file, capsys, name):
    """Every other line stays as its author wrote it, comments too, and so do the rights of the file."""
    table = tomllib.loads(FILE)["keys"][name]
    for action, disabled in (("disable", True), ("disable", True), ("enable", False)):
        assert keys(action, name, "--config", file) == 0
        assert document(file) == changed(**{name: {**table, "disabled": disabled}})
    assert [line for line in file.read_text().split("\n") if line != "disabled = false"] == FILE.split("\n")
    assert file.stat().st_mode & 0o777 == 0o640
    assert "SIGHUP" in capsys.readouterr().out
    assert [path.name for path in file.parent.iterdir()] == ["gateway.toml"]


def test_a_key_is_rotated(file, capsys):
    """The printed key is the one whose hash is there now."""
    assert keys("rotate", "alice", "--config", file) == 0
    key = re.search(r"ka_[\w-]{43}", capsys.readouterr().out)[0]

    assert document(file) == changed(alice={**tomllib.loads(FILE)["keys"]["alice"], "hash": hash_of(key.encode())})


def test_a_key_is_revoked(file, capsys):
    """Its table is gone, and a comment about the next one is not."""
    assert keys("revoke", "alice", "--config", file) == 0
    assert document(file) == changed(alice=None)
    assert "# Bob came later." in file.read_text()
    assert keys("revoke", "alice", "--config", file) == 1
    assert "has no table [keys.alice]" in capsys.readouterr().err


def test_the_last_key_is_disabled_and_not_removed(file, capsys):
    """Else no gateway would start, or one that simulates its services would let everybody in."""
    assert keys("revoke", "alice", "--config", file) == 0
    before = file.read_text()
    assert keys("revoke", "bob", "--config", file) == 1
    assert "kiro-asgi keys disable bob refuses it" in capsys.readouterr().err
    assert file.read_text() == before
    assert keys("disable", "bob", "--config", file) == 0
    assert document(file)["keys"]["bob"]["disabled"] is True


@pytest.mark.parametrize("door", ['api_keys = ["k"]', "trust_host = true", "allow_anonymous = true"])
def test_the_last_key_is_removed_where_clients_come_in_without(file, door):
    """Settings without it work."""
    file.write_text(FILE.replace("allow_anonymous = false", door))
    assert [keys("revoke", name, "--config", file) for name in ("alice", "bob")] == [0, 0]
    assert "keys" not in document(file)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f'keys.alice.hash = "{A}"\n', id="dotted"),
        pytest.param(f'[keys]\nalice = {{hash = "{A}"}}\n', id="inline"),
        pytest.param(f'[keys.alice]\nhash = "{A}"\nmodels = [\n["a"],\n]\n'.replace('["a"]', '"a"'), id="array"),
        pytest.param(f'[keys.alice]\nmodels = ["""\n[keys.alice]\nx""", "a"]\nhash = "{A}"\n', id="header-in-text"),
        pytest.param(f'[keys.alice]\nexpires = """\nhash = 1"""\nhash = "{A}"\n', id="setting-in-text"),
    ],
)
@pytest.mark.parametrize("action", ["disable", "rotate", "revoke"])
def test_a_file_is_changed_rightly_or_not_at_all(tmp_path, capsys, text, action):
    """However it is written: what would change anything else is not written, and the error says so."""
    path = tmp_path / "gateway.toml"
    path.write_text(text)
    if text.startswith("[keys.alice]"):  # beside another: the last one stays
        text += f'[keys.last]\nhash = "{B}"\n'
        path.write_text(text)
    before = document(path)
    status = keys(action, "alice", "--config", path)
    after = document(path)

    if status:
        assert path.read_text() == text
        assert "change it by hand" in capsys.readouterr().err
    elif action == "revoke":
        assert after == {"keys": {"last": {"hash": B}}}
    else:
        setting = {"disable": "disabled", "rotate": "hash"}[action]
        assert after["keys"]["alice"].pop(setting) not in (None, A)
        before["keys"]["alice"].pop(setting, None)
        assert after == before


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(None, "cannot be read: No such file", id="missing"),
        pytest.param(b"\xff", "not UTF-8", id="bytes"),
        pytest.param(b"[", "is not TOML", id="torn"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, capsys, data, words):
    path = tmp_path / "gateway.toml"
    if data is not None:
        path.write_bytes(data)

    assert keys("disable", "alice", "--config", path) == 1
    assert words in capsys.readouterr().err


def test_a_key_of_the_environment_is_changed_there(capsys):
    assert keys("disable", "alice") == 1
    assert "name it by --config or KIRO_ASGI_CONFIG" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        pytest.param(f'[keys.alice]\nhash = "{A}"\ngroup = "teem"\n', "no table groups.teem", id="group"),
        pytest.param('[prices]\nfile = "/nowhere.json"\n', "prices.file: /nowhere.json: cannot be read", id="prices"),
    ],
)
def test_check_names_what_keys_and_prices_lack(tmp_path, capsys, settings, words):
    """Before a gateway is started."""
    path = tmp_path / "gateway.toml"
    path.write_text(f'{settings}\n[client]\napi_keys = ["k"]\n[kiro]\napi_key = "ksk_x"\n')

    assert main(["check", "--config", str(path)]) == 1
    assert words in capsys.readouterr().err
