"""Objects in the order of their names, beside a dict that is sorted for each question."""

from __future__ import annotations

from itertools import pairwise
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from api.store import orderedobjects
from api.store.orderedobjects import Name, OrderedObjects
from fleet.values.ports import Key, StoredObject

NAMES = st.tuples(st.sampled_from(["", "a", "a\0", "ab", "b"]), st.sampled_from([f"n{n}" for n in range(9)]))
# Put an object of this name, or take it out (where it is there), or take a copy.
STEPS = st.lists(st.one_of(st.tuples(st.sampled_from(["put", "remove"]), NAMES), st.just(("copy", ("", "")))))
PARTS = st.tuples(st.none() | st.sampled_from(["", "a", "ab", "c"]), st.none() | NAMES)


def stored(name: Name, revision: int) -> StoredObject:
    return StoredObject(Key("", "things", *name), "uid", revision, b"{}")


def answers(world: dict[Name, StoredObject], namespace: str | None, after: Name | None) -> list[StoredObject]:
    return [
        item
        for name, item in sorted(world.items())
        if (namespace is None or name[0] == namespace) and (after is None or name > after)
    ]


@given(STEPS, PARTS, st.integers(1, 12))
def test_an_ordered_and_its_copies_answer_as_sorted_dicts_of_the_same_moments(
    steps: list[tuple[str, Name]], asked: tuple[str | None, Name | None], limit: int
) -> None:
    world: dict[Name, StoredObject] = {}
    with patch.object(orderedobjects, "LEAF", 2):  # so that few objects make many leaves
        one = OrderedObjects()
        moments: list[tuple[OrderedObjects, dict[Name, StoredObject]]] = []
        for revision, (what, name) in enumerate(steps):
            if what == "copy":
                moments.append((one.copy(), dict(world)))
            elif what == "put":
                world[name] = stored(name, revision)
                one.put(name, world[name])
            elif name in world:
                del world[name]
                one.remove(name)
    for objects, then in [*moments, (one, world)]:
        part, wanted = objects.part(*asked), answers(then, *asked)
        assert len(objects) == len(then)
        assert (list(part), part.first(), len(part)) == (wanted, wanted, len(wanted))
        assert part.first(limit) == wanted[:limit]


def test_a_change_after_a_copy_copies_one_leaf() -> None:
    names = [("default", f"n{number:05}") for number in range(5 * orderedobjects.LEAF)]
    one = OrderedObjects(names, [stored(name, 1) for name in names])
    before = one.copy()
    one.put(names[700], stored(names[700], 2))
    leaves = list(zip(one._leaves, before._leaves, strict=True))
    assert [mine is theirs for mine, theirs in leaves] == [True, False, True, True, True]
    assert all(low < high for low, high in pairwise(one._firsts))
