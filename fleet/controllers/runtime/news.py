"""Which events of an object say more than another status: most events of a job that runs say no more."""

from __future__ import annotations

from fleet.values.ports import Event, EventType, Key

SAID = ("generation", "labels", "annotations", "finalizers", "deletionTimestamp")


class News:
    """The state of the objects that a loop has seen, their status left out."""

    def __init__(self) -> None:
        self._marks: dict[Key, int] = {}

    def is_new(self, event: Event) -> bool:
        """The full pass that every loop makes now and then (ADDED) always counts, and so does every event of an object
        that counts no generations."""
        key, meta = event.stored.key, event.stored.body["metadata"]
        if event.type is EventType.DELETED:
            self._marks.pop(key, None)
        elif "generation" in meta:
            mark = hash(repr((event.stored.uid, *(meta.get(name) for name in SAID))))
            if event.type is EventType.MODIFIED and self._marks.get(key) == mark:
                return False
            self._marks[key] = mark
        return True
