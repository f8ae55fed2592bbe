"""All inputs of one decision, as one immutable value; README.md."""

from fleet.core.snapshot.snapshot import MOST_NODES, Config, Snapshot, SnapshotChanges

__all__ = ["MOST_NODES", "Config", "Snapshot", "SnapshotChanges"]
