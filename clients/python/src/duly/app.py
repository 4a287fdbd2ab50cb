"""Tasks: functions with a queue, which are pushed by one process and run by another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any, Generic, ParamSpec, TypeVar

from .blocking import Client
from .client import AsyncClient
from .errors import UsageError
from .messages import NewEvent, Pushed
from .protocol import checked_name
from .signals import stopped_by_signals
from .spans import Span
from .worker import Worker

P = ParamSpec("P")
R = TypeVar("R")


class Task(Generic[P, R]):
    """A function of an app; call it as before, or push its payload."""

    def __init__(
        self,
        app: App,
        function: Callable[P, R],
        *,
        queue: str,
        attempts: int | None,
        timeout: float | None,
        ttr: float,
        concurrency: int,
    ) -> None:
        self.app = app
        self.function = function
        self.queue = checked_name("queue", queue)
        self.attempts = attempts
        self.timeout = timeout
        self.ttr = ttr
        self.concurrency = concurrency
        self.__name__ = getattr(function, "__name__", queue)
        self.__doc__ = function.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def event(
        self,
        payload: object,
        *,
        delay: Span | None = None,
        at: datetime | None = None,
        key: str | None = None,
        unique: str | None = None,
        replace: bool = False,
        attempts: int | None = None,
        expires: Span | None = None,
        keep_payload: bool | None = None,
        version: int = 0,
        headers: Mapping[str, str] | None = None,
        id: str | None = None,  # noqa: A002 - as in NewEvent
        idempotency_key: str | None = None,
    ) -> NewEvent:
        """Returns an event of this task, to push with others."""
        return NewEvent(
            payload,
            delay=delay,
            at=at,
            key=key,
            unique=unique,
            replace=replace,
            attempts=self.attempts if attempts is None else attempts,
            expires=expires,
            keep_payload=keep_payload,
            version=version,
            headers=headers or {},
            id=id,
            idempotency_key=idempotency_key,
        )

    def push(self, payload: object, **options: Any) -> Pushed:
        """Pushes a payload; the options are those of `event`."""
        return self.push_many([self.event(payload, **options)])[0]

    def push_many(self, events: Iterable[NewEvent]) -> list[Pushed]:
        """Pushes events, with each request a thousand or 7 MiB."""
        return self.app.client.push_many(self.queue, events)

    async def apush(self, payload: object, **options: Any) -> Pushed:
        """As `push`, without blocking the loop."""
        return (await self.apush_many([self.event(payload, **options)]))[0]

    async def apush_many(self, events: Iterable[NewEvent]) -> list[Pushed]:
        """As `push_many`, without blocking the loop."""
        client = await self.app._shared_client()
        return await client.push_many(self.queue, events)


class _Shared:
    """A client of a loop, which closes it when it ends, as it does with each async generator."""

    def __init__(self, client: AsyncClient) -> None:
        self.client = client
        self._open = _kept(client)

    async def open(self) -> None:
        await self._open.__anext__()

    async def close(self) -> None:
        await self._open.aclose()


async def _kept(client: AsyncClient) -> AsyncGenerator[None, None]:
    async with client:
        yield


class App:
    """The tasks of a program, and how it reaches its server.

    What is not given comes from `DULY_URL`, `DULY_TOKEN` and `DULY_NAMESPACE`, when it is first
    needed.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        namespace: str | None = None,
    ) -> None:
        self._url, self._token, self._namespace = url, token, namespace
        self._client: Client | None = None
        self._shared: dict[asyncio.AbstractEventLoop, _Shared] = {}
        self.tasks: dict[str, Task[Any, Any]] = {}

    @property
    def client(self) -> Client:
        """The blocking client; it may be used by several threads."""
        if self._client is None:
            self._client = Client(self._url, token=self._token, namespace=self._namespace)
        return self._client

    def async_client(self) -> AsyncClient:
        """Returns a new client for the running loop; close it."""
        return AsyncClient(self._url, token=self._token, namespace=self._namespace)

    async def _shared_client(self) -> AsyncClient:
        """Returns the client of the running loop, which `apush` uses."""
        loop = asyncio.get_running_loop()
        for old in list(self._shared):  # a loop that is closed keeps nothing
            if old.is_closed():
                self._shared.pop(old, None)
        shared = self._shared.get(loop)
        if shared is None:
            shared = self._shared[loop] = _Shared(self.async_client())
            await shared.open()
        return shared.client

    async def aclose(self) -> None:
        """Closes the connections of `apush` in the running loop, as the end of the loop does."""
        shared = self._shared.pop(asyncio.get_running_loop(), None)
        if shared is not None:
            await shared.close()

    def configure(self, url: str, *, token: str, namespace: str) -> None:
        """Uses another server from now on, such as that of a test."""
        self.close()
        self._shared.clear()
        self._url, self._token, self._namespace = url, token, namespace

    def close(self) -> None:
        """Closes the connections of the blocking client."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def task(
        self,
        *,
        queue: str,
        attempts: int | None = None,
        timeout: float | None = None,
        ttr: float = 30.0,
        concurrency: int = 10,
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        """Makes a function the handler of a queue.

        `attempts` is the default of its events, `timeout` ends an attempt, `ttr` is the length of a
        lease, which is extended, and `concurrency` how many run at a time in one process.
        """

        def decorate(function: Callable[P, R]) -> Task[P, R]:
            if queue in self.tasks:
                name = self.tasks[queue].__name__
                raise UsageError(f"the queue {queue} has a task already, {name}")
            task = Task(
                self,
                function,
                queue=queue,
                attempts=attempts,
                timeout=timeout,
                ttr=ttr,
                concurrency=concurrency,
            )
            self.tasks[queue] = task
            return task

        return decorate

    def workers(
        self,
        client: AsyncClient,
        queues: Iterable[str] | None = None,
        *,
        grace: float = 25.0,
    ) -> list[Worker]:
        """Returns a worker for each task, or for those of some queues."""
        chosen = list(self.tasks if queues is None else queues)
        unknown = [queue for queue in chosen if queue not in self.tasks]
        if unknown or not chosen:
            known = ", ".join(self.tasks) or "none"
            raise UsageError(f"no task of the queue {unknown or '(none)'}; there are: {known}")
        return [
            Worker(
                client,
                task.queue,
                task.function,
                concurrency=task.concurrency,
                timeout=task.timeout,
                ttr=task.ttr,
                grace=grace,
            )
            for task in (self.tasks[queue] for queue in chosen)
        ]

    def run(
        self,
        queues: Iterable[str] | None = None,
        *,
        signals: bool = True,
        grace: float = 25.0,
    ) -> None:
        """Runs the workers of this program until TERM or INT; they let handlers end within `grace`.

        Only the main thread has signals: another one runs the workers with `signals=False`, for as
        long as the process lives.
        """
        asyncio.run(self.arun(queues, signals=signals, grace=grace))

    async def arun(
        self,
        queues: Iterable[str] | None = None,
        *,
        signals: bool = True,
        grace: float = 25.0,
    ) -> None:
        """Runs the workers; cancelled, or by TERM or INT, it stops them in order."""
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(self.async_client())
            workers = self.workers(client, queues, grace=grace)

            def stop() -> None:
                for worker in workers:
                    worker.stop()

            if signals:
                stack.enter_context(stopped_by_signals(stop))
            running = [asyncio.create_task(worker.run()) for worker in workers]
            try:
                await asyncio.gather(*map(asyncio.shield, running))
            finally:
                stop()
                await asyncio.gather(*running, return_exceptions=True)
