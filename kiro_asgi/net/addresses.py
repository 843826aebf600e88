"""Which addresses of the network are public, and so nobody's own.

What a name resolves to may be this machine, a neighbour in its network, or the service of a cloud that hands out
credentials to whoever asks from within.  Everything is refused that is not certainly a public unicast address.

Sources: https://www.iana.org/assignments/iana-ipv4-special-registry,
https://www.iana.org/assignments/iana-ipv6-special-registry
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

__all__ = ["is_public"]

_NOT_PUBLIC_4: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",  # carrier-grade NAT; 100.100.100.200 is Alibaba's metadata service
            "127.0.0.0/8",
            "168.63.129.16/32",  # Azure's own service, public by number only
            "169.254.0.0/16",  # link-local; 169.254.169.254 is the metadata service of most clouds
            "172.16.0.0/12",
            "192.0.0.0/24",  # 192.0.0.192 is Oracle's metadata service
            "192.0.2.0/24",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "192.175.48.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/3",  # multicast, reserved, broadcast
        ),
    )
)

_UNICAST_6: Final = IPv6Network("2000::/3")
"""All that is assigned as global unicast; loopback, link-local, unique local and multicast lie outside."""

_NOT_PUBLIC_6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments; Teredo, which holds an IPv4 address, among them
            "2001:db8::/32",
            "2002::/16",  # 6to4: holds an IPv4 address, which may be anybody's
            "2620:4f:8000::/48",
            "3fff::/20",
        ),
    )
)

_NAT64: Final = IPv6Network("64:ff9b::/96")
"""Where networks without IPv4 put the public addresses of it: https://www.rfc-editor.org/rfc/rfc6052"""


def is_public(address: str) -> bool:
    """Whether *address*, as a resolver gives it, is a public unicast address; what is no address is not."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address):
        parsed = _embedded(parsed)
    if isinstance(parsed, IPv4Address):
        return not any(parsed in network for network in _NOT_PUBLIC_4)
    return parsed in _UNICAST_6 and not any(parsed in network for network in _NOT_PUBLIC_6)


def _embedded(address: IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that is meant by *address*, where one is reached through it."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address
