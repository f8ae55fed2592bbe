"""The addresses that an outgoing request may reach: those of the public network, and an administrator's list.

A user who names a server for the hub to call must not reach what only the hub can reach: its database, the metadata
service of its cloud, the network behind its firewall.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from api.outgoing.special import METADATA, Address, Network, plain
from fleet.values.untyped import digits

_PORT_MAX = 65535


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry of the list: a network, or the name of a host. `port` None: all ports."""

    network: Network | None
    host: str
    port: int | None

    def permits(self, host: str, port: int, address: Address) -> bool:
        if self.port not in (None, port):
            return False
        if self.network is not None:
            return address.version == self.network.version and address in self.network
        # A name is its owner's, who may let it stand for anything: for the metadata service of a cloud, for instance.
        machine = not (address.is_link_local or address.is_multicast or address.is_unspecified)
        return host == self.host and machine and address not in METADATA


@dataclass(frozen=True, slots=True)
class AllowList:
    """The administrator's list. Empty: public addresses alone, without the hub's own."""

    entries: tuple[_Entry, ...] = ()

    @classmethod
    def parse(cls, texts: Iterable[str]) -> AllowList:
        """CIDR, or HOST with an optional :PORT; ValueError says which text is neither."""
        return cls(tuple(_entry(text.strip()) for text in texts))

    def permits(self, host: str, port: int, address: Address) -> bool:
        """`host`: the name or address that the URL has, in lower case; `address`: the one that the host stands for."""
        return any(entry.permits(host, port, plain(address)) for entry in self.entries)


def _entry(text: str) -> _Entry:
    network = _network(text)
    if network is not None:
        return _Entry(network, "", None)
    host, separator, after = text.rpartition(":")
    port = digits(after) if separator else None
    if separator and (port is None or not 0 < port <= _PORT_MAX):
        raise ValueError(f"{text!r} is neither a network nor HOST or HOST:PORT")
    host = host if separator else text
    network = _network(host.removeprefix("[").removesuffix("]"))
    if network is not None:
        return _Entry(network, "", port)
    if not host or any(character in "/[]@:%? " for character in host):
        raise ValueError(f"{text!r} is neither a network nor HOST or HOST:PORT")
    return _Entry(None, host.lower().rstrip("."), port)


def _network(text: str) -> Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
