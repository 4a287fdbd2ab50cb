"""A server that is away for a moment, or whose responses are lost, costs no attempt."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator

import httpx
import pytest

from duly import (
    AsyncClient,
    Backoff,
    Context,
    DeniedError,
    InvalidError,
    NewEvent,
    NotFoundError,
    Problem,
    UnavailableError,
    Worker,
)
from duly.errors import error_of
from duly.messages import PushManyError

from .conftest import running, until
from .stand_in import StandIn, lease_text

QUICK = Backoff(first=0.01, longest=0.01)


@pytest.fixture(autouse=True)
def _quick_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in ends no stream that is drained."""
    monkeypatch.setattr("duly.worker.DRAIN_MAX", 0.01)


def test_an_extension_that_hangs_is_followed_by_another_one() -> None:
    calls: Counter[str] = Counter()
    extended = asyncio.Event()
    ended: list[str] = []

    async def respond(call: str) -> None:
        calls[call] += 1
        if call == "extend" and calls[call] == 1:
            await asyncio.Event().wait()
        if call == "extend" and calls[call] == 4:  # later than the first lease would have ended
            extended.set()

    server = StandIn(lease_text(7), respond=respond)

    async def handle(payload: int) -> None:
        try:
            await extended.wait()
            ended.append("done")
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def case() -> None:
        async with server.client() as client, running(Worker(client, "q", handle, ttr=1)):
            await until("it has ended", lambda: bool(ended))

    asyncio.run(case())
    assert ended == ["done"]
    assert server.settled == [{"outcome": "ack"}]


def test_a_handler_that_ends_while_an_extension_hangs_is_settled_at_once() -> None:
    extending = asyncio.Event()

    async def respond(call: str) -> None:
        if call == "extend":
            extending.set()
            await asyncio.Event().wait()

    server = StandIn(lease_text(7), respond=respond)

    async def handle(payload: int) -> None:
        await extending.wait()

    async def case() -> None:
        async with server.client() as client, running(Worker(client, "q", handle, ttr=1)):
            await until("it is settled", lambda: bool(server.settled))

    asyncio.run(case())
    assert server.settled == [{"outcome": "ack"}]


@pytest.mark.parametrize(("status", "tries"), [(400, 1), (401, 2), (403, 2), (404, 2)])
def test_a_refusal_of_a_proxy_ends_no_attempt_and_drops_no_settlement_that_may_pass(
    status: int, tries: int
) -> None:
    calls: Counter[str] = Counter()
    extended = asyncio.Event()
    ended: list[str] = []

    async def respond(call: str) -> httpx.Response | None:
        calls[call] += 1
        if calls[call] == 1:
            return httpx.Response(status, text="<html>back soon</html>")
        if call == "extend":
            extended.set()
        return None

    server = StandIn(lease_text(7), respond=respond)

    async def handle(payload: int) -> None:
        try:
            await extended.wait()
            ended.append("done")
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def case() -> None:
        async with server.client() as client, running(Worker(client, "q", handle, ttr=1)):
            await until("it has ended", lambda: bool(ended))

    asyncio.run(case())
    assert ended == ["done"]
    assert server.settled == [{"outcome": "ack"}] * tries
    gone = Problem.of(404, {"kind": "not_found", "detail": "no lease"})
    assert isinstance(error_of(gone), NotFoundError)
    of_proxy = error_of(Problem.of(status, "back soon"))
    assert isinstance(of_proxy, UnavailableError if tries > 1 else InvalidError)


def test_a_worker_behind_a_proxy_that_is_wrong_goes_on_until_the_server_refuses_it() -> None:
    refusals = [httpx.Response(status, text="back soon") for status in (404, 400, 401, 403)]
    refusals += [httpx.Response(403, json={"kind": "forbidden"})]
    left = iter(refusals)

    async def respond(request: httpx.Request) -> httpx.Response:
        return next(left)

    async def handle(payload: int) -> None: ...

    async def case() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(respond))
        async with AsyncClient("http://duly", token="x", namespace="ns", http=http) as client:
            with pytest.raises(DeniedError, match="403 forbidden"):
                await Worker(client, "q", handle, backoff=QUICK).run()

    asyncio.run(case())
    assert next(left, None) is None


def test_a_settlement_is_repeated_for_as_long_as_its_lease_goes_on() -> None:
    calls: Counter[str] = Counter()

    async def respond(call: str) -> httpx.Response | None:
        calls[call] += 1
        return httpx.Response(502) if call == "settle" and calls[call] < 8 else None

    server = StandIn(lease_text(7), respond=respond)

    async def handle(payload: int) -> None: ...

    async def case() -> None:
        async with server.client() as client:
            worker = Worker(client, "q", handle, backoff=QUICK)
            async with running(worker):
                await until("it is settled", lambda: calls["settle"] > 0 and not worker._running)

    asyncio.run(case())
    assert server.settled == [{"outcome": "ack"}] * 8


def test_a_pause_that_the_server_asks_for_does_not_outlast_the_lease_that_is_settled() -> None:
    async def respond(call: str) -> httpx.Response | None:
        is_first = call == "settle" and len(server.settled) == 1
        return httpx.Response(503, headers={"Retry-After": "30"}) if is_first else None

    server = StandIn(lease_text(7), respond=respond)

    async def handle(payload: int) -> None: ...

    async def case() -> None:
        async with server.client() as client, running(Worker(client, "q", handle, ttr=1, grace=0)):
            again = until("it is repeated", lambda: len(server.settled) == 2)
            await asyncio.wait_for(again, 15)

    asyncio.run(case())


def test_a_stop_waits_for_a_settlement_no_longer_than_its_grace() -> None:
    async def respond(call: str) -> httpx.Response | None:
        return httpx.Response(502) if call == "settle" else None

    server = StandIn(lease_text(7), respond=respond)

    async def handle(payload: int) -> None: ...

    async def case() -> None:
        async with server.client() as client:
            worker = Worker(client, "q", handle, grace=0, ttr=3_600, backoff=QUICK)
            async with running(worker):
                await until("it is repeated", lambda: len(server.settled) > 5)

    asyncio.run(case())


@pytest.mark.parametrize("hangs", [True, False])
@pytest.mark.parametrize("cancels", [True, False])
def test_a_stop_is_not_held_up_by_a_settlement_that_is_not_answered(
    monkeypatch: pytest.MonkeyPatch, hangs: bool, cancels: bool
) -> None:
    monkeypatch.setattr("duly.worker.SETTLE_MAX", 0.5)

    async def respond(call: str) -> httpx.Response | None:
        if call == "settle" and hangs:
            await asyncio.Event().wait()
        return httpx.Response(503, headers={"Retry-After": "30"}) if call == "settle" else None

    server = StandIn(lease_text(7), respond=respond)

    async def handle(payload: int) -> None: ...

    async def case() -> None:
        async with server.client() as client:
            worker = Worker(client, "q", handle, grace=0, ttr=3_600, backoff=QUICK)
            work = asyncio.create_task(worker.run())
            await until("it is settled", lambda: len(server.settled) > 0)
            if cancels:
                work.cancel()
            else:
                worker.stop()
            _, working = await asyncio.wait({work}, timeout=60)
            assert not working

    asyncio.run(case())
    # The one that was cut short, and a last one, which is repeated if there is a response.
    assert (len(server.settled) == 2) is hangs
    assert server.settled[:2] == [{"outcome": "ack"}] * 2


def test_a_pause_that_the_server_asks_for_does_not_outlast_the_stop_that_drains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("duly.worker.DRAIN_MAX", 1.0)
    calls: Counter[str] = Counter()

    async def respond(call: str) -> httpx.Response | None:
        calls[call] += 1
        is_first = call == "drain" and calls[call] == 1
        return httpx.Response(503, headers={"Retry-After": "30"}) if is_first else None

    server = StandIn(respond=respond)

    async def handle(payload: int) -> None: ...

    async def case() -> None:
        async with server.client() as client, running(Worker(client, "q", handle)):
            await until("it streams", lambda: server.streams == 1)

    asyncio.run(case())
    assert calls["drain"] == 2


def test_a_stop_takes_one_lease_at_most_of_a_stream_that_it_could_not_drain() -> None:
    begun, ready, released = asyncio.Event(), asyncio.Event(), asyncio.Event()
    calls: Counter[str] = Counter()
    settled: list[str] = []

    async def first() -> AsyncIterator[bytes]:
        yield lease_text(7)
        await begun.wait()

    async def second() -> AsyncIterator[bytes]:
        await ready.wait()
        while calls["drain"] < 2 and len(settled) < 5:
            released.clear()
            yield lease_text(8)
            await released.wait()
        await asyncio.Event().wait()

    async def respond(request: httpx.Request) -> httpx.Response:
        call = request.url.path.split("/")[-1]
        calls[call] += 1
        if call == "stream":
            return httpx.Response(200, content=first() if calls[call] == 1 else second())
        if call == "drain" and calls[call] == 1:
            ready.set()
            return httpx.Response(404, json={"kind": "not_found"})
        if call == "settle":
            settled.append(json.loads(request.content)["outcome"])
            released.set()
        return httpx.Response(204)

    async def handle(payload: int) -> None:
        begun.set()
        await until("it is handed back", lambda: bool(settled))
        await until("nothing more is", lambda: calls["drain"] >= 2 or len(settled) == 5)

    async def case() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(respond))
        client = AsyncClient("http://duly", token="x", namespace="ns", http=http)
        async with client, running(Worker(client, "q", handle, backoff=QUICK)):
            await until("it streams again", lambda: calls["stream"] == 2)

    asyncio.run(case())
    assert settled == ["release", "ack"]


def test_a_stop_while_a_stream_begins_costs_no_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duly.worker.DRAIN_MAX", 5.0)
    begins, over = asyncio.Event(), asyncio.Event()
    calls: Counter[str] = Counter()
    settled: list[str] = []

    async def stream() -> AsyncIterator[bytes]:
        yield lease_text(7)
        await over.wait()

    async def respond(request: httpx.Request) -> httpx.Response:
        call = request.url.path.split("/")[-1]
        calls[call] += 1
        if call == "stream":
            await begins.wait()
            return httpx.Response(200, content=stream())
        if call == "drain" and calls["drain"] < 3:
            return httpx.Response(404, json={"kind": "not_found"})
        begins.set()
        if call == "settle":
            settled.append(json.loads(request.content)["outcome"])
            over.set()
        return httpx.Response(204)

    async def handle(payload: int) -> None: ...

    async def case() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(respond))
        client = AsyncClient("http://duly", token="x", namespace="ns", http=http)
        async with client, running(Worker(client, "q", handle)):
            await until("it connects", lambda: calls["stream"] == 1)

    asyncio.run(case())
    assert settled == ["release"]


def test_what_waits_for_a_slot_is_handed_back_as_the_worker_stops() -> None:
    handed_back = asyncio.Event()
    begun: list[str] = []
    settled: list[tuple[str, str]] = []
    text = lease_text(7, "runs") + lease_text(7, "waits")

    async def stream() -> AsyncIterator[bytes]:
        yield text
        await asyncio.Event().wait()

    async def respond(request: httpx.Request) -> httpx.Response:
        *_, token, call = request.url.path.split("/")
        if call == "stream":
            return httpx.Response(200, content=stream())
        if call == "settle":
            settled.append((token, json.loads(request.content)["outcome"]))
            handed_back.set()
        return httpx.Response(204)

    async def handle(payload: int, context: Context) -> None:
        begun.append(context.lease.token)
        await handed_back.wait()

    async def case() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(respond))
        client = AsyncClient("http://duly", token="x", namespace="ns", http=http)
        worker = Worker(client, "q", handle, concurrency=1, ttr=3_600, grace=5)
        async with client, running(worker):
            await until("both are there", lambda: len(worker._running) == 2 and bool(begun))

    asyncio.run(case())
    assert begun == ["runs"]
    assert settled == [("waits", "release"), ("runs", "ack")]


@pytest.mark.parametrize("concurrent", [1, 2])
@pytest.mark.parametrize("cancels", [0, 1, 2, 9])
def test_what_is_handed_back_is_so_also_where_that_takes_longer_than_the_grace(
    concurrent: int, cancels: int
) -> None:
    begun: list[str] = []
    released: set[str] = set()
    tokens = ["runs", "waits", "waits-too"]

    async def stream() -> AsyncIterator[bytes]:
        yield b"".join(lease_text(7, token) for token in tokens)
        await asyncio.Event().wait()

    async def respond(request: httpx.Request) -> httpx.Response:
        *_, token, call = request.url.path.split("/")
        if call == "stream":
            return httpx.Response(200, content=stream())
        if call == "settle":
            await asyncio.sleep(0.2)
            released.add(token)
        return httpx.Response(204)

    async def handle(payload: int, context: Context) -> None:
        begun.append(context.lease.token)
        await asyncio.Event().wait()

    async def case() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(respond))
        client = AsyncClient("http://duly", token="x", namespace="ns", http=http)
        worker = Worker(client, "q", handle, concurrency=concurrent, ttr=3_600, grace=0.05)
        work = asyncio.create_task(worker.run())
        async with client:
            await until("all are there", lambda: len(worker._running) == 3)
            await until("some run", lambda: len(begun) == concurrent)
            worker.stop()
            for _ in range(cancels):
                await asyncio.sleep(0.03)
                work.cancel()
            await asyncio.wait({work}, timeout=60)

    asyncio.run(case())
    assert begun == tokens[:concurrent]
    assert released == set(tokens)


def test_what_waits_for_a_slot_is_handed_back_though_the_server_is_away_for_long() -> None:
    handed_back = asyncio.Event()
    begun: list[str] = []
    settled: Counter[str] = Counter()
    text = lease_text(7, "runs") + lease_text(7, "waits")

    async def stream() -> AsyncIterator[bytes]:
        yield text
        await asyncio.Event().wait()

    async def respond(request: httpx.Request) -> httpx.Response:
        *_, token, call = request.url.path.split("/")
        if call == "stream":
            return httpx.Response(200, content=stream())
        if call == "settle":
            settled[token] += 1
            if settled[token] < 7:  # more often than one request is repeated
                return httpx.Response(502)
            handed_back.set()
        return httpx.Response(204)

    async def handle(payload: int, context: Context) -> None:
        begun.append(context.lease.token)
        await asyncio.wait_for(handed_back.wait(), 30)

    async def case() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(respond))
        client = AsyncClient("http://duly", token="x", namespace="ns", http=http)
        worker = Worker(client, "q", handle, concurrency=1, ttr=3_600, grace=60, backoff=QUICK)
        async with client, running(worker):
            await until("both are there", lambda: len(worker._running) == 2 and bool(begun))

    asyncio.run(case())
    assert begun == ["runs"]
    assert settled == {"waits": 7, "runs": 7}


def test_what_waited_for_a_slot_while_its_stream_ended_begins_only_if_its_lease_goes_on() -> None:
    open_slot = asyncio.Event()
    begun: list[str] = []
    settled: list[str] = []
    streams: list[str] = []
    workers: list[Worker] = []

    async def stream(token: str) -> AsyncIterator[bytes]:
        yield lease_text(7, token)
        if token != "third":
            await until("it is taken", lambda: len(workers[0]._running) == len(streams))
        else:
            await asyncio.Event().wait()

    async def respond(request: httpx.Request) -> httpx.Response:
        *_, token, call = request.url.path.split("/")
        if call == "stream":
            streams.append(["first", "second", "third"][len(streams)])
            return httpx.Response(200, content=stream(streams[-1]))
        if call == "extend" and token == "second":
            return httpx.Response(409, json={"kind": "lease_lost"})
        if call == "settle":
            settled.append(token)
        return httpx.Response(204)

    async def handle(payload: int, context: Context) -> None:
        begun.append(context.lease.token)
        await open_slot.wait()

    async def case() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(respond))
        client = AsyncClient("http://duly", token="x", namespace="ns", http=http)
        workers.append(Worker(client, "q", handle, concurrency=1, backoff=QUICK))
        async with client, running(workers[0]):
            await until("all are there", lambda: len(workers[0]._running) == 3)
            open_slot.set()
            await until("all are over", lambda: not workers[0]._running)

    asyncio.run(case())
    assert begun == settled == ["first", "third"]


def test_the_end_of_a_stream_checks_the_lease_of_each_handler_that_runs_at_once() -> None:
    begun = asyncio.Event()
    streams: list[str] = []
    ended: list[str] = []

    async def stream() -> AsyncIterator[bytes]:
        yield lease_text(7)
        await begun.wait()

    async def respond(request: httpx.Request) -> httpx.Response:
        call = request.url.path.split("/")[-1]
        if call == "stream":
            streams.append(call)
            return httpx.Response(200, content=stream())
        if call == "extend":
            return httpx.Response(409, json={"kind": "lease_lost"})
        return httpx.Response(204)

    async def handle(payload: int) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("told to end")

    async def case() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(respond))
        client = AsyncClient("http://duly", token="x", namespace="ns", http=http)
        # The next stream would begin a long time later.
        pause = Backoff(first=600, longest=600)
        worker = Worker(client, "q", handle, ttr=3_600, backoff=pause)
        async with client, running(worker):
            await until("it is told to end", lambda: bool(ended))

    asyncio.run(case())
    assert (streams, ended) == (["stream"], ["told to end"])


UNAVAILABLE = {"problem": {"status": 503, "kind": "unavailable", "title": "", "detail": "away"}}
CONFLICT = {"problem": {"status": 409, "kind": "conflict", "title": "", "detail": "another"}}
STORED = {"id": "7", "due_ms": 0, "duplicate": True}


@pytest.mark.parametrize(
    ("first", "requests"),
    [
        ([UNAVAILABLE, UNAVAILABLE], 2),
        ([CONFLICT, UNAVAILABLE], 2),
        ([STORED, UNAVAILABLE], 2),
        ([CONFLICT, STORED], 1),
    ],
)
@pytest.mark.parametrize("is_behind_a_gateway", [False, True])
def test_a_push_of_many_is_repeated_where_one_of_them_may_be_stored_then(
    is_behind_a_gateway: bool, first: list[object], requests: int
) -> None:
    sent: list[bytes] = []

    def respond(request: httpx.Request) -> httpx.Response:
        sent.append(request.content)
        if len(sent) == 1:
            return httpx.Response(200 if is_behind_a_gateway else 207, json=first)
        return httpx.Response(200 if is_behind_a_gateway else 201, json=[STORED, STORED])

    async def case() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(respond))
        async with AsyncClient("http://duly", token="x", namespace="ns", http=http) as client:
            pushing = client.push_many("q", [NewEvent(1), NewEvent(2)])
            if requests == 1:
                with pytest.raises(PushManyError):
                    await pushing
            else:
                assert len(await pushing) == 2

    asyncio.run(case())
    assert len(sent) == requests
    assert len(set(sent)) == 1


@pytest.mark.parametrize("status", [200, 403])
def test_a_worker_is_ready_when_its_stream_has_begun_or_it_has_ended(status: int) -> None:
    connects, begins = asyncio.Event(), asyncio.Event()

    async def stream() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    async def respond(request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/stream"):
            return httpx.Response(204)
        connects.set()
        await begins.wait()
        if status == 200:
            return httpx.Response(200, content=stream())
        return httpx.Response(status, json={"kind": "forbidden"})

    async def handle(payload: int) -> None: ...

    async def case() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(respond))
        async with AsyncClient("http://duly", token="x", namespace="ns", http=http) as client:
            worker = Worker(client, "q", handle)
            work = asyncio.create_task(worker.run())
            await connects.wait()
            assert not worker.ready.is_set()
            begins.set()
            await worker.ready.wait()
            worker.stop()
            await asyncio.wait({work})
            assert isinstance(work.exception(), DeniedError) is (status == 403)

    asyncio.run(case())
