"""The addresses that a request of the hub may go to."""

from __future__ import annotations

import ipaddress

import pytest

from api.outgoing.allowlist import AllowList
from api.outgoing.special import IPV4, IPV6, plain, public

PUBLIC = [
    "8.8.8.8",
    "2600:1900::1",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "192.0.0.9",
    "192.0.1.1",
    "198.20.0.1",
    "2001:200::1",
    "2001:1::1",
    "2001:4:112::1",
]
INSIDE = [
    "127.0.0.1",
    "127.9.9.9",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "224.0.0.1",
    "239.255.255.250",
    "255.255.255.255",
    "240.0.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "::",
    "::1",
    "fe80::1",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
    "2001:db8::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2001:0:7f00:1::",
    "192.0.0.1",
    "192.0.0.170",
    "192.0.0.192",
    "192.88.99.1",
    "198.19.255.255",
    "::ffff:192.0.0.8",
    "fec0::1",
    "feff::1",
    "64:ff9b:1::808:808",
    "64:ff9b::c612:1",
    "100::1",
    "100:0:0:1::1",
    "2001:5::1",
    "2001:1ff::1",
    "168.63.129.16",
    "3fff::1",
    "5f00::1",
    "4000::1",
    "::ffff:0:8.8.8.8",
    "::8.8.8.8",
    "2002:808:808::1",
    "fc00:ffff::1",
]


@pytest.mark.parametrize("text", PUBLIC)
def test_an_address_of_the_public_network_is_public(text: str) -> None:
    assert public(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", INSIDE)
def test_an_address_of_a_network_within_is_not_public_in_any_spelling(text: str) -> None:
    assert not public(ipaddress.ip_address(text))


@pytest.mark.parametrize(("text", "reachable", "purpose", "source"), [*IPV4, *IPV6])
def test_both_ends_of_a_network_are_as_the_registry_says(text: str, reachable: bool, purpose: str, source: str) -> None:
    network = ipaddress.ip_network(text)
    inner = [ipaddress.ip_network(other) for other, _, _, _ in (*IPV4, *IPV6) if other != text]
    for end in (network[0], network[-1]):
        longer = any(end in other and other.prefixlen > network.prefixlen for other in inner)
        if not longer and plain(end) == end:  # else another entry decides
            assert public(end) is reachable, (end, purpose, source)


@pytest.mark.parametrize(
    ("entry", "host", "port", "address", "permitted"),
    [
        ("10.0.0.0/8", "hooks.corp", 443, "10.1.2.3", True),
        ("10.0.0.0/8", "hooks.corp", 443, "::ffff:10.1.2.3", True),
        ("10.0.0.0/8", "hooks.corp", 443, "11.1.2.3", False),
        ("10.0.0.0/8", "hooks.corp", 443, "fd00::1", False),
        ("10.1.2.3", "10.1.2.3", 9443, "10.1.2.3", True),
        ("10.1.2.3:9443", "hooks.corp", 9443, "10.1.2.3", True),
        ("10.1.2.3:9443", "hooks.corp", 443, "10.1.2.3", False),
        ("fd00::/8", "hooks.corp", 443, "fd00::1", True),
        ("[fd00::1]:9443", "hooks.corp", 9443, "fd00::1", True),
        ("[fd00::1]:9443", "hooks.corp", 443, "fd00::1", False),
        ("hooks.corp", "hooks.corp", 443, "10.1.2.3", True),
        ("Hooks.Corp:9443", "hooks.corp", 9443, "127.0.0.1", True),
        ("hooks.corp:9443", "hooks.corp", 443, "10.1.2.3", False),
        ("hooks.corp", "other.hooks.corp", 443, "10.1.2.3", False),
        ("hooks.corp", "hooks.corp", 443, "169.254.169.254", False),
        ("hooks.corp", "hooks.corp", 443, "0.0.0.0", False),
        ("hooks.corp", "hooks.corp", 443, "fd00:ec2::254", False),
        ("hooks.corp", "hooks.corp", 443, "::ffff:100.100.100.200", False),
        ("169.254.169.254", "hooks.corp", 443, "169.254.169.254", True),
    ],
)
def test_the_list_permits_what_it_names(entry: str, host: str, port: int, address: str, permitted: bool) -> None:
    assert AllowList.parse([entry]).permits(host, port, ipaddress.ip_address(address)) is permitted


@pytest.mark.parametrize(
    "text", ["", ":443", "host:0", "host:65536", "host:x", "https://host", "10.0.0.0/33", "a b", "user@host", "[::1"]
)
def test_an_entry_that_names_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="neither a network nor HOST"):
        AllowList.parse([text])
