"""The name of a node's Queue, which is made of the path of the node."""

from __future__ import annotations

from fleet.values.names import subdomain_problems

_PREFIX_MAX = 58
_SUFFIX = "xxxxx"  # stands for the letters that are put behind the prefix
_RULE = (
    "the name of its Queue is made of it: ASCII letters, digits, '-', '_' and '.', with a letter or digit at its begin"
    " and end and beside each '.'"
)


def queue_prefix(path: str) -> str:
    """`generateName` of a node's Queue: "root/child_2" -> "root-child-2-". Its last 58 characters with the dash."""
    name = path.lower().replace("/", "-").replace("_", "-")
    return name[-(_PREFIX_MAX - 1) :].lstrip("-.") + "-"


def queue_problem(path: str) -> str:
    """The rule that the node breaks so that no Queue can be made of it; "" for none."""
    return _RULE if subdomain_problems(queue_prefix(path) + _SUFFIX) else ""
