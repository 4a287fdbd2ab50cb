"""What comes between a client and its server: cut responses, redirects, and limits."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

import httpx
import pytest

from duly import (
    AsyncClient,
    Backoff,
    Client,
    ConnectionFailed,
    DeniedError,
    Lease,
    NewEvent,
    ProblemError,
    UsageError,
    Worker,
    ack,
)
from duly.testing import TestServer

from .conftest import Place, running, until

STORED = b'[{"id": "7", "due_ms": 0, "duplicate": true}]'
WHOLE = b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%s" % (len(STORED), STORED)


@contextmanager
def canned(*responses: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A server that sends some bytes to each request, and then closes; and what was sent to it."""
    requests: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for response in responses:
                connection, _ = listener.accept()
                with connection, connection.makefile("rb") as reader:
                    length = 0
                    while (line := reader.readline()) not in (b"\r\n", b""):
                        name, _, value = line.partition(b":")
                        length = int(value) if name.lower() == b"content-length" else length
                    requests.append(reader.read(length))
                    connection.sendall(response)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
        thread.join()


@pytest.mark.parametrize(
    "cut",
    [
        b"",
        b"HTTP/1.1 20",
        b"no HTTP at all\r\n\r\n",
        WHOLE[:30],
        WHOLE[:-1],
        b"HTTP/1.1 201 Created\r\n\r\n" + STORED[:-1],
        b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2d\r\n" + STORED,
        b"HTTP/1.1 201 Created\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 503 Unavailable\r\nContent-Length: 99\r\n\r\n{",
        b"HTTP/1.1 503 Unavailable\r\nContent-Type: text/html; charset=none\r\n\r\n\xff",
    ],
)
def test_a_push_whose_response_is_cut_is_repeated(
    cut: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    with canned(cut, WHOLE) as (url, requests), Client(url, token="x", namespace="ns") as client:
        assert client.push("q", 1).duplicate
    assert len(requests) == 2
    assert requests[0] == requests[1]


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("after", "pause"),
    [
        ("7", 7.0),
        ("007", 7.0),
        ("29", 29.0),
        ("31", 30.0),
        ("9" * 400, 30.0),
        *[(after, None) for after in (None, "", "0", "-5", "1.5", "1e3", "soon", "inf")],
        ("Wed, 21 Oct 2099 07:28:00 GMT", None),  # by a clock that may be another
    ],
)
def test_a_pause_is_as_long_as_the_server_asks_within_bounds(
    status: int, after: str | None, pause: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    headers = {} if after is None else {"Retry-After": after}
    respond = httpx.MockTransport(lambda _: httpx.Response(status, headers=headers))
    client = Client("http://duly", token="x", namespace="ns", http=httpx.Client(transport=respond))
    with pytest.raises(ProblemError):
        client.push("q", 1)
    assert len(pauses) == 4
    if pause is None:
        assert all(0 < pause < 1 for pause in pauses)
    else:
        assert pauses == [pause] * 4


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("each", "after", "tries"),
    [(0, "", 5), (9, "", 5), (30, "", 2), (0, "7", 5), (0, "20", 3), (21, "30", 1), (60, "", 1)],
)
def test_no_repeat_begins_when_the_server_may_have_forgotten_the_first_try(
    each: float, after: str, tries: int, is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    begun: list[float] = []

    def respond(_: httpx.Request) -> httpx.Response:
        nonlocal now
        begun.append(now)
        now += each
        return httpx.Response(503, headers={"Retry-After": after})

    def sleep(pause: float) -> None:
        nonlocal now
        now += pause

    async def asleep(pause: float) -> None:
        sleep(pause)

    place: Any = {"url": "http://duly", "token": "x", "namespace": "ns"}
    transport = httpx.MockTransport(respond)

    def push() -> None:
        Client(**place, http=httpx.Client(transport=transport)).push("q", 1)

    async def apush() -> None:
        await AsyncClient(**place, http=httpx.AsyncClient(transport=transport)).push("q", 1)

    monkeypatch.setattr("duly.protocol.monotonic", lambda: now)
    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("duly.client.asyncio.sleep", asleep)
    with pytest.raises(ProblemError) as raised:
        asyncio.run(apush()) if is_async else push()
    assert len(raised.value.remaining) == 1
    assert (len(begun), max(begun) < 50) == (tries, True)


@pytest.mark.parametrize("token", ["secret", "secret\n", "secret\r\n", " secret\t"])
def test_a_token_of_a_file_is_taken(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DULY_TOKEN", token)
    sent: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers["Authorization"])
        return httpx.Response(200, json=[])

    http = httpx.Client(transport=httpx.MockTransport(respond))
    client = Client("http://duly", namespace="ns", http=http)
    client.lease("q")
    assert sent == ["Bearer secret"]
    assert "secret" not in repr(client.options)


@pytest.mark.parametrize(
    "token", ["secret\nother", "secret\0", "secret\x7f", "\u00e9secret", "sec\u2028ret", "\n"]
)
def test_a_token_that_cannot_be_sent_is_not_shown(token: str) -> None:
    for client in (Client, AsyncClient):
        with pytest.raises(UsageError, match="the token") as raised:
            client("http://duly", token=token, namespace="ns")
        assert "secret" not in str(raised.value)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_an_error_and_is_not_followed(status: int) -> None:
    requests: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        requests.append(request.method)
        return httpx.Response(status, headers={"Location": "https://duly/login"})

    http = httpx.Client(transport=httpx.MockTransport(respond))
    client = Client("http://duly", token="x", namespace="ns", http=http)
    calls: list[Callable[[], object]] = [
        lambda: client.push("q", 1),
        lambda: client.cancel("q", "7"),
        lambda: client.reschedule("q", "7", 1),
        lambda: client.get("q", "7"),
    ]
    for call in calls:
        with pytest.raises(ProblemError, match=str(status)):
            call()
    assert requests == ["POST", "DELETE", "PATCH", "GET"]


@pytest.mark.parametrize(
    "text", ["<h1>Log in</h1>", "{}", "null", "0", '""', "[]", '{"login": "/"}', " "]
)
def test_a_success_of_something_else_is_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def asleep(_: float) -> None: ...

    monkeypatch.setattr("duly.client.asyncio.sleep", asleep)
    statuses: list[int] = []

    def respond(_: httpx.Request) -> httpx.Response:
        return httpx.Response(statuses.pop(0), text=text)

    async def case() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(respond))
        client = AsyncClient("http://duly", token="x", namespace="ns", http=http)
        lease = Lease("7", "t", datetime.now(timezone.utc), 1, 0, None, {}, b"7")
        calls: list[Callable[[], Awaitable[None]]] = [
            lambda: client.settle(lease, ack()),
            lambda: client.extend(lease, 1),
            lambda: client.cancel("q", "7"),
            lambda: client.drain("q", "s"),
        ]
        for call in calls:
            statuses[:] = [200, 201, 202, 206, 200]
            with pytest.raises(ConnectionFailed, match="no response of duly"):
                await call()
            assert statuses == []
        for others in ([201, 202, 203, 206, 299], [200] * 5):
            statuses[:] = others
            with pytest.raises(ConnectionFailed, match="no response of duly"):
                await client.reschedule("q", "7", 1)
            assert statuses == []

    asyncio.run(case())


@pytest.mark.parametrize("status", [200, 201, 202, 204, 205])
def test_a_success_without_a_body_is_one_of_what_returns_nothing(status: int) -> None:
    requests: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        requests.append(request.url.path.split("/")[-1])
        return httpx.Response(status)

    http = httpx.Client(transport=httpx.MockTransport(respond))
    client = Client("http://duly", token="x", namespace="ns", http=http)
    lease = Lease("7", "t", datetime.now(timezone.utc), 1, 0, None, {}, b"7")
    client.settle(lease, ack())
    client.extend(lease, 1)
    client.cancel("q", "7")
    client.reschedule("q", "7", 1)
    assert requests == ["settle", "extend", "7", "7"]


@pytest.mark.parametrize("text", ["{}", "null", "7", '"leases"', "[null]", ""])
def test_leases_that_are_none_are_no_response_of_duly(text: str) -> None:
    http = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200, text=text)))
    client = Client("http://duly", token="x", namespace="ns", http=http)
    with pytest.raises(ConnectionFailed, match="no response of duly"):
        client.lease("q")


def test_a_worker_that_is_throttled_waits_as_long_as_the_server_asks() -> None:
    streams: Counter[str] = Counter()

    def respond(request: httpx.Request) -> httpx.Response:
        queue = request.url.path.split("/")[4]
        streams[queue] += 1
        return httpx.Response(429, headers={"Retry-After": "30"} if queue == "asked" else {})

    async def handle(payload: object) -> None: ...

    async def case() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(respond))
        client = AsyncClient("http://duly", token="x", namespace="ns", http=http)
        quick = Backoff(first=0.001, longest=0.001)
        workers = [Worker(client, queue, handle, backoff=quick) for queue in ("asked", "other")]
        async with running(workers[0]), running(workers[1]):
            await until("the other goes on", lambda: streams["other"] >= 100)

    asyncio.run(case())
    assert streams["asked"] == 1


def test_a_worker_whose_token_expires_ends_with_the_reason(duly_server: TestServer) -> None:
    path = "/token/short?description=test&expires_in=2"
    token = duly_server._admin("POST", path).json()["token"]

    async def handle(payload: object) -> None: ...

    async def case() -> None:
        async with AsyncClient(duly_server.url, token=token, namespace="short") as client:
            with pytest.raises(DeniedError, match="401"):
                await Worker(client, "q", handle).run()

    asyncio.run(case())


def test_a_push_that_is_cancelled_leaves_a_client_that_goes_on(place: Place) -> None:
    events = [NewEvent("x" * 100) for _ in range(1_000)]

    async def case() -> None:
        async with AsyncClient(**place) as client:
            for steps in range(60):
                push = asyncio.create_task(client.push_many("q", events))
                for _ in range(steps):
                    await asyncio.sleep(0)
                push.cancel()
                await asyncio.wait({push})
            assert len(await client.push_many("q", events)) == 1_000
            assert (await client.stats("q"))["ready"] == 1_000

    asyncio.run(case())


def test_a_turn_is_waited_for_no_longer_than_a_request_may_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("duly.client.CONNECTIONS_MAX", 2)

    async def main(url: str) -> None:
        async with AsyncClient(url, token="x", namespace="ns", timeout=0.1) as client:
            leases = [asyncio.create_task(client.lease("q", wait=8)) for _ in range(2)]
            await asyncio.sleep(0)
            pushes = [client.push("q", number) for number in range(50)]
            for error in await asyncio.gather(*pushes, return_exceptions=True):
                assert isinstance(error, ConnectionFailed), error
                assert "no connection was free" in str(error)
            assert not any(lease.done() for lease in leases)
            for lease in leases:
                lease.cancel()
            await asyncio.wait(leases)
            # Whose turn did not come has none.
            with pytest.raises(ConnectionFailed, match="Timeout"):
                await client.push("q", 1)

    with socket.create_server(("127.0.0.1", 0)) as listener:  # it accepts, and says nothing
        asyncio.run(main(f"http://127.0.0.1:{listener.getsockname()[1]}"))


@pytest.mark.parametrize("steps", range(8))
def test_a_request_that_is_cancelled_in_the_line_is_not_sent(
    monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    monkeypatch.setattr("duly.client.CONNECTIONS_MAX", 1)

    async def main() -> None:
        async with AsyncClient("http://127.0.0.1:1", token="x", namespace="ns") as client:
            sent = False

            async def send() -> None:
                nonlocal sent
                async with client._turn("b"):
                    sent = True

            async with client._turn("a"):
                second = asyncio.create_task(send())
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            for _ in range(steps):
                await asyncio.sleep(0)
            is_cancelled = second.cancel()
            await asyncio.wait({second})
            assert (second.cancelled(), sent) == (is_cancelled, not is_cancelled)
            async with client._turn("c"):  # nobody has kept it
                pass

    asyncio.run(main())


def test_a_client_of_httpx_that_was_given_has_its_own_bounds() -> None:
    async def main() -> None:
        together = asyncio.Event()
        open_requests = 0

        async def respond(_: httpx.Request) -> httpx.Response:
            nonlocal open_requests
            open_requests += 1
            if open_requests == 250:
                together.set()
            await together.wait()
            return httpx.Response(201, content=STORED)

        http = httpx.AsyncClient(transport=httpx.MockTransport(respond))
        client = AsyncClient("http://duly", token="x", namespace="ns", timeout=5, http=http)
        pushes = asyncio.gather(*(client.push("q", number) for number in range(250)))
        await asyncio.wait_for(pushes, 30)

    asyncio.run(main())


def test_what_is_no_text_is_refused_before_anything_is_sent() -> None:
    http = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(500)))
    client = Client("http://duly", token="x", namespace="ns", http=http)
    half: Any = "half \ud83d"
    wrong: list[dict[str, Any]] = [
        {"key": half},
        {"unique": half},
        {"idempotency_key": half},
        {"headers": {"shop": half}},
        {"headers": {"shop": object()}},
        {"headers": {"shop": float("nan")}},
    ]
    for options in wrong:
        with pytest.raises(UsageError, match="as JSON"):
            client.push("q", 1, **options)
    for name in ("", ".", "..", "a/b", "a%2Fb", "a b", "a?b", "a#b", "ключ", "\u0661", "q\n", half):
        calls: list[Callable[..., object]] = [client.push, client.cancel, client.get]
        for call in calls:
            with pytest.raises(UsageError, match="letters, digits"):
                call(name, "7")
        with pytest.raises(UsageError, match="letters, digits"):
            client.cancel("q", name)
        lease = Lease("7", name, datetime.now(timezone.utc), 1, 0, None, {}, b"7")
        with pytest.raises(UsageError, match="letters, digits"):
            client.settle(lease, ack())
        with pytest.raises(UsageError, match="letters, digits"):
            client.extend(lease, 1)


@pytest.mark.parametrize(
    "url", ["here", "localhost:7777", "127.0.0.1:7777", "ftp://here", "http://", "http:///x", "://"]
)
def test_what_is_no_url_is_refused_at_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DULY_URL", url)
    for client in (Client, AsyncClient):
        with pytest.raises(UsageError, match="no URL"):
            client(token="x", namespace="ns")


@pytest.mark.parametrize("url", ["http://duly:7777 ", " http://duly:7777", "http://duly:7777/\n"])
def test_a_url_has_no_space_around_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Client(url, token="x", namespace="ns").options.url == "http://duly:7777"
    monkeypatch.setenv("DULY_URL", url)
    assert Client(token="x", namespace="ns").options.url == "http://duly:7777"


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DULY_URL", "")
    assert Client("", token="x", namespace="ns").options.url == "http://127.0.0.1:7777"


def test_where_nobody_answers_a_lookup_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    with canned(*[b""] * 5) as (url, requests):
        client = Client(url, token="x", namespace="ns")
        with client, pytest.raises(ConnectionFailed):
            client.get("q", "7")
    assert len(requests) == 5
