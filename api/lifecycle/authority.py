"""Where the CA of the hub is, for the loop that signs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Authority:
    """The files of the CA."""

    certificate: Path
    key: Path
