"""Which addresses may be connected to for a client."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiro_asgi.net.fetching import is_public

INNER = (
    *("127.0.0.1", "127.255.255.254", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
    *("169.254.169.254", "169.254.0.1", "100.64.0.1", "100.127.255.255", "100.100.100.200", "192.0.0.192"),
    *("168.63.129.16", "192.0.2.1", "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.9", "192.88.99.1"),
    *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
)
PUBLIC = ("1.1.1.1", "8.8.8.8", "93.184.216.34", "172.32.0.1", "100.128.0.1", "192.167.255.255", "223.255.255.254")


@pytest.mark.parametrize("address", INNER)
def test_what_is_somebodys_own_is_refused(address: str) -> None:
    """In every form in which IPv6 can hold it."""
    number = int(IPv4Address(address))
    forms = (
        address,
        f"::ffff:{address}",
        str(IPv6Address(number)),  # IPv4-compatible
        str(IPv6Address((0x0064_FF9B << 96) | number)),  # NAT64
        str(IPv6Address((0x0064_FF9B_0001 << 80) | number)),  # a network's own NAT64
        str(IPv6Address((0x2002 << 112) | (number << 80) | 1)),  # 6to4
        str(IPv6Address((0x2001_0000 << 96) | (number ^ 0xFFFF_FFFF))),  # Teredo
    )
    assert not any(map(is_public, forms))


@pytest.mark.parametrize("address", PUBLIC)
def test_what_is_public_is_taken(address: str) -> None:
    """Through IPv6 too, where that only means the same; not through a tunnel."""
    number = int(IPv4Address(address))
    assert is_public(address)
    assert is_public(f"::ffff:{address}")
    assert is_public(str(IPv6Address((0x0064_FF9B << 96) | number)))
    assert not is_public(str(IPv6Address((0x2002 << 112) | (number << 80) | 1)))


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("2606:4700:4700::1111", True),
        ("2a00:1450:4001:82a::200e", True),
        ("::", False),
        ("::1", False),
        ("fe80::1", False),
        ("fe80::1%eth0", False),
        ("2606:4700::1%eth0", True),
        ("fc00::1", False),
        ("fd00:ec2::254", False),
        ("ff02::1", False),
        ("2001:db8::1", False),
        ("3fff::1", False),
        ("fec0::1", False),
        ("4000::1", False),
        ("", False),
        ("localhost", False),
        ("127.1", False),
        ("0x7f000001", False),
        ("2130706433", False),
        ("1.1.1.1 ", False),
    ],
)
def test_ipv6_and_what_is_no_address(address: str, public: bool) -> None:
    """Only what is assigned as global unicast."""
    assert is_public(address) is public


@given(st.ip_addresses())
def test_nothing_is_public_that_the_library_knows_to_be_private(address: IPv4Address | IPv6Address) -> None:
    """The table is at least as strict as the standard library's."""
    if address.is_private or address.is_loopback or address.is_link_local or address.is_multicast:
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        assert mapped is not None or not is_public(str(address))
