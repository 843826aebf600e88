"""Fetching what a request names by address: what is fetched, and what never is."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from kiro_asgi.config import FetchSettings, Settings
from kiro_asgi.errors import ConfigError, RequestError, TooBusy
from kiro_asgi.net.fetching import CheckedBackend, Fetched, Fetcher, is_public
from kiro_asgi.net.transport import Transport
from tests.net.hosts import CERTIFICATE, HOST, Host, Resolver, head, hosted, permit_loopback

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\nrest"

Make = Callable[..., Fetcher]


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    async with hosted() as running:
        yield running


@pytest.fixture
def resolver() -> Resolver:
    return Resolver()


@pytest.fixture
async def make(host: Host, resolver: Resolver, library: str) -> AsyncIterator[Make]:
    """Makes fetchers that may ask `host`."""
    made: list[Fetcher] = []

    def fetcher(permits: Callable[[str], bool] = permit_loopback, **settings: Any) -> Fetcher:
        transport = Transport(
            library=library,
            connect_timeout=2.0,
            tls=ssl.create_default_context(cafile=CERTIFICATE),
            network=lambda backend: CheckedBackend(backend, resolver, permits),
        )
        made.append(Fetcher(**{"allow": host.allowed, "transport": transport, **settings}))
        return made[-1]

    yield fetcher
    for each in made:
        await each.aclose()


def held() -> Callable[[int], None]:
    return lambda size: None


async def fetched(fetcher: Fetcher, *urls: str) -> list[Fetched]:
    found = await fetcher.fetch({url: f"at[{number}]" for number, url in enumerate(urls)}, held())
    return [found[url] for url in urls]


async def refused(fetcher: Fetcher, *urls: str) -> str:
    """What the client is told, without the place and the host."""
    with anyio.fail_after(5), pytest.raises(RequestError) as caught:
        await fetched(fetcher, *urls)
    error = caught.value
    start = f"{error.param}: not fetched from {HOST}: "
    assert (error.status, error.code, error.message[: len(start)]) == (400, "invalid_value", start)
    return error.message[len(start) :]


async def test_a_file_is_fetched(make, host, resolver):
    """Whole, with what the host says of it; nothing goes out that is anybody's credential."""
    urls = [host.serve(f"/{number}.png?a=b", PNG, "Content-Type: Image/PNG; q=1", "Set-Cookie: a=b") for number in "12"]

    assert await fetched(make(), *urls) == [Fetched("image/png", PNG)] * 2
    first = host.asked[0].lower()
    assert b"\r\nhost: img.example.test:" in first
    assert not any(name in first for name in (b"cookie", b"authorization", b"x-api-key", b"referer"))
    await fetched(make(), urls[0])
    assert b"cookie" not in host.asked[-1].lower()


@pytest.mark.unexpected("TLS handshake")
async def test_the_certificate_must_be_the_hosts(make, host, resolver):
    """An address alone proves nothing."""
    resolver.answers["other.example.test"] = [("127.0.0.1",)]
    fetcher = make(allow=(f"other.example.test:{host.port}",))
    with pytest.raises(RequestError, match=r"not fetched from other\.example\.test: the host cannot be reached"):
        await fetched(fetcher, host.url(host="other.example.test"))
    assert host.asked == []


@pytest.mark.parametrize(
    "addresses",
    [
        ("127.0.0.1",),
        ("::1",),
        ("169.254.169.254",),
        ("1.1.1.1", "127.0.0.1"),
        ("127.0.0.1", "1.1.1.1"),
        ("::ffff:127.0.0.1",),
        ("64:ff9b::7f00:1",),
        ("2002:7f00:1::1",),
        ("100.64.0.1",),
        ("fe80::1%lo",),
        ("not an address",),
    ],
)
async def test_an_address_that_is_not_public_is_not_asked(addresses, make, host, resolver):
    """One among many is enough."""
    resolver.answers[HOST] = [addresses]
    host.serve("/a.png", PNG)

    assert await refused(make(permits=is_public), host.url()) == (
        "one of its addresses is not public, and only public ones are fetched from"
    )
    assert host.asked == []


async def test_a_name_is_resolved_once_for_a_connection(make, host, resolver):
    """What is connected to is what was looked at, whatever the name means a moment later."""
    resolver.answers[HOST] = [("127.0.0.1",), ("10.0.0.1",)]
    url = host.serve("/a.png", PNG)
    fetcher = make()

    assert await fetched(fetcher, url) == [Fetched("", PNG)]
    assert resolver.asked == [HOST]
    assert "not public" in await refused(fetcher, url)
    assert (resolver.asked, len(host.asked)) == ([HOST] * 2, 1)


async def test_the_next_address_is_tried(make, host, resolver):
    """Where nothing listens at the first."""
    resolver.answers[HOST] = [("127.0.0.2", "127.0.0.1")]
    url = host.serve("/a.png", PNG)

    assert await fetched(make(permits=lambda address: True), url) == [Fetched("", PNG)]


async def test_a_host_that_is_not_known(make, host, resolver):
    """Is told as that."""
    resolver.answers.clear()
    assert await refused(make(), host.url()) == "there is no such host"
    resolver.answers[HOST] = [()]
    assert await refused(make(), host.url()) == "there is no such host"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_stays_at_its_host(status, make, host):
    """Absolute or relative."""
    host.serve("/b.png", PNG)
    host.scripts["/a"] = head(status, "Location: b.png", length=0)
    host.scripts["/c"] = head(status, f"Location: {host.url('/b.png')}", length=0)

    assert await fetched(make(), host.url("/a"), host.url("/c")) == [Fetched("", PNG)] * 2


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("https://cdn.example.test:{port}/b.png", "it redirects to another host"),
        ("https://img.example.test/b.png", "it redirects to another host"),
        ("//cdn.example.test:{port}/b.png", "it redirects to another host"),
        ("http://img.example.test:{port}/b.png", "only https addresses are fetched"),
        ("https://127.0.0.1:{port}/b.png", "it redirects to another host"),
        ("https://user@img.example.test:{port}/b.png", "an address with a user or a password is not fetched"),
        ("file:///etc/passwd", "only https addresses are fetched"),
        ("https://[::1", "not an address"),
        ("https://img.example.test:99999/", "not an address"),
        ("/a", "more than 3 redirects"),
        ("", "more than 3 redirects"),
    ],
)
async def test_a_redirect_leads_nowhere_else(location, words, make, host):
    """Though the other place is allowed, and serves it."""
    host.serve("/b.png", PNG)
    host.scripts["/a"] = head(302, f"Location: {location.format(port=host.port)}", length=0)
    fetcher = make(allow=(*host.allowed, f"*.example.test:{host.port}"))

    assert await refused(fetcher, host.url("/a")) == words
    assert not any(b" /b.png " in request for request in host.asked)


async def test_the_time_is_limited_for_all_of_it(make, host):
    """A host that says a little now and then gets no longer than one that says nothing."""

    async def drip(stream: Any) -> None:
        await stream.send(head(200, length=100_000))
        while True:
            await stream.send(b"x")
            await anyio.sleep(0.02)

    async def silence(stream: Any) -> None:
        await anyio.sleep_forever()

    host.scripts |= {"/drip": drip, "/silence": silence}
    for path in ("/drip", "/silence"):
        words = await refused(make(timeout=0.4), host.url(path))
        assert words == "it took more than 0.4 s (fetch.timeout)"


async def test_a_resolver_that_hangs_is_not_waited_for(make, host, resolver):
    """The same limit holds for names."""

    async def forever(name: str, port: int) -> list[str]:
        await anyio.sleep_forever()
        return []

    transport = Transport(network=lambda backend: CheckedBackend(backend, forever, is_public))
    fetcher = Fetcher(allow=host.allowed, timeout=0.2, transport=transport)
    assert "fetch.timeout" in await refused(fetcher, host.url())


@pytest.mark.parametrize("announced", [False, True])
async def test_a_large_file_is_not_read_to_its_end(announced, make, host):
    """A body without an end costs no more than the limit, one that announces itself nothing."""
    sent = 0

    async def endless(stream: Any) -> None:
        nonlocal sent
        await stream.send(head(200, *([] if announced else ["Transfer-Encoding: chunked"]), **LENGTH[announced]))
        while True:
            await stream.send(b"1000\r\n" + b"x" * 4096 + b"\r\n")
            sent += 4096

    host.scripts["/a.png"] = endless
    sizes: list[int] = []
    fetcher = make(max_bytes=100_000)
    with pytest.raises(RequestError, match=r"more than 100,000 bytes \(fetch.max_bytes\)"):
        await fetcher.fetch({host.url(): "at"}, sizes.append)

    assert sum(sizes) <= 140_000 if not announced else sum(sizes) == 0


LENGTH: dict[bool, dict[str, int]] = {False: {}, True: {"length": 10**15}}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (head(404, length=0), "it answered with HTTP 404"),
        (head(204), "it answered with HTTP 204"),
        (head(206, length=1) + b"x", "it answered with HTTP 206"),
        (head(500, length=10**15), "it answered with HTTP 500"),
        (head(200, length=0), "there is nothing at it"),
        (head(200, "Content-Encoding: gzip", length=1) + b"x", "it answered with compressed data"),
        (head(200, length=9) + b"short", "the host cannot be reached, or broke off"),
        (b"SSH-2.0-x\r\n", "the host cannot be reached, or broke off"),
        (b"", "the host cannot be reached, or broke off"),
    ],
)
async def test_an_answer_that_is_no_file(answer, words, make, host):
    """Is told in so many words."""
    host.scripts["/a.png"] = answer
    assert await refused(make(), host.url()) == words


async def test_room_is_made_before_more_is_read(make, host):
    """Whoever counts bytes may say no at any time; that is not the client's fault."""
    url = host.serve("/a.png", b"x" * 300_000)
    sizes: list[int] = []

    def hold(size: int) -> None:
        sizes.append(size)
        if sum(sizes) > 200_000:
            raise TooBusy("full")

    with pytest.raises(TooBusy, match="full"):
        await make().fetch({url: "at"}, hold)
    await make().fetch({url: "at"}, (sizes := []).append)
    assert (sum(sizes), len(sizes) > 2) == (400_000, True)


async def test_one_failure_ends_the_others(make, host):
    """The client is told of the one that failed, at once."""

    async def silence(stream: Any) -> None:
        await anyio.sleep_forever()

    host.scripts |= {"/slow": silence, "/gone": head(404, length=0)}
    with anyio.fail_after(3), pytest.raises(RequestError, match=r"^at\[1\]: .* HTTP 404"):
        await fetched(make(timeout=30.0), host.url("/slow"), host.url("/gone"))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://img.example.test:{port}/", "only https addresses are fetched"),
        ("https://u:p@img.example.test:{port}/", "an address with a user or a password is not fetched"),
        ("https://img.example.test:{port}/ä", "an address must be ASCII without spaces; escape what is not"),
        ("https://img.example.test:{port}/a b", "an address must be ASCII without spaces; escape what is not"),
        ("https://img.example.test:{port}/a\r\nX: y", "an address must be ASCII without spaces; escape what is not"),
        ("https://img.example.test:{port}/" + "a" * 9000, "an address of more than 8192 characters"),
    ],
)
async def test_an_address_that_is_none_of_ours(url, words, make, host):
    """Though its host is allowed."""
    fetcher, address = make(), url.format(port=host.port)
    assert fetcher.allows(address)
    assert await refused(fetcher, address) == words
    assert host.asked == []


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://a.example/x", True),
        ("HTTPS://A.Example./x", True),
        ("https://a.example:443/x", True),
        ("https://a.example:444/x", False),
        ("https://b.a.example/x", False),
        ("https://b.example:8443/x", True),
        ("https://b.example/x", False),
        ("https://x.c.example/", True),
        ("https://y.x.c.example/", True),
        ("https://c.example/", False),
        ("https://xc.example/", False),
        ("https://a.example.evil.test/", False),
        ("https://evil.test/a.example", False),
        ("https://evil.test#a.example", False),
        ("https://evil.test\\.c.example/", False),
        ("https://a.example@evil.test/", False),
        ("https://evil.test?@a.example", False),
        ("https://[::1]/", False),
        ("https://127.0.0.1/", False),
        ("https://a.example:x/", False),
        ("https://", False),
        ("", False),
    ],
)
def test_hosts_are_allowed_by_name(url: str, allowed: bool) -> None:
    """The whole name, and the port; what stands elsewhere in the address is not looked at."""
    fetcher = Fetcher(allow=("a.example", "B.example:8443", "*.c.example"), transport=Transport())
    assert fetcher.allows(url) is allowed


@pytest.mark.parametrize("host", ["a.example", "*.a.example", "A-b.example:8443", "xn--bcher-kva.example"])
def test_what_a_host_may_be_in_the_settings(host: str) -> None:
    """Names."""
    assert Settings(fetch=FetchSettings(allow=(host,))).fetch.allow == (host,)


@pytest.mark.parametrize(
    "host",
    [
        *("*", "*.example", "localhost", "127.0.0.1", "10.0.0.1:443", "[::1]", "https://a.example", "a.example/"),
        *("a.example:0", "a.example:99999", "a.*.example", "a..example", "a.example:", "bücher.example", "a b.example"),
    ],
)
def test_what_no_host_is_in_the_settings(host: str) -> None:
    """Found when the gateway starts, with the setting's name."""
    with pytest.raises(ConfigError, match=r"fetch\.allow: must be names of hosts"):
        Settings(fetch=FetchSettings(allow=(host,)))
