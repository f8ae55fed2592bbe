"""Which members a placement allows: the rules as tables."""

from __future__ import annotations

from fleet.bindings.matching import ClusterFields, duplicated_to


def test_a_taint_keeps_newcomers_out_and_not_who_is_there() -> None:
    taint = {"key": "maintenance", "effect": "NoSchedule"}
    clusters = [ClusterFields("cfa", {}, {}), ClusterFields("cfb", {}, {}, [taint])]
    assert duplicated_to({}, clusters, ()) == ["cfa"]
    assert duplicated_to({}, clusters, ["cfb"]) == ["cfa", "cfb"]
    assert duplicated_to({"clusterTolerations": [{"operator": "Exists"}]}, clusters, ()) == ["cfa", "cfb"]
