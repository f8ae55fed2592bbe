"""The names of bindings: NAME-KIND, and with the group for the second of two kinds of one name."""

from __future__ import annotations

from fleet.bindings.names import binding_of, key_of, names
from fleet.values.names import SUBDOMAIN_MAX, subdomain_problems
from fleet.values.ports import Key, StoredObject
from fleet.wellknown import unit_name


class Shelf:
    """Bindings by their keys."""

    def __init__(self) -> None:
        self.all: dict[Key, StoredObject] = {}

    def __call__(self, key: Key) -> StoredObject | None:
        return self.all.get(key)

    def put(self, group: str, kind: str, name: str) -> str:
        """The name of the binding, which is made as the hub makes it."""
        key = key_of(self, group, kind, "team", name)
        resource = {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind, "name": name}
        self.all[key] = StoredObject(key, "u", 1, b"", {"metadata": {}, "spec": {"resource": resource}})
        return key.name


def test_the_second_of_two_kinds_gets_its_group_whichever_it_is() -> None:
    for first, second in (("batch", "batch.volcano.sh"), ("batch.volcano.sh", "batch")):
        shelf = Shelf()
        assert shelf.put(first, "Job", "train") == "train-job"
        assert shelf.put(second, "Job", "train") == f"train-job-{second}"
        assert shelf.put(second, "Job", "other") == "other-job"


def test_a_binding_keeps_its_name_when_the_other_one_has_left() -> None:
    shelf = Shelf()
    shelf.put("batch", "Job", "train")
    shelf.put("batch.volcano.sh", "Job", "train")
    del shelf.all[key_of(shelf, "batch", "Job", "team", "train")]
    assert key_of(shelf, "batch.volcano.sh", "Job", "team", "train").name == "train-job-batch.volcano.sh"
    assert binding_of(shelf, "batch", "Job", "team", "train") is None
    assert shelf.put("batch", "Job", "train") == "train-job"


def test_a_name_that_another_object_has_is_not_taken() -> None:
    """ "train-job-apps" is the binding of a Job train of apps, or of an Apps train-job."""
    shelf = Shelf()
    shelf.put("", "Apps", "train-job")
    shelf.put("batch", "Job", "train")
    made = shelf.put("apps", "Job", "train")
    assert made.startswith("train-job-") and made != "train-job-apps"
    assert key_of(shelf, "apps", "Job", "team", "train").name == made


def test_every_further_name_is_one_of_an_object_and_leaves_room_for_the_unit() -> None:
    for name in ("a", "a" * 63, "a" * 200, "a" * 240, ("a." * 126) + "a"):
        for found in list(names("batch.volcano.sh", "Job", name))[1:]:
            assert not subdomain_problems(found) and len(unit_name(found)) <= SUBDOMAIN_MAX
