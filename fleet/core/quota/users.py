"""Limits per user below a node of the tree, read from the node's attributes.

A cap is one more node on the way up from the work to the root: the usage of one user below the capping node counts
there, and the cap binds it as a node's `max` does. The hub names the user, since it notes the authenticated creator of
each job. Work without a user (`user` "") is capped by nothing but the tree.

An account names the leaf, and the user where some node of the leaf's line caps users: "root/vision//alice". Names of
nodes are never empty and hold no slash, so the two slashes are always the seam.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.core.quota.attributes import amounts, json_object
from fleet.core.quota.waiting import MAX_WAITING, WaitingLimit
from fleet.values.quantity import BadQuantity

USER_MAX = "fleet.io/user-max"  # of every user: {"nvidia.com/gpu": 8, "kube-queue/max-jobs": 2}
USER_MAX_BY_NAME = "fleet.io/user-max-by-name"  # instead of it, of some: {"alice": {"nvidia.com/gpu": 16}}
SEAM = "//"
_EXAMPLE = '{"nvidia.com/gpu": 8}'
_EXAMPLE_BY_NAME = '{"alice": {"nvidia.com/gpu": 8}}'


@dataclass(frozen=True, slots=True)
class UserCaps:
    """`each` user's limits by resource, in base units, and those of users in `by_name`, which stand instead of it. A
    resource that neither names is unlimited."""

    each: Mapping[str, int] = field(default_factory=dict)
    by_name: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def of(self, user: str) -> Mapping[str, int]:
        return self.by_name.get(user, self.each) if user else {}


def user_caps(attributes: Mapping[str, str]) -> UserCaps | None:
    """The caps that a node's attributes set; None without any. Raises BadQuantity, which begins with the attribute."""
    caps = _given(attributes)
    if caps is None:
        return None
    each, named = _charged(caps.each), {user: _charged(limits) for user, limits in caps.by_name.items()}
    return UserCaps(each, named) if each or any(named.values()) else None


def waiting_limits(attributes: Mapping[str, str], most: int | None) -> tuple[WaitingLimit, ...]:
    """How many jobs may wait below a node with these attributes; `most`: as its max says. Raises BadQuantity."""
    caps = _given(attributes) or UserCaps()
    by_name = {user: limits.get(MAX_WAITING) for user, limits in caps.by_name.items()}
    limits = (WaitingLimit("max", most), WaitingLimit(USER_MAX, caps.each.get(MAX_WAITING), True, by_name))
    return tuple(limit for limit in limits if limit.binds)


def _charged(limits: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in limits.items() if name != MAX_WAITING}


def _given(attributes: Mapping[str, str]) -> UserCaps | None:
    if USER_MAX not in attributes and USER_MAX_BY_NAME not in attributes:
        return None
    each = json_object(attributes, USER_MAX, _EXAMPLE)
    by_name = json_object(attributes, USER_MAX_BY_NAME, _EXAMPLE_BY_NAME)
    for user, limits in by_name.items():
        if not user or not isinstance(limits, dict):
            raise BadQuantity(f"{USER_MAX_BY_NAME}: must be a JSON object such as {_EXAMPLE_BY_NAME}")
    return UserCaps(
        amounts(each, USER_MAX),
        {user: amounts(limits, f"{USER_MAX_BY_NAME}: {user}") for user, limits in by_name.items()},
    )


def with_cap(attributes: Mapping[str, str], user: str, resource: str, to: int) -> dict[str, str]:
    """The attributes with another limit of one user."""
    caps = _given(attributes)
    mine = {**(caps.of(user) if caps is not None else {}), resource: to}
    exact = {name: f"{amount}m" if name == "cpu" else amount for name, amount in mine.items()}
    named = {**json.loads(attributes.get(USER_MAX_BY_NAME, "{}")), user: exact}
    return {**attributes, USER_MAX_BY_NAME: json.dumps(named)}


def account(leaf: str, user: str) -> str:
    """Where work of a leaf is charged when its line caps users and `user` is known."""
    return f"{leaf}{SEAM}{user}"


def split(name: str) -> tuple[str, str]:
    """The node and the user ("" for none) of an account, or of a node where a user's usage is counted."""
    node, _, user = name.partition(SEAM)
    return node, user
