"""`fleet clusters --topology`: the place trees of members, each domain with its nodes and free slots.

A table has 100 columns at most, and so many lines for a tree that people read it: of a tree with more domains only the
coarser levels are shown. `-o json` has all.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fleet.amc import table
from fleet.cli.failure import Failure
from fleet.cli.lists import TABLES, ListOptions
from fleet.cli.options import ListOutput, Output

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

TOPOLOGY = "/fleet/v1/topology"
SIZES = ("8", "4", "2", "1")
HEAD = ("DOMAIN", "NODES", "FREE GPUS", *SIZES, "NODE NAMES")
DOMAINS_MAX = 60  # of a tree
NAMES_MAX = 4  # that are all written down
WIDTH = 100
NAME_WIDTH = 36  # of a domain
Record = Mapping[str, Any]


def show_trees(hub: HubClient, how: ListOptions, members: Sequence[str], *, nothing: str) -> None:
    """Print the place trees of these members; `nothing`, on stderr, where there are none."""
    from fleet.cli import output

    if how.watch or how.sort or how.output is ListOutput.name:
        raise Failure("--topology takes neither --watch nor --sort nor -o name")
    answer = hub.request("GET", TOPOLOGY).body
    by_name = {item["member"]: item for item in answer["items"] if item["member"] in set(members)}
    items = [by_name[name] for name in members if name in by_name]
    if how.output not in TABLES:
        output.show(items, (), Output(how.output))
        return
    if not members:
        print(nothing, file=sys.stderr)
    for item in items:
        sys.stdout.writelines(f"{line}\n" for line in member_lines(item))
    if members and answer["at"] is None:
        print("The hub has not looked at the nodes of its members yet", file=sys.stderr)
    if answer["left"]:
        print(f"{answer['left']} nodes more are not looked at", file=sys.stderr)


def member_lines(item: Record) -> Iterator[str]:
    """One member for people."""
    name = item["member"]
    if not item["trees"]:
        why = "spec.topology of its Cluster, or HyperNodes, say which nodes are close to each other"
        yield f"{name}: no place trees; {why}"
    for tree in item["trees"]:
        yield f"{name}: {' > '.join(tree['levels'])}"
        yield from _tree(tree)
        yield ""
    if item["trees"] and item["outside"]:
        yield f"{name}: in no domain: {_names(item['outside'])}"
        yield ""


def _tree(tree: Record) -> Iterator[str]:
    levels, domains = tree["levels"], tree["domains"]
    counts = [sum(one["level"] == level for one in domains) for level in levels]
    depth = max(1, sum(sum(counts[: number + 1]) <= DOMAINS_MAX for number in range(len(levels))))
    shown = [one for one in domains if one["level"] in levels[:depth]][:DOMAINS_MAX]
    for line in table.lines([HEAD, *(_row(one, levels) for one in shown)]):
        text = line.rstrip()
        yield text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"
    if len(shown) < len(domains):
        yield f"({len(domains) - len(shown)} domains more: -o json has all)"


def _row(domain: Record, levels: Sequence[str]) -> Sequence[str]:
    indent = "  " * levels.index(domain["level"])
    name = indent + (domain["path"].rpartition("/")[2] or "-")
    short = name if len(name) <= NAME_WIDTH else f"{name[: NAME_WIDTH - 1]}…"
    free = f"{domain['free']}/{domain['gpus']}"
    return (short, str(domain["nodes"]), free, *(str(domain["slots"][size]) for size in SIZES), _names(domain["names"]))


def _names(names: Sequence[str]) -> str:
    """The names, or the first and the last of many."""
    return ", ".join(names) if len(names) <= NAMES_MAX else f"{names[0]} … {names[-1]} ({len(names)})"
