"""`fleet backup` and `fleet restore`: the file and its faults, on real databases."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import resource
import signal
import stat
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fleet.cli.datadir import DataDir
from fleet.cli.failure import Failure
from fleet.hub.archive import BackupWriter, read
from tests.cli.hub import BIN, Up, fleet, refusal, until
from tests.slow import repeated

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
HEAD = {"schema": "s", "hub": "h", "revision": 7}


ENDS = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A hub with a ConfigMap and a Secret."""
    running = Up(tmp_path_factory.mktemp("backup") / "hub")
    try:
        for path, kind, data in ((MAPS, "ConfigMap", {"k": "v"}), (SECRETS, "Secret", {"k": "c2VjcmV0"})):
            body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "kept"}, "data": data}
            running.hub.request("POST", path, body)
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()


@pytest.fixture(scope="module")
def made(up: Up, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("made") / "hub.backup"
    done = fleet("backup", str(file), "--data-dir", str(up.folder))
    assert done.returncode == 0, done.stderr
    return file


def written(passphrase: str | None = None) -> bytes:
    output = io.BytesIO()
    with BackupWriter(output, HEAD, passphrase) as writing:
        writing.table("objects", io.BytesIO(b"rows" * 1000))
        writing.keys({"hub-id": b"h", "secrets.key": b"\x00\xff"})
        writing.finish()
    return output.getvalue()


def again(held: bytes, change: Callable[[str, bytes], bytes | None]) -> bytes:
    """The same file with some of its parts changed, or left out."""
    output = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(held)) as old, tarfile.open(fileobj=output, mode="w:gz") as new:
        for entry in old:
            content = old.extractfile(entry)
            assert content is not None
            part = change(entry.name, content.read())
            if part is not None:
                entry.size = len(part)
                new.addfile(entry, io.BytesIO(part))
    return output.getvalue()


def why(held: bytes, passphrase: str | None = None) -> str:
    with pytest.raises(Failure) as refused:
        read(io.BytesIO(held), "f", passphrase)
    return str(refused.value)


@pytest.mark.parametrize("passphrase", [None, "a long phrase"])
def test_what_is_written_reads_back(passphrase: str | None) -> None:
    held = written(passphrase)
    found = read(io.BytesIO(held), "f", passphrase)
    assert found.manifest.items() >= HEAD.items() and found.revision == 7
    assert found.files == {"hub-id": b"h", "secrets.key": b"\x00\xff"}
    assert found.tables["objects"].read() == b"rows" * 1000
    assert (b'"hub-id"' in gzip.decompress(held)) == (passphrase is None)


def test_a_file_that_is_cut_off_anywhere_is_refused() -> None:
    held = written()
    for size in range(0, len(held) - 1, 23):
        assert "no backup of Fleet" in why(held[:size]) or "cut off" in why(held[:size]), size


def test_a_file_that_is_damaged_anywhere_is_refused() -> None:
    held = written()
    for place in range(12, len(held) - 8, 11):
        damaged = bytearray(held)
        damaged[place] ^= 0x55
        assert why(bytes(damaged)).startswith("f is "), place


@pytest.mark.parametrize(
    ("part", "content", "text"),
    [
        ("tables/objects.copy", b"other rows", "do not have the digests"),
        ("keys.json", b"{}", "do not have the digests"),
        ("keys.json", b"rubbish", "do not have the digests"),
        ("keys.json", None, "do not have the digests"),
        ("digests.json", None, "its end is missing"),
        ("digests.json", b"[]", "does not read"),
        ("manifest.json", None, "no backup of Fleet"),
        ("manifest.json", b'{"form": "fleet-backup", "revision": 1, "version": 2}', "has the form 2"),
        ("manifest.json", b'{"form": "fleet-backup", "version": 1}', "no backup of Fleet"),
    ],
)
def test_a_part_that_was_changed_is_refused(part: str, content: bytes | None, text: str) -> None:
    assert text in why(again(written(), lambda name, held: content if name == part else held))


def test_keys_open_with_their_passphrase_and_beside_their_tables_alone() -> None:
    held = written("one")
    assert why(held) == "the keys in f are encrypted: say --passphrase-file"
    assert "does not open the keys" in why(held, "two")
    other = again(held, lambda name, part: b"other rows" if name.startswith("tables/") else part)
    assert "does not open the keys" in why(other, "one")
    assert "do not have the digests" in why(again(written(), lambda n, h: h.replace(b'"h"', b'"i"')), None)


def test_an_entry_of_another_name_is_refused() -> None:
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo("../../etc/passwd"), io.BytesIO())
    assert why(output.getvalue()) == "f is no backup of Fleet"


def test_a_restored_hub_has_the_objects_and_the_keys(up: Up, made: Path, tmp_path: Path) -> None:
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    folder = tmp_path / "new"
    done = fleet("restore", str(made), "--data-dir", str(folder))
    assert done.returncode == 0 and "restored as of" in done.stdout, done.stderr
    before, after = DataDir(up.folder), DataDir(folder)
    assert [a.read_bytes() for a in after.identity_files] == [b.read_bytes() for b in before.identity_files]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in after.identity_files)
    old = int(up.hub.request("GET", MAPS).body["metadata"]["resourceVersion"])
    running = Up(folder)
    try:
        assert running.hub.request("GET", f"{MAPS}/kept").body == up.hub.request("GET", f"{MAPS}/kept").body
        assert running.hub.request("GET", f"{SECRETS}/kept").body["data"] == {"k": "c2VjcmV0"}
        assert int(running.hub.request("GET", MAPS).body["metadata"]["resourceVersion"]) > old + 1_000_000
        stale = running.hub.client.request("GET", f"{MAPS}?watch=1&resourceVersion={old}")
        assert stale.status == 410 or '"code":410' in json.dumps(stale.body, separators=(",", ":")), stale
        busy = fleet("restore", str(made), "--data-dir", str(folder), "--force")
        assert "is in use by another `fleet up`" in refusal(busy)
    finally:
        assert running.stop() == 0, running.errors.read_text()

    full = refusal_after_progress(fleet("restore", str(made), "--data-dir", str(folder)))
    assert "restore into an empty one, or say --force" in full
    (folder / "tokens.csv").write_text('t,admin,admin,"system:masters"\n')
    assert "has other files: tokens.csv; --force" in refusal(fleet("restore", str(made), "--data-dir", str(folder)))
    forced = fleet("restore", str(made), "--data-dir", str(folder), "--force")
    assert forced.returncode == 0, forced.stderr
    assert "objects at revision" in forced.stderr and f"{folder / 'tokens.csv'}: replaced" in forced.stderr
    assert after.tokens.read_bytes() == before.tokens.read_bytes()


def refusal_after_progress(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    return done.stderr.strip().splitlines()[-1]


def test_an_external_database_goes_through_a_pipe_and_under_a_passphrase(
    up: Up, tmp_path: Path, database_url: str
) -> None:
    phrase = tmp_path / "phrase"
    phrase.write_text("long enough\nnot this\n")
    made = subprocess.run(
        [str(BIN / "fleet"), "backup", "-", "--data-dir", str(up.folder), "--passphrase-file", str(phrase)],
        capture_output=True,
        check=True,
    )
    assert b"holds the hub's keys" not in made.stderr
    folder, where = tmp_path / "new", ("--database-url", database_url)

    def piped(*words: str) -> subprocess.CompletedProcess[bytes]:
        command = [str(BIN / "fleet"), "restore", "-", "--data-dir", str(folder), *where, *words]
        return subprocess.run(command, input=made.stdout, capture_output=True, check=False)

    assert b"are encrypted: say --passphrase-file" in piped().stderr and not folder.exists()
    done = piped("--passphrase-file", str(phrase))
    assert done.returncode == 0, done.stderr
    running = Up(folder, *where)
    try:
        assert running.hub.request("GET", f"{SECRETS}/kept").body["data"] == {"k": "c2VjcmV0"}
        works = fleet("restore", "/dev/null", "--data-dir", str(tmp_path / "third"), *where)
        assert "no backup of Fleet" in refusal(works)
        copied = tmp_path / "copy.backup"
        copied.write_bytes(made.stdout)
        other = ("--data-dir", str(tmp_path / "other"), "--passphrase-file", str(phrase), "--force")
        works = fleet("restore", str(copied), *other, *where)
        assert "nothing was restored: a hub works on the database (fleet: " in refusal_after_progress(works)
        assert not (tmp_path / "other" / "hub-id").exists()
    finally:
        assert running.stop() == 0, running.errors.read_text()


def forged(made: Path, changed: str, change: Callable[[bytes], bytes]) -> bytes:
    """The backup with another content of a part, and with digests that agree."""
    digests: dict[str, str] = {}

    def forge(name: str, part: bytes) -> bytes:
        part = change(part) if name == changed else part
        part = json.dumps(digests).encode() if name == "digests.json" else part
        digests[name] = hashlib.sha256(part).hexdigest()
        return part

    return again(made.read_bytes(), forge)


def test_a_restore_that_fails_half_way_changes_nothing(made: Path, tmp_path: Path, database_url: str) -> None:
    where = ("--data-dir", str(tmp_path / "target"), "--database-url", database_url)
    bad = tmp_path / "bad"
    bad.write_bytes(forged(made, "tables/history.copy", lambda part: part[:-30]))
    assert "nothing was restored: the database refuses" in refusal_after_progress(fleet("restore", str(bad), *where))
    assert not (tmp_path / "target" / "hub-id").exists()
    done = fleet("restore", str(made), *where)
    assert done.returncode == 0 and "--force" not in done.stderr, "it was empty still"


def test_what_cannot_be_backed_up_or_restored_leaves_nothing(up: Up, made: Path, tmp_path: Path) -> None:
    where = ("--data-dir", str(up.folder))
    assert "is no data directory of a hub" in refusal(fleet("backup", "x", "--data-dir", str(tmp_path / "none")))
    nowhere = fleet("backup", str(tmp_path / "none" / "f"), *where)
    assert refusal(nowhere).startswith("fleet: cannot write")
    folder = fleet("backup", str(tmp_path), *where)
    assert refusal(folder) == f"fleet: cannot write {tmp_path}: Is a directory", "before anything is read"
    away = fleet("backup", str(tmp_path / "f"), *where, "--database-url", "postgresql://fleet@127.0.0.1:1/fleet")
    assert "the database cannot be reached" in refusal(away)
    empty = tmp_path / "empty"
    empty.write_text("\n")
    assert "its first line is empty" in refusal(fleet("backup", "f", *where, "--passphrase-file", str(empty)))
    assert not list(tmp_path.glob("*f")) and not list(tmp_path.glob(".f*")), "nothing half is left"

    target = tmp_path / "target"
    cut = tmp_path / "cut"
    cut.write_bytes(made.read_bytes()[:-100])
    assert "no backup of Fleet" in refusal(fleet("restore", str(cut), "--data-dir", str(target)))
    old = tmp_path / "old"
    old.write_bytes(forged(made, "manifest.json", lambda part: part.replace(b'"0001_pre"', b'"0000_pre"')))
    assert "has the schema 0000_pre, and this release knows 0001_pre" in refusal(
        fleet("restore", str(old), "--data-dir", str(target))
    )
    assert not target.exists()


@pytest.mark.parametrize("how", repeated(ENDS, short={"SIGKILL"}, name=lambda how: how.name))
def test_a_backup_that_is_ended_leaves_no_file(up: Up, tmp_path: Path, how: signal.Signals) -> None:
    file = tmp_path / "hub.backup"
    process = subprocess.Popen(
        [str(BIN / "fleet"), "backup", str(file), "--data-dir", str(up.folder)], stderr=subprocess.DEVNULL
    )

    def open_there() -> bool:
        for one in Path(f"/proc/{process.pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # it was closed meanwhile
                if one.readlink().is_relative_to(tmp_path):
                    return True
        return False

    until("it writes", lambda: process.poll() is not None or open_there())
    process.send_signal(how)
    process.wait(60)
    assert not list(tmp_path.glob(".hub.backup.*"))
    if file.exists():  # it was faster
        with file.open("rb") as held:
            assert read(held, "f", None).tables


def limited(size: int, *words: str) -> subprocess.CompletedProcess[str]:
    """The command on a disk that takes so many bytes of a file."""
    return subprocess.run(
        [str(BIN / "fleet"), *words],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )


@pytest.mark.parametrize("size", repeated([0, 1000, 8_192, 25_000], short={"1000"}))
def test_a_backup_to_a_full_disk_is_one_sentence_and_leaves_nothing(up: Up, tmp_path: Path, size: int) -> None:
    done = limited(size, "backup", str(tmp_path / "f"), "--data-dir", str(up.folder))
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last == f"fleet: cannot write {tmp_path}/f: File too large" and "Traceback" not in done.stderr, done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("into", repeated(["> /dev/full", "| head -c 10 > /dev/null", ">&-"], short={"> /dev/full"}))
def test_a_backup_to_a_stdout_that_takes_it_not_fails_in_one_sentence(up: Up, into: str) -> None:
    words = f"set -o pipefail; {BIN}/fleet backup - --data-dir {up.folder} {into}"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, timeout=180, check=False)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and last.startswith(("fleet: cannot write stdout: ", "fleet: stdout is closed"))
    assert "Traceback" not in done.stderr, done.stderr


def test_a_restore_to_a_full_disk_changes_nothing(made: Path, tmp_path: Path, database_url: str) -> None:
    target = tmp_path / "target"
    where = ("--data-dir", str(target), "--database-url", database_url)
    done = limited(100, "restore", str(made), *where)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and last.startswith(f"fleet: nothing was restored: cannot write {target}"), done.stderr
    assert not [path for path in target.rglob("*") if path.is_file() and path.name != "lock"]
    done = fleet("restore", str(made), *where)
    assert done.returncode == 0 and "--force" not in done.stderr, "it was empty still"


def test_a_table_that_finds_no_room_for_a_while_is_one_sentence(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.hub.archive.IN_MEMORY", 1)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with made.open("rb") as held, pytest.raises(Failure, match=r"cannot write to .*: File too large"):
            read(held, "f", None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
