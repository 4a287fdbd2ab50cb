"""A server that is killed and started again under load: nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter

import httpx

from duly import (
    AsyncClient,
    Backoff,
    ConnectionFailed,
    NewEvent,
    Pushed,
    UnavailableError,
    Worker,
)
from duly.testing import TestServer

from .conftest import client_of, running, until

COUNT = 600
KILLS = 3


async def left(client: AsyncClient) -> int:
    """Returns how many events are not over; an ack that was lost is one that comes back."""
    stats = await client.stats("q")
    return sum(int(stats[state]) for state in ("scheduled", "ready", "leased", "dead"))


def test_nothing_is_lost_when_the_server_is_killed(lasting_server: TestServer) -> None:
    ends: Counter[int] = Counter()

    async def handle(payload: int) -> None:
        await asyncio.sleep(0.002)
        ends[payload] += 1

    async def push() -> list[str]:
        ids = []
        async with client_of(lasting_server) as client:
            for begin in range(0, COUNT, 20):
                numbers = range(begin, begin + 20)
                events = [NewEvent(n, attempts=99, idempotency_key=f"n{n}") for n in numbers]
                pushed: list[Pushed] = []
                while not pushed:  # a start may take longer than the client repeats a push
                    with contextlib.suppress(ConnectionFailed, UnavailableError):
                        pushed = await client.push_many("q", events)
                ids += [event.id for event in pushed]
                await asyncio.sleep(0.01)
        return ids

    async def kill() -> None:
        for number in range(1, KILLS + 1):
            await until("some are done", lambda n=number: len(ends) >= n * COUNT // 10)  # type: ignore[misc]
            lasting_server.kill()
            await asyncio.to_thread(lasting_server.start)

    async def case() -> list[str]:
        async with client_of(lasting_server) as client:
            quick = Backoff(first=0.02, longest=0.2)
            async with running(Worker(client, "q", handle, concurrency=20, ttr=2, backoff=quick)):
                ids, _ = await asyncio.gather(push(), kill())
                await until("all are done", lambda: len(ends) == COUNT)
                while await left(client):  # noqa: ASYNC110 - what is done elsewhere tells nobody
                    await asyncio.sleep(0.05)
            states = Counter([(await client.explain("q", event))["state"] for event in ids])
            assert states == {"done": COUNT}
            return ids

    ids = asyncio.run(case())
    assert len(set(ids)) == COUNT
    assert set(ends) == set(range(COUNT))
    with lasting_server.client() as client:
        stats = client.stats("q")
        assert [stats[state] for state in ("scheduled", "ready", "leased", "dead")] == [0, 0, 0, 0]


def environment_of(server: TestServer) -> dict[str, str]:
    """Returns the environment of a program that uses a server."""
    place = {"URL": server.url, "TOKEN": server.token, "NAMESPACE": server.namespace}
    return {**os.environ, **{f"DULY_{name}": value for name, value in place.items()}}


PROGRAM = """
import duly, sys, time
app = duly.App()

@app.task(queue="q", concurrency=2)
def work(payload: int) -> None:
    print("begun", flush=True)
    sys.stdin.readline()
    print("ended", flush=True)

app.run()
print("stopped", flush=True)
"""


def test_a_program_that_is_told_to_stop_ends_what_it_has_begun(lasting_server: TestServer) -> None:
    with lasting_server.client() as client:
        pushed = client.push("q", 1)
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=environment_of(lasting_server),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            assert process.stdout.readline() == "begun\n"
            process.send_signal(signal.SIGTERM)
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "ended\n"
            assert process.stdout.readline() == "stopped\n"
            assert process.wait() == 0
        assert client.explain("q", pushed.id)["state"] == "done"


STUCK = """
import asyncio, duly, threading

def work(payload: int) -> None:
    print("begun", flush=True)
    threading.Event().wait()

async def main() -> None:
    async with duly.AsyncClient() as client:
        await duly.Worker(client, "q", work, grace=0).run(signals=True)

asyncio.run(main())
print("stopped", flush=True)
"""


def test_a_program_that_is_told_to_stop_waits_for_no_thread_for_ever(
    lasting_server: TestServer,
) -> None:
    with lasting_server.client() as client:
        client.push("q", 1)
        with subprocess.Popen(
            [sys.executable, "-c", STUCK],
            env=environment_of(lasting_server),
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "begun\n"
                process.send_signal(signal.SIGTERM)
                assert process.stdout.readline() == "stopped\n"
                assert process.wait(20) == 0
            finally:
                process.kill()
        (lease,) = client.lease("q", wait=8)
        assert lease.attempt == 1


LEFT_BEHIND = """
import time
from duly.testing import TestServer

with TestServer() as server:
    print(server.admin_url, flush=True)
    time.sleep(1_000)
"""


def test_a_server_ends_with_a_test_that_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LEFT_BEHIND], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert httpx.get(f"{url}/clock").is_success
        process.kill()

    def is_gone() -> bool:
        try:
            httpx.get(f"{url}/clock")
        except httpx.TransportError:
            return True
        return False

    asyncio.run(until("the server has ended", is_gone))
