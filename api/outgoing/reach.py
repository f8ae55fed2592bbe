"""From the name of a host to the addresses to connect to: looked up once, checked, and handed to the connection.

The connection gets the checked address and looks nothing up, so that a name cannot mean one address in the check and
another one a moment later.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import psutil
from aiohttp.abc import AbstractResolver, ResolveResult

from api.outgoing.allowlist import AllowList
from api.outgoing.errors import OutgoingError, Reason
from api.outgoing.special import Address, plain, public

LOOKUPS_MAX = 16  # at once; a name server that is slow keeps other work of the process waiting for none of them
_NUMBERS = re.compile(r"(0x[0-9a-f]*|\d+)", re.IGNORECASE)

Resolver = Callable[[str, int], Awaitable[list[str]]]  # host and port -> addresses


class Reach(AbstractResolver):
    """The resolver of the connections: the addresses of a host that a request may go to."""

    def __init__(self, allowed: AllowList, resolver: Resolver | None = None) -> None:
        self._allowed = allowed
        self._resolver = resolver or self._looked_up
        self._threads: ThreadPoolExecutor | None = None

    def stop(self) -> None:
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)

    async def close(self) -> None:
        self.stop()

    def check_literal(self, host: str, port: int) -> None:
        """OutgoingError for a host that is an address which no request may go to, or that looks like one."""
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            # Resolvers take 2130706433, 0x7f.1 and 127.1 for addresses.
            if _NUMBERS.fullmatch(host.rstrip(".").rpartition(".")[2]) or "%" in host:
                raise OutgoingError(Reason.REFUSED, "its host is neither a name nor a plain address") from None
            return
        if not self._permits(host, port, address):
            raise _refused()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = [ipaddress.ip_address(text.partition("%")[0]) for text in await self._resolver(host, port)]
        permitted = [address for address in found if self._permits(host.lower().rstrip("."), port, address)]
        if found and not permitted:
            raise _refused()
        if not found:
            raise OSError(f"{host} has no address")
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                proto=0,
                flags=socket.AI_NUMERICHOST,
                family=socket.AF_INET if address.version == 4 else socket.AF_INET6,
            )
            for address in permitted
        ]

    def _permits(self, host: str, port: int, address: Address) -> bool:
        if self._allowed.permits(host, port, address):
            return True
        return public(address) and plain(address) not in _own()

    async def _looked_up(self, host: str, port: int) -> list[str]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(LOOKUPS_MAX, thread_name_prefix="names")
        found = await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _own() -> set[Address]:
    """The addresses of this machine, which may have public ones."""
    found: set[Address] = set()
    for addresses in psutil.net_if_addrs().values():
        for entry in addresses:
            if entry.family in (socket.AF_INET, socket.AF_INET6):
                found.add(plain(ipaddress.ip_address(entry.address.partition("%")[0])))
    return found


def _refused() -> OutgoingError:
    return OutgoingError(Reason.REFUSED, "its address is not public, and the administrator does not allow it")
