"""Which cluster a member is: the uid of its namespace kube-system, which a cluster keeps for as long as it lives.

Two names for one cluster would each remove what the other puts there. So the uid is read before anything else, and a
judge that knows all members judges it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fleet.members.connection import Connection, Unreachable, not_let_in
from fleet.members.texts import one_line
from fleet.values.untyped import mapping

PATH = "/api/v1/namespaces/kube-system"
NOT_THERE = (403, 404)  # answers that asking again does not change


@dataclass(frozen=True, slots=True)
class Identity:
    """`uid` is "" where the member does not show it; `unread` then says why."""

    uid: str
    unread: str = ""


# Given a member's name and its uid: None to use the member, else reason and message of the refusal.
Judge = Callable[[str, Identity], Awaitable[tuple[str, str] | None]]


async def anyone(name: str, identity: Identity) -> tuple[str, str] | None:
    """The Judge of unknown members: uses each."""
    return None


async def read_identity(connection: Connection) -> Identity:
    """Ask the member. Raises Unreachable where it gives no answer that lasts."""
    answer = await connection.request("GET", PATH)
    uid = one_line(mapping(answer.body.get("metadata")).get("uid")) if answer.ok else ""
    if uid:
        return Identity(uid)
    if answer.ok or answer.status in NOT_THERE:
        return Identity("", answer.message if not answer.ok else "its namespace kube-system has no uid")
    raise not_let_in(PATH, answer) if answer.status == 401 else Unreachable(f"{PATH}: {answer.message}")
