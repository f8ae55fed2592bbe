"""A damaged data directory: one line that names the file and the remedy, at once, and nothing is changed.

The real command runs on a copy of a whole directory, once for each file and each kind of damage.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import resource
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from api.store.embedded import EmbeddedPostgres
from fleet.cli.datadir import DataDir
from fleet.hub.firststart import create_root, prepare, write_kubeconfig
from tests.cli.hub import BIN, Up, refusal
from tests.slow import repeated

WITHIN_S = 5.0
Damage = Callable[[Path], None]


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def rubbish(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def open_to_others(path: Path) -> None:
    path.chmod(0o644)


def of_another_owner(path: Path) -> None:
    os.chown(path, 12345, 12345)


def missing(path: Path) -> None:
    path.unlink()


ANY = (emptied, truncated, rubbish, a_directory)
PRIVATE = (*ANY, open_to_others, of_another_owner)
TABLE: dict[str, tuple[Damage, ...]] = {
    "hub-id": (*PRIVATE, missing),
    "secrets.key": (*PRIVATE, missing),
    "tokens.csv": PRIVATE,
    "pki/service-account.key": PRIVATE,
    "pki/server.key": (*PRIVATE, missing),
    "pki/server.crt": (*ANY, of_another_owner, missing),
    "pki/ca.key": (*PRIVATE, missing),
    "pki/ca.crt": (*ANY, of_another_owner, missing),
    "postgres/data/PG_VERSION": (*ANY, missing),
    "postgres/data/global/pg_control": (*ANY, missing),
}

SHORT = ("hub-id", "pki/ca.key", "postgres/data/PG_VERSION")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that the first start of a hub makes, its database never used."""
    data = DataDir(tmp_path_factory.mktemp("whole") / "hub")
    create_root(data)
    prepare(data, "127.0.0.1")
    write_kubeconfig(data, "https://127.0.0.1:1")

    async def database() -> None:
        async with EmbeddedPostgres(data.postgres):
            pass

    asyncio.run(database())
    return data.root


def copied(whole: Path, to: Path) -> Path:
    subprocess.run(["cp", "-a", str(whole), str(to)], check=True)
    return to


@pytest.fixture(scope="module")
def light(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without what the database holds, which nobody looks at before a server does."""
    root = copied(whole, tmp_path_factory.mktemp("light") / "hub")
    for path in (root / "postgres" / "data").iterdir():
        if path.name not in ("PG_VERSION", "global"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return root


@pytest.fixture
def hub(light: Path, tmp_path: Path) -> Path:
    return copied(light, tmp_path / "hub")


def fingerprint(root: Path) -> dict[str, tuple[int, int, str]]:
    """Every path with its mode, owner and content."""
    found = {}
    for path in sorted(root.rglob("*")):
        state = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(root))] = (state.st_mode, state.st_uid, content)
    return found


def started(root: Path, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(BIN / "fleet"), *command, "--data-dir", str(root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env={k: v for k, v in os.environ.items() if not k.startswith("FLEET_")},
    )


def line_of(process: subprocess.Popen[str]) -> str:
    """The one line with which it ends, with exit status 1."""
    out, errors = process.communicate(timeout=60)
    return refusal(subprocess.CompletedProcess(process.args, process.returncode, out, errors))


def refused(root: Path, *command: str) -> str:
    """The one line with which the command ends; it changed nothing."""
    before = fingerprint(root)
    line = line_of(started(root, *command))
    assert fingerprint(root) == before
    return line


REMEDIES = ("back", "remove", "restore", "chmod", "chown", "mend", "move", "run this as")
UP = ("up", "--listen", "127.0.0.1:0")


@pytest.mark.parametrize("file", repeated(TABLE, short=SHORT))
def test_a_damaged_file_is_named_with_its_remedy_and_nothing_is_changed(light: Path, tmp_path: Path, file: str) -> None:
    damages = [damage for damage in TABLE[file] if damage is not of_another_owner or os.geteuid() == 0]
    roots = {damage.__name__: copied(light, tmp_path / damage.__name__) for damage in damages}
    for damage in damages:
        damage(roots[damage.__name__] / file)
    before = {name: fingerprint(root) for name, root in roots.items()}
    running = {name: started(root, *UP) for name, root in roots.items()}
    for name, process in running.items():
        line = line_of(process)
        assert line.startswith(f"fleet: {roots[name] / file} "), (name, line)
        assert any(word in line for word in REMEDIES), (name, line)
        assert fingerprint(roots[name]) == before[name], name


def test_damage_is_said_before_anything_that_takes_long(hub: Path) -> None:
    rubbish(hub / "postgres/data/global/pg_control")
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    refused(hub, *UP)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime < WITHIN_S  # other work may slow it down


@pytest.mark.parametrize("command", [("api", "--listen", "127.0.0.1:0"), ("controllers",)])
@pytest.mark.parametrize(
    "file", repeated(("hub-id", "secrets.key", "tokens.csv", "postgres/data/PG_VERSION"), short=("secrets.key",))
)
def test_the_parts_that_run_alone_say_the_same(hub: Path, command: tuple[str, ...], file: str) -> None:
    truncated(hub / file)
    assert str(hub / file) in refused(hub, *command)


def test_a_data_directory_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "hub").write_text("x")
    done = subprocess.run(
        [str(BIN / "fleet"), *UP, "--data-dir", str(tmp_path / "hub")], capture_output=True, text=True, check=False
    )
    assert "is no directory" in refusal(done)


def test_a_database_that_belongs_to_another_user_is_said(hub: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(hub / "postgres" / "data", 0, 0)
    assert "belongs to root" in refused(hub, *UP)
    (hub / "postgres" / "data").chmod(0o777)
    os.chown(hub / "postgres" / "data", 65534, 65534)
    assert "chmod 0700" in refused(hub, *UP)


def test_a_directory_that_is_whole_starts_and_closes_its_logs_to_others(whole: Path, tmp_path: Path) -> None:
    hub = copied(whole, tmp_path / "hub")
    (hub / "logs" / "api.log").write_text("old\n")
    (hub / "logs" / "api.log").chmod(0o644)
    hub.chmod(0o755)
    up = Up(hub)
    try:
        modes = {path.name: path.stat().st_mode & 0o777 for path in (hub / "logs").iterdir()}
        assert set(modes.values()) == {0o600} and {"api.log", "controllers.log"} <= set(modes)
        assert (hub / "postgres" / "postgres.log").stat().st_mode & 0o777 == 0o600
        assert hub.stat().st_mode & 0o777 == 0o700
    finally:
        assert up.stop() == 0
