"""The quota tree as the checks of a process look at it: parsed once a revision, a large one beside the event loop."""

from __future__ import annotations

from api.objects.apart import apart
from fleet.admission.perstore import once_per_store
from fleet.bindings.trees import TreeReader, read_tree, tree_object
from fleet.core.quota.tree import QuotaTree


class LatestTree(TreeReader):
    """A reader that also parses apart. `latest_tree` gives the one of a store."""

    async def read_apart(self) -> QuotaTree | None:
        """As `read()`."""
        revision, stored = self.revision, tree_object(self._store)
        if self._read[0] != revision:
            self._read = (revision, await apart(read_tree, stored))
        return self.read()


latest_tree = once_per_store(LatestTree)
