"""Objects in the order of their names, in leaves that copies share.

A copy costs one reference for each leaf. The first change to a leaf after that copies this leaf alone, so the pages of
a list can show a past state of many objects while a few of them change.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from fleet.values.ports import StoredObject

Name = tuple[str, str]  # (namespace, name)

LEAF = 512  # objects; a leaf with twice as many is cut in two


class Leaf:
    """Neighbours, in order. Only the `OrderedObjects` with the same owner may change them."""

    __slots__ = ("items", "names", "owner")

    def __init__(self, names: list[Name], items: list[StoredObject], owner: object) -> None:
        self.names, self.items, self.owner = names, items, owner


class OrderedObjects:
    """Objects by name. A change takes about the time of two binary searches."""

    __slots__ = ("_count", "_firsts", "_leaves", "_owner")

    def __init__(self, names: Sequence[Name] = (), items: Sequence[StoredObject] = ()) -> None:
        """`names`: in order; `items`: the object of each."""
        self._owner = object()
        self._count = len(names)
        self._leaves = [
            Leaf(list(names[at : at + LEAF]), list(items[at : at + LEAF]), self._owner)
            for at in range(0, len(names) or 1, LEAF)
        ]
        # Not greater than any name of the leaf, and greater than all of the leaf before; that of leaf 0 means nothing.
        self._firsts = [leaf.names[0] if leaf.names else ("", "") for leaf in self._leaves]

    def __len__(self) -> int:
        return self._count

    def copy(self) -> OrderedObjects:
        """The same objects, whatever happens to these."""
        made = OrderedObjects.__new__(OrderedObjects)
        made._count, made._firsts, made._leaves = self._count, self._firsts.copy(), self._leaves.copy()
        made._owner, self._owner = object(), object()  # the leaves belong to neither of the two
        return made

    def _own(self, name: Name) -> tuple[int, Leaf]:
        """The leaf where the name belongs, to be changed."""
        index = max(bisect_right(self._firsts, name) - 1, 0)
        leaf = self._leaves[index]
        if leaf.owner is not self._owner:
            leaf = self._leaves[index] = Leaf(leaf.names.copy(), leaf.items.copy(), self._owner)
        return index, leaf

    def put(self, name: Name, stored: StoredObject) -> None:
        """Add the object, or put it in the place of the one with this name."""
        index, leaf = self._own(name)
        names, items = leaf.names, leaf.items
        at = bisect_left(names, name)
        if at < len(names) and names[at] == name:
            items[at] = stored
            return
        names.insert(at, name)
        items.insert(at, stored)
        self._count += 1
        if len(names) >= 2 * LEAF:
            self._leaves.insert(index + 1, Leaf(names[LEAF:], items[LEAF:], self._owner))
            self._firsts.insert(index + 1, names[LEAF])
            del names[LEAF:], items[LEAF:]

    def remove(self, name: Name) -> None:
        """Take out the object, which must be there."""
        index, leaf = self._own(name)
        at = bisect_left(leaf.names, name)
        del leaf.names[at], leaf.items[at]
        self._count -= 1
        if not leaf.names and len(self._leaves) > 1:
            del self._leaves[index], self._firsts[index]

    def get(self, name: Name) -> StoredObject:
        """The object, which must be there."""
        leaf = self._leaves[max(bisect_right(self._firsts, name) - 1, 0)]
        return leaf.items[bisect_left(leaf.names, name)]

    def part(self, namespace: str | None = None, after: Name | None = None) -> Part:
        """The objects of the namespace (None: of all) after that name."""
        begin = None if namespace is None else (namespace, "")
        end = None if namespace is None else (namespace + "\0", "")
        if begin is None or (after is not None and after >= begin):
            begin = after
        first = 0 if begin is None else max(bisect_right(self._firsts, begin) - 1, 0)
        last = len(self._leaves) if end is None else bisect_left(self._firsts, end, 1)
        pieces = []
        for leaf in self._leaves[first:last]:
            names = leaf.names
            low = 0 if begin is None else bisect_right(names, begin)
            high = len(names) if end is None else bisect_left(names, end)
            if low < high:
                pieces.append((leaf, low, high))
        return Part(pieces)


class Part:
    """Some objects of an `OrderedObjects` that follow each other, to be read before it changes."""

    __slots__ = ("_pieces",)

    def __init__(self, pieces: list[tuple[Leaf, int, int]]) -> None:
        self._pieces = pieces

    @staticmethod
    def of(items: list[StoredObject]) -> Part:
        """These objects, without their names."""
        return Part([(Leaf([], items, None), 0, len(items))])

    def __len__(self) -> int:
        return sum(high - low for _, low, high in self._pieces)

    def __iter__(self) -> Iterator[StoredObject]:
        for leaf, low, high in self._pieces:
            yield from leaf.items[low:high]

    def named_items(self) -> Iterator[tuple[Name, StoredObject]]:
        """The objects with the names that are kept for them."""
        for leaf, low, high in self._pieces:
            yield from zip(leaf.names[low:high], leaf.items[low:high], strict=True)

    def first(self, limit: int | None = None) -> list[StoredObject]:
        """The first of the objects; None: all."""
        objects: list[StoredObject] = []
        for leaf, low, high in self._pieces:
            if limit is not None:
                high = min(high, low + limit - len(objects))
            objects += leaf.items[low:high]
            if len(objects) == limit:
                break
        return objects
