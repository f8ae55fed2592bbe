"""A snapshot of two units for `fleet decide`, and its file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

GPU = "nvidia.com/gpu"
CASE: dict[str, Any] = {
    "version": 1,
    "now": 1000,
    "config": {"reclaim": True},
    "tree": {"root/a": {"min": {GPU: 8}}, "root/b": {"min": {GPU: 8}}},
    "units": [
        {"id": "a", "leaf": "root/a", "gang": "1x8", "count": 2, "member": "m", "placed_at": 0},
        {"id": "b", "leaf": "root/b", "gang": "1x8"},
    ],
    "members": [{"name": "m", "nodes": [{"count": 2, GPU: 8}]}],
}


def written(path: Path, document: object) -> str:
    path.write_text(json.dumps(document))
    return str(path)
