"""`kubectl amc logs`: the output of a pod in one member, through the hub's proxy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from fleet.amc.client import Client, StreamRefusal
from fleet.amc.get import CommandRefusal, proxy


@dataclass(frozen=True)
class LogQuery:
    """Which pod's log. `container` "": its first. `tail` None: all of it."""

    pod: str
    member: str
    namespace: str
    container: str = ""
    tail: int | None = None
    previous: bool = False
    timestamps: bool = False
    follow: bool = False


def logs(client: Client, query: LogQuery) -> Iterator[bytes]:
    """The log, as it comes. Raises NoAnswer, and CommandRefusal with the member's answer as one line."""
    parameters = {
        "container": query.container,
        "tailLines": "" if query.tail is None else str(query.tail),
        "previous": "true" if query.previous else "",
        "timestamps": "true" if query.timestamps else "",
        "follow": "true" if query.follow else "",
    }
    given = urlencode({name: value for name, value in parameters.items() if value})
    pod = quote(query.pod.removeprefix("pod/").removeprefix("pods/"), safe="")
    path = f"{proxy(query.member)}/api/v1/namespaces/{quote(query.namespace, safe='')}/pods/{pod}/log"
    try:
        yield from client.stream(f"{path}?{given}" if given else path)
    except StreamRefusal as refused:
        raise CommandRefusal(f"cluster({query.member}): {' '.join(str(refused).split())}") from refused
