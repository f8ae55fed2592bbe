"""All inputs of one decision, as one immutable value; README.md."""

from fleet.core.snapshot.snapshot import MOST_NODES, Changes, Config, Snapshot

__all__ = ["MOST_NODES", "Changes", "Config", "Snapshot"]
