"""Code that goes along with a job: the files that git would take, no keys, and no more than a ConfigMap holds."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from fleet.cli import code
from fleet.cli.failure import Failure

TREE = {
    "train.py": "print(1)",
    "pkg/__init__.py": "",
    "pkg/deep/model.py": "x = 1",
    "pkg/deep/out.log": "",
    "a.log": "",
    "keep.log": "",
    "data/big.bin": "",
    "build/x": "",
    "pkg/build/y": "",
    "notes/a b.txt": "",
    "pkg/deep/old.py": "",
    ".gitignore": "*.log\n!keep.log\n/data\nbuild/\n",
    "pkg/.gitignore": "deep/*.py\n!deep/model.py\n!deep/*.log\n",
}


def written(folder: Path, tree: dict[str, str]) -> Path:
    for name, text in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def names(packed: code.PackedCode) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(packed.archive)) as tar:
        return tar.getnames()


def test_the_files_are_those_that_git_would_take(tmp_path: Path) -> None:
    written(tmp_path, TREE)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, timeout=60)
    listed = subprocess.run(
        ["git", "-C", str(tmp_path), "ls-files", "-co", "--exclude-standard"],
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    assert sorted(names(code.pack(tmp_path))) == sorted(listed)
    assert "pkg/deep/model.py" in listed and "pkg/deep/old.py" not in listed
    # A part of a repository: the rules above it hold, too.
    assert sorted(names(code.pack(tmp_path / "pkg"))) == sorted(
        line.removeprefix("pkg/") for line in listed if line.startswith("pkg/")
    )


def test_the_archive_is_the_same_for_the_same_files_and_keeps_what_can_be_run(tmp_path: Path) -> None:
    written(tmp_path, {"run.sh": "exit", "a.py": "1"})
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "link").symlink_to("/etc/passwd")
    packed = code.pack(tmp_path)
    assert packed.archive == code.pack(tmp_path).archive and packed.left_out == ("link",)
    with tarfile.open(fileobj=io.BytesIO(packed.archive)) as tar:
        assert {one.name: (one.mode, one.uid) for one in tar} == {"run.sh": (0o755, 0), "a.py": (0o644, 0)}
    lines = str(packed).splitlines()
    assert lines[0].startswith("code: 2 files, 5 B, ") and "      1 B  a.py" in lines[1]
    assert lines[-1].split() == ["left", "out", "link", "(no", "regular", "file)"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("deploy/server.pem", ""),
        (".env", "A=1"),
        ("ID_RSA", ""),
        (".aws/config", ""),
        ("my.kubeconfig", ""),
        ("notes.txt", f"-----BEGIN RSA {'PRIVATE'} KEY-----"),
        ("config", "users:\n- user:\n    client-key-data: x\n"),
    ],
)
def test_keys_are_refused_by_name_and_by_content_unless_git_ignores_them(tmp_path: Path, name: str, text: str) -> None:
    written(tmp_path, {"a.py": "1", name: text})
    with pytest.raises(Failure, match="no place for keys") as refused:
        code.pack(tmp_path)
    assert name in str(refused.value) and "--secret" in str(refused.value)
    (tmp_path / ".gitignore").write_text(f"/{name}\n")
    assert names(code.pack(tmp_path)) == [".gitignore", "a.py"]


def test_too_much_names_the_largest_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, {"a.py": "1", "b.txt": "b" * 100})
    (tmp_path / "noise").write_bytes(os.urandom(2**20))
    with pytest.raises(
        Failure, match=r"1\.0 MiB packed, of at most 1\.0 MiB; the largest: noise 1\.0 MiB, b\.txt 100 B"
    ):
        code.pack(tmp_path)
    monkeypatch.setattr(code, "READ_MOST_BYTES", 1000)
    with pytest.raises(Failure, match=r"more than 5000 files, or 1000 B; the largest: noise"):
        code.pack(tmp_path)


def test_what_is_no_directory_or_has_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="there is no file to send"):
        code.pack(tmp_path)
    with pytest.raises(Failure, match="is no directory"):
        code.pack(tmp_path / "nope")
