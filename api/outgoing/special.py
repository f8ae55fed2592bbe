"""Addresses of a special purpose: the IANA registries for IPv4 (RFC 6890 and its updates) and for IPv6, as data.

The longest prefix that has the address decides. An entry says whether the address is reachable from the whole public
network; "not applicable" in a registry is no. The registries leave out what is no address of one machine (multicast)
and what was never given out, which stand here, too: of IPv6 only 2000::/3 is given out.
"""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Network, globally reachable, purpose, source.
IPV4 = (
    ("0.0.0.0/0", True, "the public network", "RFC 791"),
    ("0.0.0.0/8", False, "this network", "RFC 791"),
    ("10.0.0.0/8", False, "private use", "RFC 1918"),
    ("100.64.0.0/10", False, "shared address space", "RFC 6598"),
    ("127.0.0.0/8", False, "loopback", "RFC 1122"),
    ("169.254.0.0/16", False, "link-local", "RFC 3927"),
    ("172.16.0.0/12", False, "private use", "RFC 1918"),
    ("192.0.0.0/24", False, "IETF protocol assignments", "RFC 6890"),
    ("192.0.0.9/32", True, "port control protocol anycast", "RFC 7723"),
    ("192.0.0.10/32", True, "relays around NAT anycast", "RFC 8155"),
    ("192.0.2.0/24", False, "documentation", "RFC 5737"),
    ("192.31.196.0/24", True, "AS112", "RFC 7535"),
    ("192.52.193.0/24", True, "automatic multicast tunnelling", "RFC 7450"),
    ("192.88.99.0/24", False, "6to4 relay anycast, deprecated", "RFC 7526"),
    ("192.168.0.0/16", False, "private use", "RFC 1918"),
    ("192.175.48.0/24", True, "AS112, direct delegation", "RFC 7534"),
    ("198.18.0.0/15", False, "benchmarking", "RFC 2544"),
    ("198.51.100.0/24", False, "documentation", "RFC 5737"),
    ("203.0.113.0/24", False, "documentation", "RFC 5737"),
    ("224.0.0.0/4", False, "multicast", "RFC 5771"),
    ("240.0.0.0/4", False, "reserved, and limited broadcast", "RFC 1112, RFC 8190"),
)
IPV6 = (
    ("::/0", False, "not given out", "RFC 4291"),
    ("2000::/3", True, "the public network", "RFC 4291"),
    ("::/128", False, "unspecified", "RFC 4291"),
    ("::1/128", False, "loopback", "RFC 4291"),
    ("::/96", False, "IPv4-compatible, deprecated", "RFC 4291"),
    ("::ffff:0:0/96", False, "IPv4-mapped", "RFC 4291"),
    ("64:ff9b::/96", True, "translation from IPv4", "RFC 6052"),
    ("64:ff9b:1::/48", False, "translation from IPv4, local", "RFC 8215"),
    ("100::/64", False, "discarded", "RFC 6666"),
    ("100:0:0:1::/64", False, "dummy", "RFC 9780"),
    ("2001::/23", False, "IETF protocol assignments", "RFC 2928"),
    ("2001::/32", False, "Teredo, which leads into IPv4", "RFC 4380"),
    ("2001:1::1/128", True, "port control protocol anycast", "RFC 7723"),
    ("2001:1::2/128", True, "relays around NAT anycast", "RFC 8155"),
    ("2001:1::3/128", True, "service registration anycast", "RFC 9665"),
    ("2001:2::/48", False, "benchmarking", "RFC 5180"),
    ("2001:3::/32", True, "automatic multicast tunnelling", "RFC 7450"),
    ("2001:4:112::/48", True, "AS112", "RFC 7535"),
    ("2001:10::/28", False, "identifiers of hosts, deprecated", "RFC 4843"),
    ("2001:20::/28", True, "identifiers of hosts", "RFC 7343"),
    ("2001:30::/28", True, "identifiers of drones", "RFC 9374"),
    ("2001:db8::/32", False, "documentation", "RFC 3849"),
    ("2002::/16", False, "6to4, which leads into IPv4", "RFC 3056"),
    ("2620:4f:8000::/48", True, "AS112, direct delegation", "RFC 7534"),
    ("3fff::/20", False, "documentation", "RFC 9637"),
    ("5f00::/16", False, "segments of routes", "RFC 9602"),
    ("fc00::/7", False, "unique local", "RFC 4193"),
    ("fe80::/10", False, "link-local", "RFC 4291"),
    ("fec0::/10", False, "site-local, deprecated", "RFC 3879"),
    ("ff00::/8", False, "multicast", "RFC 4291"),
)
# Services of clouds about their machines that have no link-local address.
METADATA = frozenset(map(ipaddress.ip_address, ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254")))
# IPv6 networks whose last 32 bits are the IPv4 address that is meant.
_EMBEDDED = tuple(map(ipaddress.IPv6Network, ("::ffff:0:0/96", "64:ff9b::/96")))


def _longest_first(entries: tuple[tuple[str, bool, str, str], ...]) -> tuple[tuple[Network, bool], ...]:
    read: list[tuple[Network, bool]] = [(ipaddress.ip_network(text), reachable) for text, reachable, _, _ in entries]
    return tuple(sorted(read, key=lambda entry: -entry[0].prefixlen))


_BY_LENGTH = {4: _longest_first(IPV4), 6: _longest_first(IPV6)}


def plain(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, else the address itself."""
    if isinstance(address, ipaddress.IPv6Address) and any(address in network for network in _EMBEDDED):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def public(address: Address) -> bool:
    """Whether the address belongs to one machine of the public network."""
    meant = plain(address)
    return meant not in METADATA and next(
        reachable for network, reachable in _BY_LENGTH[meant.version] if meant in network
    )
