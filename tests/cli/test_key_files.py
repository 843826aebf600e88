"""Files of keys: whose they are stays, two commands lose nothing, odd files are refused at once, and a reload says what
it took over."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from kiro_asgi.cli import main
from kiro_asgi.cli.key_tables import KeyFile
from kiro_asgi.errors import ConfigError
from kiro_asgi.private import folder_lock, open_ordinary, read_ordinary
from kiro_asgi.quota.settings import hash_of
from tests.cli.processes import PREFIX, environment_in, serving

KEYS = "".join(f'[keys.{name}]\nhash = "{hash_of(name.encode())}"\n\n' for name in ("ada", "bob", "cyd"))
SERVICE = '[kiro]\napi_key = "ksk_x"\nendpoint = "http://127.0.0.1:9"\nmodels_ttl = 0\n\n'

as_root = pytest.mark.skipif(not shutil.which("setpriv") or os.geteuid() != 0, reason="takes root, and setpriv")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "gateway.toml"
    path.write_text(SERVICE + KEYS)
    path.chmod(0o640)
    return path


def keys(*arguments: object) -> int:
    return main(["keys", *map(str, arguments)])


@as_root
@pytest.mark.parametrize("action", ["disable", "rotate", "revoke"])
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_owner_group_and_mode_stay(file, action, mode, capsys):
    """A gateway with a user of its own could not read a file that became root's, and so would keep the old key."""
    os.chown(file, 65534, 65533)
    file.chmod(mode)
    assert keys(action, "ada", "--config", file) == 0
    found = file.stat()

    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (65534, 65533, mode)
    assert [path.name for path in file.parent.iterdir()] == ["gateway.toml"], "nothing is left behind"


AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--inh-caps=-all", "--bounding-set=-all")
"""Runs a command as a user without any rights, whose groups follow."""


def require_nobody() -> None:
    """Skip the test where that user may not read what the interpreter is made of."""
    if subprocess.run([*AS_NOBODY, "--clear-groups", sys.executable, "-c", ""], check=False).returncode:
        pytest.skip("another user cannot start this interpreter")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may look into, and write to."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


@as_root
def test_where_the_owner_could_not_stay_nothing_is_changed(open_folder):
    """A file of root's in a folder that anybody may write to."""
    require_nobody()
    path = open_folder / "gateway.toml"
    path.write_text(KEYS)
    path.chmod(0o644)
    before = path.stat()
    command = [*AS_NOBODY, "--clear-groups", *PREFIX, "keys", "disable", "ada", "--config", str(path)]
    told = subprocess.run(command, env=environment_in(open_folder, {}), capture_output=True, text=True, check=False)

    assert (told.returncode, path.read_text()) == (1, KEYS)
    assert "belongs to user 0 and group 0, and would not any more; run this as them, or as root" in told.stderr
    assert path.stat().st_ino == before.st_ino
    assert [each.name for each in open_folder.iterdir()] == ["gateway.toml"]


def test_a_second_name_would_keep_the_old_content(file, capsys):
    """Of a hard link one name would be changed alone."""
    os.link(file, file.with_name("other.toml"))
    assert keys("disable", "ada", "--config", file) == 1
    assert "a second name" in capsys.readouterr().err
    assert "disabled" not in file.read_text()


def test_a_symbolic_link_stays(file, capsys):
    link = file.with_name("link.toml")
    link.symlink_to(file)
    assert keys("disable", "ada", "--config", link) == 0
    assert link.is_symlink()
    assert "disabled = true" in file.read_text()


def test_changes_at_once_lose_nothing(file):
    """Each is made to what the one before it left."""
    names = ("ada", "bob", "cyd") * 4
    errors: list[Exception] = []

    def change(at: int, name: str) -> None:
        try:
            KeyFile(file).set(name, "models", f"m{at}")
            KeyFile(file).set(name, "disabled", True)
        except ConfigError as error:
            errors.append(error)

    threads = [threading.Thread(target=change, args=each) for each in enumerate(names)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert errors == []
    assert file.read_text().count("disabled = true") == 3


def test_a_change_waits_for_another_and_then_says_so(file, monkeypatch):
    monkeypatch.setattr("kiro_asgi.cli.key_tables._PATIENCE", 0.1)
    with folder_lock(file.parent, 1), pytest.raises(ConfigError, match="another process has been changing it"):
        KeyFile(file).set("ada", "disabled", True)
    KeyFile(file).set("ada", "disabled", True)


def test_an_editor_that_saves_meanwhile_is_not_undone(file):
    """It takes no lock: the file is looked at once more, right before it is replaced."""
    text = file.read_text()

    class Edited(KeyFile):
        def _read(self, target: Path) -> Any:
            found = super()._read(target)
            target.write_text(f"{text}# edited\n")
            return found

    with pytest.raises(ConfigError, match="changed by another program just now"):
        Edited(file).set("ada", "disabled", True)
    assert file.read_text() == f"{text}# edited\n"


@pytest.mark.parametrize("closed", [False, True], ids=["full", "closed"])
def test_a_new_key_that_cannot_be_shown_changes_nothing(file, closed):
    """The old one stays good: nobody could have the new one."""
    before = file.read_text()
    command = [*PREFIX, "keys", "rotate", "ada", "--config", str(file)]
    environ = environment_in(file.parent, {})
    with open("/dev/full", "wb") as full:
        reader, writer = os.pipe()
        os.close(reader)
        told = subprocess.run(
            command, env=environ, stdout=writer if closed else full, stderr=subprocess.PIPE, text=True, check=False
        )
        os.close(writer)
    assert told.returncode == 1
    assert "the new key cannot be shown" in told.stderr
    assert "Traceback" not in told.stderr
    assert file.read_text() == before


@pytest.fixture(params=["pipe", "device", "folder"])
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "odd"
    if request.param == "pipe":
        os.mkfifo(path)
    elif request.param == "folder":
        path.mkdir()
    else:
        path = Path("/dev/zero")
    return path


@pytest.mark.timeout(30)
def test_odd_files_are_refused_at_once(odd, tmp_path, capsys):
    """In the place of the settings, of prices, of a tape, of a file of keys."""
    for read in (open_ordinary, lambda path: read_ordinary(path, 10)):
        with pytest.raises(OSError):
            read(odd)
    assert main(["check", "--config", str(odd)]) == 1
    assert keys("disable", "ada", "--config", odd) == 1
    assert main(["replay", str(odd)]) == 1
    priced = tmp_path / "priced.toml"
    priced.write_text(f'{SERVICE}{KEYS}[prices]\nfile = "{odd}"\n')
    assert main(["check", "--config", str(priced)]) == 1
    told = capsys.readouterr()
    assert "Traceback" not in told.err + told.out


def test_a_file_that_is_too_large_is_refused(tmp_path):
    path = tmp_path / "large"
    path.write_bytes(b"x" * 11)
    with pytest.raises(OSError, match="more than 10 bytes"):
        read_ordinary(path, 10)


def models(base: str, key: str) -> int:
    """The status with which the list of models is answered."""
    request = urllib.request.Request(f"{base}/v1/models", headers={"authorization": f"Bearer {key}"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def line_about_settings(server: Any) -> str:
    return next(line for line in server.process.stderr if "settings" in line)


def reloaded(server: Any) -> str:
    server.process.send_signal(signal.SIGHUP)
    return line_about_settings(server)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_reload_says_what_it_took_over(file, workers):
    """One line at the usual level, with names and no value, whether something changed, nothing did, or it failed."""
    with serving("--config", "gateway.toml", "--workers", workers, cwd=file.parent) as server:
        said = [reloaded(server)]
        keys("disable", "ada", "--config", file)
        keys("revoke", "bob", "--config", file)
        file.write_text(file.read_text() + f'[keys.dan]\nhash = "{hash_of(b"dan")}"\n[limits]\nqueue = 7\n')
        said.append(reloaded(server))
        wait_until(lambda: models(server.base, "dan") == 200)
        file.write_text("[limits]\nqueue = -1\n")
        said.append(reloaded(server))
        file.unlink()
        os.mkfifo(file)
        said.append(reloaded(server))
        wait_until(lambda: models(server.base, "dan") == 200)
        server.stop()

    assert "the settings were read anew, and nothing in them has changed" in said[0]
    assert "keys added: dan; keys removed: bob; keys changed: ada; changed: limits.queue" in said[1]
    assert "the settings stay as they were; the new ones cannot work" in said[2]
    assert "is not an ordinary file" in said[3]
    assert not [line for line in said if "sha256" in line]


@as_root
@pytest.mark.timeout(120)
def test_a_gateway_of_its_own_user_takes_over_what_root_changes(open_folder):
    """As under systemd: root owns the file, the group of the service may read it, and SIGHUP finds the change."""
    require_nobody()
    open_folder.chmod(0o755)
    file, state = open_folder / "gateway.toml", open_folder / "state"
    file.write_text(SERVICE + KEYS)
    file.chmod(0o640)
    os.chown(file, 0, 65533)
    state.mkdir()
    os.chown(state, 65534, 65534)
    within = (*AS_NOBODY, "--groups=65533")
    with serving("--config", str(file), cwd=open_folder, within=within) as server:
        assert models(server.base, "ada") == 200
        assert keys("disable", "ada", "--config", file) == 0
        assert "keys changed: ada" in reloaded(server)
        assert models(server.base, "ada") == 401
        server.stop()


def test_a_copy_of_systemds_is_named(monkeypatch, tmp_path):
    """It never changes while the service runs."""
    from kiro_asgi.cli.signals import _frozen

    environ = {"CREDENTIALS_DIRECTORY": "/run/credentials/x", "KIRO_ASGI_CONFIG": "/run/credentials/x/gateway.toml"}

    assert "LoadCredential=" in _frozen(environ)
    assert _frozen({**environ, "KIRO_ASGI_CONFIG": "/etc/gateway.toml"}) == _frozen({}) == ""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_last_key_that_is_deleted_is_refused(tmp_path, workers):
    """A gateway cannot start without any, but one that runs must not go on to take it."""
    file = tmp_path / "gateway.toml"
    one = f'[keys.ada]\nhash = "{hash_of(b"ada")}"\n'
    file.write_text(SERVICE + one)
    with serving("--config", "gateway.toml", "--workers", workers, cwd=tmp_path) as server:
        assert models(server.base, "ada") == 200
        file.write_text(SERVICE)
        assert "no key is left in the settings, so every client is refused from now on" in reloaded(server)
        wait_until(lambda: models(server.base, "ada") == 401)
        file.write_text(SERVICE + one)
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: models(server.base, "ada") == 200)
        server.stop()


def wait_until(holds: Callable[[], bool]) -> None:
    for _ in range(200):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError("it never holds")
