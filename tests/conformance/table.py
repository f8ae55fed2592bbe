"""The section of docs/reference/api-compatibility.md about Kubernetes' own tests, made from the lists.

python -m tests.conformance.table     writes it
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.conformance.lists import Exceptions, exceptions, passing
from tests.conformance.suite import GROUPS, group_of

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "api-compatibility.md"
BEGIN, END = "<!-- made by tests/conformance/table.py -->\n", "<!-- end -->\n"


def section(known: Mapping[str, float], left_out: Exceptions) -> str:
    rows = ["| group | pass on a kube-apiserver | set apart | exceptions | pass on the hub |", "|---|---|---|---|---|"]
    for groups in [*([group] for group in GROUPS), list(GROUPS)]:
        names = [name for name in known if group_of(name) in groups]
        apart = sum(name in left_out.apart for name in names)
        others = sum(name in left_out.others for name in names)
        left = len(names) - apart
        share = f"{left - others} of {left}" + (f" ({(left - others) / left:.0%})" if left else "")
        title = f"`[{groups[0]}]`" if len(groups) == 1 else "together"
        rows.append(f"| {title} | {len(names)} | {apart} | {others} | {share} |")
    return "\n".join([*rows, "", *_reasons("Set apart", left_out.apart), *_reasons("Exceptions", left_out.others)])


def _reasons(title: str, by_name: Mapping[str, str]) -> list[str]:
    if not by_name:
        return []
    rows = [f"| {title}: why | specs |", "|---|---|"]
    for why in dict.fromkeys(by_name.values()):
        names = [name for name, reason in by_name.items() if reason == why]
        rows.append(f"| {why} | {'<br>'.join(names)} |")
    return [*rows, ""]


def written(page: str) -> str:
    """The page with the section as it must be."""
    head, _, rest = page.partition(BEGIN)
    return head + BEGIN + section(passing(), exceptions()) + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
