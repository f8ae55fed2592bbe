"""The files of a directory as an archive that a ConfigMap can carry: the code of a job.

A ConfigMap is no place for secrets: its readers are many, and it travels to members. So files that look like keys are
refused, not left out: a job that misses a file says less than a command that names it.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.cli.failure import Failure
from fleet.submission.request import CODE_MOST_BYTES

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

FILES_MOST = 5_000
READ_MOST_BYTES = 64 * 2**20  # of all files, before they are packed
SHOWN_MOST = 5  # files that a refusal names
LOOK_BYTES = 64 * 1024  # of a file, for a key in it
KEY_NAMES = (
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.ppk",
    "*.kdbx",
    ".env",
    ".env.*",
    ".envrc",
    "credentials",
    "credentials.json",
    "credentials.csv",
    "client_secret*.json",
    "kubeconfig",
    "*.kubeconfig",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".pypirc",
    ".npmrc",
    ".git-credentials",
    ".htpasswd",
    ".dockercfg",
    ".dockerconfigjson",
)
KEY_FOLDERS = (".ssh", ".aws", ".azure", ".docker", ".gnupg", ".kube")
_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY( BLOCK)?-----|^\s*client-key-data:", re.MULTILINE)
_HOW = "name it in .gitignore, and give its content by --secret"


@dataclass(frozen=True)
class PackedCode:
    """`files`: the path of each in the archive, and its bytes. `left_out`: symbolic links and the like."""

    archive: bytes
    files: tuple[tuple[str, int], ...]
    left_out: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"  {size_of(size):>9}  {path}" for path, size in self.files]
        lines += [f"  {'left out':>9}  {path} (no regular file)" for path in self.left_out]
        total = sum(size for _, size in self.files)
        files = "1 file" if len(self.files) == 1 else f"{len(self.files)} files"
        head = f"code: {files}, {size_of(total)}, {size_of(len(self.archive))} packed"
        return "\n".join([head, *lines])


def pack(directory: Path) -> PackedCode:
    """The files that .gitignore does not name. Raises Failure."""
    if not directory.is_dir():
        raise Failure(f"--code {directory}: is no directory")
    files: list[tuple[Path, int]] = []
    left_out: list[str] = []
    total = 0
    for path in _walk(directory):
        name = path.relative_to(directory).as_posix()
        if path.is_symlink() or not path.is_file():
            left_out.append(name)
            continue
        files.append((path, path.stat().st_size))
        total += files[-1][1]
        if len(files) > FILES_MOST or total > READ_MOST_BYTES:
            raise _too_large(directory, files, f"more than {FILES_MOST} files, or {size_of(READ_MOST_BYTES)}")
    if not files:
        raise Failure(f"--code {directory}: there is no file to send")
    archive = _packed(directory, files)
    if len(archive) > CODE_MOST_BYTES:
        raise _too_large(directory, files, f"{size_of(len(archive))} packed, of at most {size_of(CODE_MOST_BYTES)}")
    sizes = tuple((path.relative_to(directory).as_posix(), size) for path, size in files)
    return PackedCode(archive, sizes, tuple(left_out))


def size_of(count: int) -> str:
    """Bytes as people read them."""
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"


def _packed(directory: Path, files: list[tuple[Path, int]]) -> bytes:
    """The archive, which is the same for the same files. Raises Failure for keys among them."""
    packed, keys = io.BytesIO(), []
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w|") as tar:
        for path, _ in files:
            name = path.relative_to(directory).as_posix()
            try:
                content = path.read_bytes()
            except OSError as error:
                raise Failure(f"--code {directory}: cannot read {name}: {error.strerror or error}") from error
            if _is_key(name, content):
                keys.append(name)
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), int(path.stat().st_mtime)
            entry.mode = 0o755 if os.access(path, os.X_OK) else 0o644
            tar.addfile(entry, io.BytesIO(content))
    if keys:
        more = f" and {len(keys) - SHOWN_MOST} more" if len(keys) > SHOWN_MOST else ""
        raise Failure(
            f"--code {directory}: a ConfigMap is no place for keys: {', '.join(keys[:SHOWN_MOST])}{more}; {_HOW}"
        )
    return packed.getvalue()


def _is_key(name: str, content: bytes) -> bool:
    *folders, file = name.lower().split("/")
    named = any(fnmatch(file, pattern) for pattern in KEY_NAMES) or not set(folders).isdisjoint(KEY_FOLDERS)
    return named or _KEY.search(content[:LOOK_BYTES]) is not None


def _too_large(directory: Path, files: list[tuple[Path, int]], why: str) -> Failure:
    largest = sorted(files, key=lambda one: -one[1])[:SHOWN_MOST]
    shown = ", ".join(f"{path.relative_to(directory).as_posix()} {size_of(size)}" for path, size in largest)
    return Failure(f"--code {directory}: {why}; the largest: {shown}; name what is not needed in .gitignore")


# -- .gitignore


def _walk(directory: Path) -> Iterator[Path]:
    """Every path below that git would not ignore, in the order of names; no folder of git itself."""
    specs = _above(directory.resolve())

    def below(folder: Path) -> Iterator[Path]:
        _read(folder, folder.resolve(), specs)
        try:
            entries = sorted(folder.iterdir())
        except OSError as error:
            raise Failure(f"--code {directory}: cannot read {folder}: {error.strerror or error}") from error
        for path in entries:
            folder_there = path.is_dir() and not path.is_symlink()
            if path.name == ".git" or _ignored(path.parent.resolve() / path.name, folder_there, specs):
                continue
            if folder_there:
                yield from below(path)
            else:
                yield path

    yield from below(directory)


def _above(directory: Path) -> dict[Path, GitIgnoreSpec]:
    """The rules of the repository that the directory is part of, from its root down to the directory."""
    specs: dict[Path, GitIgnoreSpec] = {}
    root = next((folder for folder in (directory, *directory.parents) if (folder / ".git").exists()), None)
    if root is not None:
        for folder in reversed([one for one in directory.parents if one == root or root in one.parents]):
            _read(folder, folder, specs)
    return specs


def _read(folder: Path, at: Path, specs: dict[Path, GitIgnoreSpec]) -> None:
    from pathspec import GitIgnoreSpec

    try:
        lines = (folder / ".gitignore").read_text(errors="replace").splitlines()
    except OSError:
        return
    specs[at] = GitIgnoreSpec.from_lines(lines)


def _ignored(path: Path, folder: bool, specs: dict[Path, GitIgnoreSpec]) -> bool:
    """As git reads it: the file nearest to the path that says anything counts."""
    for at in path.parents:
        spec = specs.get(at)
        if spec is None:
            continue
        said = spec.check_file(path.relative_to(at).as_posix() + "/" * folder).include
        if said is not None:
            return said
    return False
