"""The kinds of a hub: those of Kubernetes, and those of fleet/admission/kinds, a file each."""

from __future__ import annotations

from pathlib import Path

from api.engine.kind import Kind
from api.server import kindfiles

FOLDER = Path(__file__).resolve().parent / "kinds"


def load_kinds() -> list[Kind]:
    """Every kind, ready for a Registry. Kinds are immutable and shared; the list is the caller's."""
    return kindfiles.load_kinds(FOLDER)
