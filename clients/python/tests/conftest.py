from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import TypedDict

import pytest

from duly import App, AsyncClient, Worker
from duly.testing import TestServer


@pytest.fixture
def namespace() -> str:
    return f"test-{uuid.uuid4().hex}"


class Place(TypedDict):
    url: str
    token: str
    namespace: str


@pytest.fixture
def place(duly_server: TestServer, namespace: str) -> Place:
    """Where a client of a test finds its server."""
    token = duly_server.new_token(namespace)
    return {"url": duly_server.url, "token": token, "namespace": namespace}


@pytest.fixture
def app(place: Place) -> Iterator[App]:
    """An app whose connections end with the test."""
    app = App(**place)
    yield app
    app.close()


@asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[asyncio.Task[None]]:
    """Runs a worker beside a test."""
    task = asyncio.create_task(worker.run())
    try:
        yield task
    finally:
        worker.stop()
        await asyncio.wait({task})
        if not task.cancelled() and (error := task.exception()):
            raise error


async def until(what: str, holds: Callable[[], bool]) -> None:
    """Waits for a condition; a test that hangs is ended by its runner."""
    while not holds():  # noqa: ASYNC110 - whatever holds may tell nobody
        await asyncio.sleep(0.01)
    assert holds(), what


@pytest.fixture
def lasting_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestServer]:
    """A server on a file, which may be killed and started again."""
    folder = tmp_path_factory.mktemp("duly")
    with TestServer(f"sqlite:{folder / 'jobs.db'}") as server:
        yield server


def client_of(server: TestServer) -> AsyncClient:
    return AsyncClient(server.url, token=server.token, namespace=server.namespace)


async def quiet(task: asyncio.Task[None]) -> None:
    """Ends a task of a test."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
