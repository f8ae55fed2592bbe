"""The library of Kubernetes for addresses and networks."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from fleet.values.cel.types import CIDR, IP, Type
from fleet.values.cel.values import NO_OVERLOAD, Evaluation, NoValue

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


@dataclass(frozen=True, slots=True)
class IPValue:
    TYPE: ClassVar[Type] = IP
    address: _Address

    def __str__(self) -> str:
        return str(self.address)


@dataclass(frozen=True, slots=True)
class CIDRValue:
    """`address` may have bits behind the prefix."""

    TYPE: ClassVar[Type] = CIDR
    address: _Address
    bits: int

    def __str__(self) -> str:
        return f"{self.address}/{self.bits}"

    @property
    def network(self) -> _Network:
        return ipaddress.ip_network(f"{self.address}/{self.bits}", strict=False)

    @property
    def bytes(self) -> int:
        return -(-self.bits // 8)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _address(text: str) -> _Address:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        problem = f"ParseAddr({_quoted(text)}): unable to parse IP"
        raise NoValue(f"IP Address {_quoted(text)} parse error during conversion from string: {problem}") from None
    if "%" in text:
        raise NoValue(f"IP address {_quoted(text)} with zone value is not allowed")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise NoValue(f"IPv4-mapped IPv6 address {_quoted(text)} is not allowed")
    return address


def _text(run: Evaluation, value: Any) -> str:
    if type(value) is not str:
        raise NoValue(NO_OVERLOAD)
    run.traverse(len(value))
    return value


def ip(run: Evaluation, value: Any) -> IPValue:
    if type(value) is CIDRValue:
        run.spend(1)
        return IPValue(value.address)
    return IPValue(_address(_text(run, value)))


def is_ip(run: Evaluation, value: Any) -> bool:
    try:
        _address(_text(run, value))
    except NoValue:
        return False
    return True


def is_canonical(run: Evaluation, value: Any) -> bool:
    run.traverse(len(value))
    text = _text(run, value)
    return str(_address(text)) == text


def cidr(run: Evaluation, value: Any) -> CIDRValue:
    text = _text(run, value)
    address, slash, bits = text.partition("/")
    try:
        if not slash or not bits.isascii() or not bits.isdigit() or (bits[0] == "0" and bits != "0") or "%" in text:
            raise ValueError
        host = ipaddress.ip_address(address)
        if int(bits) > host.max_prefixlen:
            raise ValueError
    except ValueError:
        problem = f"netip.ParsePrefix({_quoted(text)}): no '/'" if not slash else f"netip.ParsePrefix({_quoted(text)})"
        raise NoValue(f"network address parse error during conversion from string: {problem}") from None
    if isinstance(host, ipaddress.IPv6Address) and host.ipv4_mapped is not None:
        raise NoValue(f"IPv4-mapped IPv6 address {_quoted(text)} is not allowed")
    return CIDRValue(host, int(bits))


def is_cidr(run: Evaluation, value: Any) -> bool:
    try:
        cidr(run, value)
    except NoValue:
        return False
    return True


def contains_ip(run: Evaluation, network: Any, other: Any) -> bool:
    run.traverse(2 * network.bytes)
    address = _address(_text(run, other)) if type(other) is str else other.address
    return address in network.network


def contains_cidr(run: Evaluation, network: Any, other: Any) -> bool:
    run.traverse(3 * network.bytes)
    run.spend(1)
    inner = cidr(run, other) if type(other) is str else other
    return (
        inner.address.version == network.address.version
        and inner.bits >= network.bits
        and inner.address in network.network
    )


def masked(run: Evaluation, network: Any) -> CIDRValue:
    return CIDRValue(network.network.network_address, network.bits)


def prefix_length(run: Evaluation, network: Any) -> int:
    return int(network.bits)


def family(run: Evaluation, value: Any) -> int:
    return int(value.address.version)


def _asked(test: Callable[[_Address], bool]) -> Callable[[Evaluation, Any], bool]:
    def ask(run: Evaluation, value: Any) -> bool:
        if type(value) is not IPValue:
            raise NoValue(NO_OVERLOAD)
        return test(value.address)

    return ask


def _link_local_unicast(address: _Address) -> bool:
    return address.is_link_local and not address.is_multicast


def _link_local_multicast(address: _Address) -> bool:
    return any(address in network for network in _LOCAL_MULTICAST)


def _global_unicast(address: _Address) -> bool:
    if address.version == 4 and int(address) == 0xFFFFFFFF:
        return False
    return not (address.is_unspecified or address.is_loopback or address.is_multicast or _link_local_unicast(address))


NETWORK: dict[str, tuple[Callable[..., Any], int]] = {
    "ip": (ip, 0),
    "isIP": (is_ip, 0),
    "ip.isCanonical": (is_canonical, 0),
    "cidr": (cidr, 0),
    "isCIDR": (is_cidr, 0),
    "containsIP": (contains_ip, 0),
    "containsCIDR": (contains_cidr, 0),
    "masked": (masked, 1),
    "prefixLength": (prefix_length, 1),
    "family": (family, 1),
    "isUnspecified": (_asked(lambda at: at.is_unspecified), 1),
    "isLoopback": (_asked(lambda at: at.is_loopback), 1),
    "isLinkLocalMulticast": (_asked(_link_local_multicast), 1),
    "isLinkLocalUnicast": (_asked(_link_local_unicast), 1),
    "isGlobalUnicast": (_asked(_global_unicast), 1),
}
