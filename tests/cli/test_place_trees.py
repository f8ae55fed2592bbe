"""`fleet clusters --topology`: the table of a tree at 100 columns, short for a member of 5,000 nodes, and as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleet.cli.placetrees import DOMAINS_MAX, WIDTH, member_lines
from fleet.rest.topology import trees_of
from tests.cli.hub import Up, fleet, refusal


def item(places: list[list[tuple[str, str]]], name: str = "cfa", node: str = "te{}") -> dict[str, Any]:
    rows = [[node.format(number + 1), "", 8, number % 4, "ready", {}] for number in range(len(places))]
    return {"member": name, **trees_of(rows, places, range(len(places)))}


def test_the_walk_through_as_a_table() -> None:
    places = [
        [("tier-3", "/s6"), ("tier-2", f"/s6/s{4 + n // 4}"), ("tier-1", f"/s6/s{4 + n // 4}/s{n // 2}")]
        for n in range(8)
    ]
    assert list(member_lines(item([*places, []]))) == [
        "cfa: tier-3 > tier-2 > tier-1",
        "DOMAIN   NODES   FREE GPUS   8     4     2     1     NODE NAMES",
        "s6       8       52/64       2     10    24    52",
        "  s4     4       26/32       1     5     12    26",
        "    s0   2       15/16       1     3     7     15    te1, te2",
        "    s1   2       11/16       0     2     5     11    te3, te4",
        "  s5     4       26/32       1     5     12    26",
        "    s2   2       15/16       1     3     7     15    te5, te6",
        "    s3   2       11/16       0     2     5     11    te7, te8",
        "",
        "cfa: in no domain: te9",
        "",
    ]


def test_a_member_of_five_thousand_nodes_is_shown_by_its_coarser_levels() -> None:
    places = [
        [
            ("topology.kubernetes.io/block", f"b{number // 256}"),
            ("topology.kubernetes.io/rack", f"b{number // 256}/{'r' * 60}{number // 16}"),
        ]
        for number in range(5000)
    ]
    lines = list(member_lines(item(places, node="a-node-with-a-long-name-of-a-provider-{}")))
    assert len(lines) < DOMAINS_MAX and max(map(len, lines)) <= WIDTH
    assert lines[-2] == "(313 domains more: -o json has all)" and lines[2].startswith("b0       256     ")
    racks = list(member_lines(item([[place[1]] for place in places])))
    assert len(racks) == DOMAINS_MAX + 4 and max(map(len, racks)) <= WIDTH
    small = list(member_lines(item(places[:512], node="a-node-with-a-long-name-of-a-provider-{}")))
    assert len(small) == 2 + 34 + 1 and max(map(len, small)) <= WIDTH


def test_a_member_without_trees_says_what_makes_them() -> None:
    assert "HyperNodes" in next(iter(member_lines(item([[]]))))


@pytest.mark.parametrize("more", [["--watch"], ["--sort", "name"], ["-o", "name"]])
def test_ways_to_print_lists_that_a_tree_has_not_are_refused(up: Up, more: list[str]) -> None:
    said = refusal(fleet("clusters", "--topology", "--data-dir", str(up.folder), *more))
    assert said == "fleet: --topology takes neither --watch nor --sort nor -o name"


def test_a_hub_without_members_says_so(up: Up) -> None:
    def run(*more: str) -> Any:
        return fleet("clusters", "--topology", "--data-dir", str(up.folder), *more)

    assert json.loads(run("-o", "json").stdout) == []
    assert run().stderr.startswith("No members: fleet join") and run("--state", "ready").stderr == "No such members\n"
