"""A recorded hub: the database and the data directory of a hub of some release that was killed while jobs ran.

`make recording` writes that of this checkout into `tests/upgrade/recorded`. The keys in it were made for it alone.

    data/           the data directory, without logs
    database.dump   of pg_dump
    seen.json       what was seen of the hub, and `revision`, from which a watch goes on
"""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

from api.store.cluster_files import programs
from tests.upgrade.story import Seen

FOLDER = Path(__file__).with_name("recorded")
LEFT_OUT = ("data/kubeconfig", "data/lock", "data/logs")


def postgres(program: str, *arguments: str) -> None:
    found = programs()
    done = subprocess.run(
        [found[max(found, key=int)] / program, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def pack(data: Path, database: str, seen: Seen, into: Path) -> None:
    """Write what a hub has left. The database is named by its address."""
    dump, about = data.with_name("database.dump"), data.with_name("seen.json")
    postgres("pg_dump", "--format=custom", "--compress=9", "--no-owner", f"--file={dump}", database)
    about.write_text(json.dumps(seen, indent=1, sort_keys=True))
    into.parent.mkdir(exist_ok=True)
    with tarfile.open(into, "w:gz") as archive:
        for path in (data, dump, about):
            archive.add(path, path.name, filter=_packed)


def _packed(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return None if info.name in LEFT_OUT else info


def unpack(packed: Path, folder: Path, database: str) -> Seen:
    """Fill an empty database and `folder/data`; what was seen of the hub."""
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="tar")
    postgres("pg_restore", "--exit-on-error", "--no-owner", f"--dbname={database}", str(folder / "database.dump"))
    seen: Seen = json.loads((folder / "seen.json").read_text())
    return seen
