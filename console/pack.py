"""Writes X.gz beside each built script and style sheet, so that the hub packs nothing when a browser asks."""

import gzip
import sys
from pathlib import Path

ABOVE_BYTES = 1_000
LEVEL = 9

for path in Path(sys.argv[1]).iterdir():
    content = path.read_bytes()
    if path.suffix in (".js", ".css") and len(content) > ABOVE_BYTES:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content, LEVEL, mtime=0))
