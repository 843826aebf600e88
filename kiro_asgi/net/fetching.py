"""Fetching files that requests name by address: from hosts that the operator allows, and from no others.

A client that has the gateway fetch an address must not reach through it what it could not reach itself
(server-side request forgery).  The rules, each of which holds for every request that goes out:

- ``https`` to a host that `Fetcher.allow` names, at the port that it names, or 443; no user, no password.
- All addresses of the name must be public.  The connection goes to an address that was looked at: the name is not
  resolved a second time, so it cannot mean another place by then.  TLS proves that the host is the one that is named.
- A redirect is followed to the same host and port only.
- Nothing is sent that could be a credential; no cookie is kept, no proxy used, no environment read.
- Bytes, seconds, redirects and connections are bounded; of connections and of lookups each client has a share.

Source: https://cheatsheetseries.owasp.org/cheatsheets/Server_Side_Request_Forgery_Prevention_Cheat_Sheet.html
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, urljoin, urlsplit

import anyio
from attrs import define, field, frozen

from kiro_asgi.errors import KiroAsgiError, RequestError, TooBusy
from kiro_asgi.limits import FETCH_ADDRESS_CHARACTERS, FETCH_CONNECTIONS, FETCH_REDIRECTS, FETCHES_AT_ONCE
from kiro_asgi.loops import PerLoop
from kiro_asgi.net.lookups import OWNER, Shares
from kiro_asgi.net.transport import Headers, StopReading, Transport
from kiro_asgi.upstreams.base import UpstreamRequest

if TYPE_CHECKING:
    import httpcore

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""All addresses of a host, for a port.  Raises `OSError` where it has none."""

Permits = Callable[[str], bool]
"""Whether an address may be connected to."""

_HTTPS: Final = 443

_HOST: Final = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")
_PRINTABLE: Final = re.compile(r"[!-~]+")

_REDIRECTS: Final = (301, 302, 303, 307, 308)

_SHOWN: Final = 100
"""Characters of a host's name that a message shows."""

_TRIED: Final = 3
"""Addresses of one host that are tried, one after the other."""


class CheckedBackend:
    """A network backend that resolves names itself, and connects to an address that it has looked at."""

    __slots__ = ("_inner", "_permits", "_resolve")

    def __init__(self, inner: httpcore.AsyncNetworkBackend, resolve: Resolve, permits: Permits) -> None:
        self._inner = inner
        self._resolve = resolve
        self._permits = permits

    async def connect_tcp(self, host: str, port: int, *args: Any, **kwargs: Any) -> httpcore.AsyncNetworkStream:
        """A stream to one of the addresses of *host*.

        Raises:
            RequestError: It has none, or one that is not permitted: a name with both public and other
                addresses is not trusted with either.
        """
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError):
            addresses = ()
        if not addresses:
            raise RequestError("there is no such host")
        if not all(map(self._permits, addresses)):
            raise RequestError("one of its addresses is not public, and only public ones are fetched from")
        *others, last = addresses[:_TRIED]
        for address in others:
            try:
                return await self._inner.connect_tcp(address, port, *args, **kwargs)
            except Exception:  # noqa: BLE001 - the last address reports
                continue
        return await self._inner.connect_tcp(last, port, *args, **kwargs)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._inner.sleep(seconds)


@frozen
class Fetched:
    """A fetched file."""

    media_type: str
    """As the host reports it, lower case and without parameters; empty where it does not."""

    content: bytes = field(repr=False)


@define(kw_only=True)
class Fetcher:
    """Fetches for requests: of what one of them names, `FETCHES_AT_ONCE` side by side."""

    allow: tuple[str, ...] = ()
    """Hosts, as in ``fetch.allow``."""

    max_bytes: int = 10 * 1024 * 1024
    """Largest file."""

    timeout: float = 10.0
    """Seconds for everything that one request names, from the first name that is resolved to the last byte."""

    user_agent: str = "kiro-asgi"
    _transport: Transport
    _shares: PerLoop[Shares] = field(
        init=False, factory=lambda: PerLoop(lambda: Shares(FETCH_CONNECTIONS, FETCHES_AT_ONCE)), repr=False
    )

    def allows(self, url: str) -> bool:
        """Whether *url* is at a host, and a port, that may be asked; it may be refused for other reasons."""
        try:
            parts = urlsplit(url)
            host, port = _place(parts)
        except ValueError:
            return False
        return bool(_HOST.fullmatch(host)) and any(_matches(pattern, host, port) for pattern in self.allow)

    async def fetch(self, places: Mapping[str, str], hold: Callable[[int], None]) -> Mapping[str, Fetched]:
        """Fetch each address.

        Args:
            places: Addresses that are allowed, and where each stands in the client's request.
            hold: Called with the bytes that the result takes in a request, before more are read.

        Raises:
            RequestError: One of them does not arrive in time, is too large, or must not be fetched.
            TooBusy: There is no room, or no connection, for it now.
        """
        found: dict[str, Fetched] = {}
        failures: list[KiroAsgiError] = []

        async def one(url: str) -> None:
            try:
                async with self._shares.here().place(OWNER.get()):
                    found[url] = await self._fetch(url, hold)
            except KiroAsgiError as error:
                failures.append(_failed(error, url, places[url]))
                group.cancel_scope.cancel()

        with anyio.move_on_after(self.timeout):
            async with anyio.create_task_group() as group:
                for url in places:
                    group.start_soon(one, url)
        if failures:
            raise failures[0]
        if late := next((url for url in places if url not in found), ""):
            raise _failed(RequestError(f"it took more than {self.timeout:g} s (fetch.timeout)"), late, places[late])
        return found

    async def aclose(self) -> None:
        """Close the idle connections of the running event loop."""
        await self._transport.aclose()

    async def _fetch(self, url: str, hold: Callable[[int], None]) -> Fetched:
        place = _readable(url)
        for _ in range(FETCH_REDIRECTS + 1):
            reader = _FileReader(self.max_bytes, hold)
            await self._transport.fetch(UpstreamRequest("GET", place, self._headers()), reader, patience=None)
            if reader.status not in _REDIRECTS:
                return reader.fetched()
            further = _readable(_joined(place, reader.header(b"location")))
            if _place(urlsplit(further)) != _place(urlsplit(place)):
                raise RequestError("it redirects to another host")
            place = further
        raise RequestError(f"more than {FETCH_REDIRECTS} redirects")

    def _headers(self) -> tuple[tuple[bytes, bytes], ...]:
        # Each connection is made for one file: one that is kept may be closed by its host just when it is reused.
        ours = ((b"User-Agent", self.user_agent.encode("latin-1", "replace")), (b"Connection", b"close"))
        return (*ours, (b"Accept", b"*/*"), (b"Accept-Encoding", b"identity"))


@define
class _FileReader:
    """Reads a file, up to a limit; of any other answer nothing but the head."""

    _limit: int
    _hold: Callable[[int], None]
    _held: int = field(init=False, default=0)
    status: int = field(init=False, default=0)
    _headers: Headers = field(init=False, default=())
    _body: bytearray = field(init=False, factory=bytearray, repr=False)

    def start(self) -> None:
        """Set no limit: `Fetcher.fetch` limits the time for everything together."""

    def begin(self, status: int, headers: Headers) -> None:
        self.status, self._headers = status, headers

    def take(self, chunk: bytes, /) -> None:
        self._body += chunk

    async def process(self) -> None:
        if self.status != HTTPStatus.OK:
            raise StopReading
        self._check()

    def header(self, name: bytes) -> str:
        """The first header of that name; empty where there is none."""
        return next((value for key, value in self._headers if key.lower() == name), b"").decode("latin-1").strip()

    def fetched(self) -> Fetched:
        """The file that was read.

        Raises:
            RequestError: It is not what was asked for.
        """
        if self.status != HTTPStatus.OK:
            raise RequestError(f"it answered with HTTP {self.status}")
        self._check()
        if self.header(b"content-encoding").lower() not in ("", "identity"):
            raise RequestError("it answered with compressed data")
        if not self._body:
            raise RequestError("there is nothing at it")
        return Fetched(self.header(b"content-type").partition(";")[0].strip().lower(), bytes(self._body))

    def _check(self) -> None:
        announced = self.header(b"content-length")
        if len(self._body) > self._limit or (announced.isdecimal() and int(announced[:20]) > self._limit):
            raise RequestError(f"more than {self._limit:,} bytes (fetch.max_bytes)")
        size = -(-len(self._body) // 3) * 4  # of the base64 that it becomes
        if size > self._held:
            self._hold(size - self._held)
            self._held = size


def _readable(url: str) -> str:
    """*url* in the form in which it is requested, without what is not sent to a host.

    Raises:
        RequestError: It is not to be fetched, from whatever host.
    """
    if len(url) > FETCH_ADDRESS_CHARACTERS:
        raise RequestError(f"an address of more than {FETCH_ADDRESS_CHARACTERS} characters")
    if not url:
        raise RequestError("not an address")
    if not _PRINTABLE.fullmatch(url):
        raise RequestError("an address must be ASCII without spaces; escape what is not")
    try:
        parts = urlsplit(url)
        host, port = _place(parts)
    except ValueError:
        raise RequestError("not an address") from None
    if parts.scheme != "https":
        raise RequestError("only https addresses are fetched")
    if "@" in parts.netloc:
        raise RequestError("an address with a user or a password is not fetched")
    if not _HOST.fullmatch(host) or not port:
        raise RequestError("not an address of a host")
    authority = host if port == _HTTPS else f"{host}:{port}"
    return f"https://{authority}{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"


def _joined(url: str, location: str) -> str:
    """The target of a redirect; empty where it is no address."""
    try:
        return urljoin(url, location)
    except ValueError:
        return ""


def _place(parts: SplitResult) -> tuple[str, int]:
    """Host, lower case, and port.

    Raises:
        ValueError: The port is none.
    """
    port = parts.port
    return (parts.hostname or "").removesuffix("."), _HTTPS if port is None else port


def _matches(pattern: str, host: str, port: int) -> bool:
    name, _, named = pattern.lower().partition(":")
    if port != (int(named) if named else _HTTPS):
        return False
    return host.endswith(name[1:]) if name.startswith("*.") else host == name


def _failed(error: KiroAsgiError, url: str, place: str) -> KiroAsgiError:
    """The error for the client about *url*, which stands at *place*."""
    if isinstance(error, TooBusy):
        return error
    host = (urlsplit(url).hostname or "")[:_SHOWN]
    reason = error.message if isinstance(error, RequestError) else "the host cannot be reached, or broke off"
    return RequestError(f"{place}: not fetched from {host}: {reason}", code="invalid_value", param=place)


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
            "2002::/16",  # 6to4: holds an IPv4 address, which may be any
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
