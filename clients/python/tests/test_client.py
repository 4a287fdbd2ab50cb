"""Both clients, and the clock of the test server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from datetime import datetime, timedelta, timezone
from typing import Any

import httpx
import pytest

from duly import (
    App,
    AsyncClient,
    Client,
    ConflictError,
    ConnectionFailed,
    DeniedError,
    InvalidError,
    LeaseLostError,
    NewEvent,
    NotFoundError,
    ProblemError,
    PushManyError,
    UnavailableError,
    UsageError,
    ack,
    retry,
    snooze,
)
from duly.testing import TestServer

from .conftest import Place


def test_half_an_hour_passes_in_a_moment(duly_server: TestServer, duly_client: Client) -> None:
    duly_client.push("close", {"order": 7}, delay=timedelta(minutes=30), key="customer:8")
    duly_server.advance(minutes=30, milliseconds=-1)
    assert duly_client.lease("close") == []
    before = duly_server.now()
    assert duly_server.advance(0.001) == before + timedelta(milliseconds=1)
    (lease,) = duly_client.lease("close")
    assert (lease.payload(), lease.key, lease.attempt) == ({"order": 7}, "customer:8", 1)
    duly_client.settle(lease, ack())
    with pytest.raises(NotFoundError):
        duly_client.get("close", lease.id)
    assert duly_client.explain("close", lease.id)["state"] == "done"


def test_a_lease_that_has_ended_is_lost(duly_server: TestServer, duly_client: Client) -> None:
    duly_client.push("close", 1, attempts=3)
    (lease,) = duly_client.lease("close", ttr=10)
    duly_client.extend(lease, 60)
    duly_server.advance(59)
    duly_client.extend(lease, 10)
    duly_server.advance(hours=1)
    with pytest.raises(LeaseLostError) as lost:
        duly_client.settle(lease, ack())
    assert lost.value.problem.kind == "lease_lost"
    (again,) = duly_client.lease("close")
    assert (again.id, again.attempt) == (lease.id, 2)
    duly_client.settle(again, retry("the bank is closed", delay=60))
    assert duly_client.stats("close")["scheduled"] == 1


def test_events_are_found_moved_and_cancelled(duly_server: TestServer, duly_client: Client) -> None:
    at = duly_server.now() + timedelta(days=1)
    pushed = duly_client.push("close", b"\x00\xff", at=at, headers={"shop": "a"})
    found = duly_client.get("close", pushed.id)
    assert (found.state, found.raw, found.headers["shop"]) == ("scheduled", b"\x00\xff", "a")
    assert abs(found.due - at) < timedelta(milliseconds=1)
    duly_client.reschedule("close", pushed.id, 60)
    assert duly_client.get("close", pushed.id).due < at
    duly_client.cancel("close", pushed.id)
    duly_client.cancel("close", pushed.id)  # as it may be repeated
    running = duly_client.push("close", 1)
    duly_client.lease("close")
    with pytest.raises(ConflictError, match="leased") as late:
        duly_client.cancel("close", running.id)
    assert late.value.problem.status == 409


def test_many_are_pushed_with_few_requests_and_a_repeat_adds_none(duly_client: Client) -> None:
    events = [NewEvent(number, idempotency_key=f"n{number}") for number in range(2_500)]
    pushed = duly_client.push_many("many", events)
    assert len({event.id for event in pushed}) == 2_500
    assert not any(event.duplicate for event in pushed)
    assert all(event.duplicate for event in duly_client.push_many("many", events))
    assert duly_client.stats("many")["ready"] == 2_500


def test_a_push_that_is_stored_in_part_says_which(duly_client: Client) -> None:
    duly_client.push("part", 1, idempotency_key="a")
    events = [NewEvent(2, idempotency_key="a"), NewEvent(3)]
    with pytest.raises(PushManyError) as part:
        duly_client.push_many("part", events)
    refused, stored = part.value.results
    assert getattr(refused, "status", None) == 409
    assert getattr(stored, "duplicate", None) is False
    with pytest.raises(ConflictError):
        duly_client.push("part", 2, idempotency_key="a")


def test_a_push_that_was_interrupted_can_be_repeated_and_says_what_is_stored(
    duly_server: TestServer, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    requests: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        """The server stores the second request, and its response is lost."""
        requests.append(request)
        response = httpx.request(
            request.method, request.url, headers=request.headers, content=request.read()
        )
        if len(requests) > 1:
            raise httpx.ReadError("reset")
        return httpx.Response(response.status_code, content=response.content)

    http = httpx.Client(transport=httpx.MockTransport(respond))
    events = [NewEvent(number) for number in range(2_500)]
    with pytest.raises(ConnectionFailed) as interrupted:
        Client(**place, http=http).push_many("many", events)
    assert len(interrupted.value.pushed) == 1_000
    assert interrupted.value.remaining == events[1_000:]
    with Client(**place) as client:
        rest = client.push_many("many", interrupted.value.remaining)
        assert [event.duplicate for event in rest] == [True] * 1_000 + [False] * 500
        again = client.push_many("many", events)
        assert [event.id for event in again] == [
            event.id for event in (*interrupted.value.pushed, *rest)
        ]
        assert client.stats("many")["ready"] == 2_500


@pytest.mark.parametrize(
    ("count", "payload", "requests"),
    [
        (1_000, "x" * 9_000, 2),
        (9, "x" * 1_000_000, 2),
        (9, b"\x00" * 1_000_000, 2),
        (20, "\u00e9\u2028" * 200_000, 3),
        (20, '"' * 500_000, 3),
        (1_001, None, 2),
    ],
)
def test_a_push_of_many_has_as_many_requests_as_their_bytes_need(
    duly_client: Client, monkeypatch: pytest.MonkeyPatch, count: int, payload: object, requests: int
) -> None:
    sent: list[int] = []
    send = duly_client._http.request

    def counted(*args: Any, **options: Any) -> httpx.Response:
        response = send(*args, **options)
        sent.append(len(response.request.content))
        return response

    monkeypatch.setattr(duly_client._http, "request", counted)
    pushed = duly_client.push_many("many", [NewEvent(payload) for _ in range(count)])
    assert len({event.id for event in pushed}) == count
    assert len(sent) == requests
    assert max(sent) < 8 << 20


def test_a_later_request_that_is_stored_in_part_has_the_results_of_all(
    duly_client: Client,
) -> None:
    duly_client.push("part", 1, idempotency_key="a")
    events = [*map(NewEvent, range(1_000)), NewEvent(2, idempotency_key="a"), NewEvent(3)]
    with pytest.raises(PushManyError) as part:
        duly_client.push_many("part", events)
    statuses = [getattr(result, "status", 201) for result in part.value.results]
    assert statuses == [201] * 1_000 + [409, 201]


def test_a_wrong_event_among_many_is_refused_before_anything_is_sent(duly_client: Client) -> None:
    with pytest.raises(UsageError):
        duly_client.push_many("q", [*map(NewEvent, range(1_000)), NewEvent(1, attempts=0)])
    assert duly_client.stats("q")["ready"] == 0


def test_a_snooze_or_a_retry_that_is_late_already_is_due_at_once() -> None:
    for settlement in (snooze(-0.01), snooze(timedelta(seconds=-1)), retry("why", -1)):
        assert settlement.body["delay_ms"] == 0
    with pytest.raises(UsageError):
        snooze(float("nan"))


ONE = {"id": "7", "due_ms": 0, "duplicate": True}


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(200, html="<h1>Log in</h1>"),
        httpx.Response(201, json=[]),
        httpx.Response(201, json=[ONE]),
        httpx.Response(207, json=[ONE]),
        httpx.Response(201, json=[ONE, ONE, ONE]),
        httpx.Response(201, json=[{**ONE, "due_ms": 1e20}] * 2),
        httpx.Response(201, text="[" * 100_000),
        httpx.Response(503, text="[" * 100_000, headers={b"Retry-After": b"\xb2"}),
    ],
)
def test_a_response_of_something_else_is_an_error(
    response: httpx.Response, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    http = httpx.Client(transport=httpx.MockTransport(lambda _: response))
    client = Client(token="x", namespace="ns", http=http)
    with pytest.raises((ConnectionFailed, UnavailableError)) as failed:
        client.push_many("q", [NewEvent(1), NewEvent(2)])
    assert len(failed.value.remaining) == 2


def test_errors_say_what_would_be_right(duly_server: TestServer, duly_client: Client) -> None:
    with pytest.raises(InvalidError, match="`duly-`"):
        duly_client.push("close", 1, headers={"duly-x": "1"})
    stranger = Client(duly_server.url, token="x", namespace="other")
    with stranger, pytest.raises(DeniedError) as denied:
        stranger.push("close", 1)
    assert denied.value.problem.status == 401
    wrongs: list[tuple[dict[str, Any], str]] = [
        ({"delay": -1}, "delay is -1"),
        ({"delay": 1, "at": datetime.now(timezone.utc)}, "give one of them"),
        ({"at": datetime.now()}, "no time zone"),
        ({"attempts": 0}, "1 to 65535"),
        ({"id": "x", "idempotency_key": "y"}, "give one of them"),
    ]
    for wrong, word in wrongs:
        with pytest.raises(UsageError, match=word):
            duly_client.push("close", 1, **wrong)
    with pytest.raises(UsageError, match="letters, digits"):
        duly_client.push("a/b", 1)
    with pytest.raises(UsageError, match="as JSON"):
        duly_client.push("close", object())


def test_a_server_that_is_away_is_told_after_some_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    client = Client("http://127.0.0.1:9", token="x", namespace="ns")
    with pytest.raises(ConnectionFailed):
        client.push("close", 1)
    assert len(pauses) == 4
    assert all(0 < pause <= 5 for pause in pauses)


@pytest.mark.parametrize(
    ("status", "kind", "requests"),
    [
        (500, "unknown", 2),
        (500, "corrupt", 1),
        (408, "timeout", 2),
        *[(status, None, 2) for status in (408, 429, 502, 504, 520, 522, 524, 530, 599)],
        *[(status, None, 2) for status in (401, 403, 404)],
        *[(400, "invalid", 1), (401, "unauthorized", 1), (403, "forbidden", 1)],
        *[(status, None, 1) for status in (400, 410, 413, 422)],
    ],
)
def test_a_push_of_which_the_server_does_not_know_is_repeated_under_its_key(
    status: int, kind: str | None, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    sent: list[bytes] = []

    def respond(request: httpx.Request) -> httpx.Response:
        sent.append(request.content)
        if len(sent) == 1:
            if kind is None:
                return httpx.Response(status, text="<html>origin is unreachable</html>")
            problem = {"status": status, "title": "", "detail": "the reply was lost", "kind": kind}
            return httpx.Response(status, json=problem)
        return httpx.Response(201, json=[{"id": "7", "due_ms": 0, "duplicate": True}])

    http = httpx.Client(transport=httpx.MockTransport(respond))
    client = Client(token="x", namespace="ns", http=http)
    with contextlib.suppress(ProblemError):
        assert client.push("close", 1).duplicate
    assert len(sent) == requests
    assert len(set(sent)) == 1


def test_a_version_goes_with_an_event_that_has_one() -> None:
    task = App().task(queue="close")(print)
    for event in (NewEvent(1, version=2), task.event(1, version=2)):
        assert event.body()["version"] == 2
    assert "version" not in NewEvent(1).body()
    for version in (-1, 4_294_967_296):
        with pytest.raises(UsageError, match="0 to 4294967295"):
            NewEvent(1, version=version).body()


def test_the_asyncio_client_does_the_same(duly_server: TestServer, place: Place) -> None:
    async def case() -> None:
        async with AsyncClient(**place) as client:
            pushed = await client.push("close", [1, 2], delay=60)
            waiting = asyncio.create_task(client.lease("close", wait=8))
            duly_server.advance(60)
            (lease,) = await waiting
            assert (lease.id, lease.payload(list[int])) == (pushed.id, [1, 2])
            await client.extend(lease, 5)
            await client.settle(lease, ack())
            with pytest.raises(NotFoundError):
                await client.get("close", pushed.id)

    asyncio.run(case())


def test_a_process_that_has_forked_shares_no_connection(place: Place) -> None:
    app = App(**place)
    task = app.task(queue="q")(print)
    assert app.client.push("q", 0).duplicate is False  # a connection is open

    def own(name: str) -> bool:
        """Returns whether each push and each look-up has its own response."""
        pushed = [task.push(f"{name}{number}") for number in range(50)]
        found = [app.client.get("q", event.id).payload() for event in pushed]
        return found == [f"{name}{number}" for number in range(50)]

    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if own("child") else 2
        finally:
            os._exit(code)
    parent = own("parent")
    assert os.waitpid(child, 0)[1] == 0
    assert parent
    app.close()


def test_processes_that_are_forked_while_a_thread_pushes_do_so_too(place: Place) -> None:
    app = App(**place)
    task = app.task(queue="q")(print)
    stop = threading.Event()

    def push() -> None:
        while not stop.is_set():
            task.push("parent")

    thread = threading.Thread(target=push)
    thread.start()
    children = []
    for _ in range(8):  # as gunicorn does, at any time of the push
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if len({task.push("child").id for _ in range(5)}) == 5 else 2
            finally:
                os._exit(code)
        children.append(child)
    ends = [os.waitpid(child, 0)[1] for child in children]
    stop.set()
    thread.join()
    assert ends == [0] * 8
    app.close()


def test_a_clock_that_is_not_manual_is_not_moved(lasting_server: TestServer) -> None:
    with pytest.raises(UsageError, match="memory:"):
        lasting_server.advance(1)
