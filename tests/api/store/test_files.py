"""Files that only their owner may read: whole or not at all."""

from __future__ import annotations

import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from api.store.secrets import SecretBox
from fleet.values.files import whole_private, write_private


@contextmanager
def disk_of(size: int) -> Iterator[None]:
    """A disk that takes so many bytes of a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=["unnamed", "named"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With files without a name, and on a system that knows none."""
    if request.param == "named":
        monkeypatch.setattr("fleet.values.files._unnamed", lambda folder: None)


@pytest.mark.usefixtures("way")
def test_a_file_is_its_owner_s_and_replaces_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "key"
    for content in (b"one", b"two"):
        write_private(path, content)
        assert path.read_bytes() == content and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names(tmp_path) == ["key"]


@pytest.mark.usefixtures("way")
def test_a_disk_that_is_full_leaves_the_file_before_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "key"
    write_private(path, b"one")
    with disk_of(3), pytest.raises(OSError, match="File too large"):
        write_private(path, b"longer")
    assert path.read_bytes() == b"one" and names(tmp_path) == ["key"]


@pytest.mark.usefixtures("way")
def test_an_error_in_the_midst_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError), whole_private(tmp_path / "key") as output:
        output.write(b"half")
        output.flush()
        raise ValueError
    assert not names(tmp_path)


def test_a_new_key_that_finds_no_room_costs_none_of_the_old_ones(tmp_path: Path) -> None:
    box = SecretBox(tmp_path / "secrets.key")
    held = (tmp_path / "secrets.key").read_bytes()
    with disk_of(len(held)), pytest.raises(OSError, match="File too large"):
        box.rotate()
    assert (tmp_path / "secrets.key").read_bytes() == held
    assert names(tmp_path) == ["secrets.key", "secrets.key.lock"]
