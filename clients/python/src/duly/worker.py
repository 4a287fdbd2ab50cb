"""A worker: it takes leases from a stream and runs a handler for each, so many at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import uuid
from collections.abc import Callable
from typing import Any

from .attempt import Attempt, Handler
from .backoff import Backoff
from .client import AsyncClient
from .errors import (
    ConnectionFailed,
    DeniedError,
    InvalidError,
    LeaseLostError,
    NotFoundError,
    ProblemError,
    UsageError,
)
from .messages import Lease
from .protocol import IN_FLIGHT_MAX, asked_pause
from .settlements import Settlement, ack, release
from .signals import stopped_by_signals
from .threads import Threads

log = logging.getLogger("duly")

STREAM_LASTED = 5.0
"""A stream that lasted so long is no failure: the next one begins after the shortest pause."""
TTR_MIN = 1.0
DRAIN_MAX = 5.0
"""How long a stop waits for the server to drain a stream, and then to end it."""
DRAIN_AGAIN = 0.05
"""How long until a stream that the server does not know yet is drained again."""
SETTLE_MAX = 5.0
"""How long a stop waits for a settlement after the grace period."""
SLOT_WAIT = 0.5
"""For which part of its lease an event waits for a slot, before it is handed back."""


class _Ages:
    """Tells how long leases of a stream have lain in its socket, while the loop was blocked.

    The clocks of the server and of this machine need not agree: only differences count.
    """

    def __init__(self, ttr: float) -> None:
        self._ttr = ttr
        self._least = math.inf

    def age(self, lease: Lease) -> float:
        """Returns by how much longer a lease was on its way than the quickest one."""
        leased = lease.deadline.timestamp() - self._ttr
        passed = asyncio.get_running_loop().time() - leased
        self._least = min(self._least, passed)
        return passed - self._least

    def begin_anew(self) -> None:
        """Forgets the quickest one: a clock was set."""
        self._least = math.inf


class Worker:
    """Runs `handler` for the events of a queue.

    Leases are extended while handlers run. A handler whose lease is lost is cancelled, as another
    worker may have the event. `stop` lets handlers end within `grace` seconds, and hands back the
    events of the others.
    """

    def __init__(
        self,
        client: AsyncClient,
        queue: str,
        handler: Callable[..., Any],
        *,
        concurrency: int = 10,
        timeout: float | None = None,
        ttr: float = 30.0,
        grace: float = 25.0,
        backoff: Backoff | None = None,
    ) -> None:
        if not 1 <= concurrency <= IN_FLIGHT_MAX:
            raise UsageError(f"concurrency is {concurrency}; it must be 1 to {IN_FLIGHT_MAX}")
        if ttr < TTR_MIN:
            raise UsageError(f"ttr is {ttr} s; it must be at least {TTR_MIN:.0f} s")
        self.client = client
        self.queue = queue
        self.ready = asyncio.Event()
        """Set when the server has begun a stream, as then what is due is handled; or at its end."""
        self._handler = Handler.of(handler)
        self._concurrency = concurrency
        self._timeout = timeout
        self._ttr = ttr
        self._grace = grace
        self._backoff = backoff or Backoff()
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._name = ""
        self._live = ""
        """The name of the stream that goes on, if there is one."""
        self._is_drained = False
        self._undrained = 0
        self._slots = asyncio.Semaphore(concurrency)
        self._extending: set[asyncio.Future[None]] = set()
        self._running: dict[asyncio.Task[None], Attempt] = {}
        self._waiting: set[asyncio.Future[Any]] = set()
        """What those of them wait for that have no slot yet."""

    def stop(self) -> None:
        """Takes no more events; `run` returns when those that run have ended.

        Any thread may call it.
        """
        if self._loop is None:
            self._stopping.set()
            return
        with contextlib.suppress(RuntimeError):  # the loop has ended, and `run` with it
            self._loop.call_soon_threadsafe(self._stopping.set)

    async def run(self, *, signals: bool = False) -> None:
        """Runs until it is stopped; with `signals` by TERM or INT.

        Cancelled, it stops without waiting for handlers, and seconds at most for the server.
        """
        threads = Threads()
        self._loop = asyncio.get_running_loop()
        try:
            with stopped_by_signals(self.stop) if signals else contextlib.nullcontext():
                await self._receive(threads)
        finally:
            self._stopping.set()
            self.ready.set()
            await self._cancel_all()
            # A handler in a thread that ignores `Context.lost` is left to itself.
            threads.close()

    async def _receive(self, threads: Threads) -> None:
        """Streams leases, and again after a pause when the connection ends, until it is stopped."""
        loop = asyncio.get_running_loop()
        failures = 0
        while not self._stopping.is_set():
            begun = loop.time()
            self._name = uuid.uuid4().hex
            streaming = asyncio.create_task(self._stream(threads))
            stopped = asyncio.create_task(self._stopping.wait())
            try:
                await asyncio.wait({streaming, stopped}, return_when=asyncio.FIRST_COMPLETED)
                if self._stopping.is_set():
                    await self._end_stream(streaming, self._grace)
            except asyncio.CancelledError:
                self._stopping.set()
                await self._end_stream(streaming, 0.0)
                raise
            finally:
                stopped.cancel()
                streaming.cancel()
                await asyncio.wait({streaming})
            try:
                with contextlib.suppress(asyncio.CancelledError):
                    await streaming
            except (ConnectionFailed, ProblemError) as error:
                if isinstance(error, (DeniedError, InvalidError)) and not error.problem.is_bare:
                    raise  # another try would be refused as well
                if self._stopping.is_set():
                    break  # as it was told to
                failures = 1 if loop.time() - begun >= STREAM_LASTED else failures + 1
                log.warning("no leases of %s for now: %s", self.queue, error)
                pause = max(self._backoff.pause(failures), asked_pause(error))
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), pause)
        await self._drain(self._grace)

    async def _stream(self, threads: Threads) -> None:
        # Again, as the server may have been away when an earlier stream ended.
        self._check_leases()
        name = self._live = self._name
        stream = self.client.stream(
            self.queue,
            ttr=self._ttr,
            max_in_flight=self._concurrency,
            name=name,
            begun=self.ready.set,
        )
        ages = _Ages(self._ttr)
        try:
            async for lease in stream:
                age = ages.age(lease)
                if self._stopping.is_set():
                    await self._hand_back(lease)
                    continue
                attempt = Attempt(
                    self.client,
                    lease,
                    self._handler,
                    ttr=self._ttr,
                    timeout=self._timeout,
                    threads=threads,
                    extending=self._extending,
                    stream=name,
                    age=age,
                    misjudged=ages.begin_anew,
                )
                task = asyncio.create_task(self._work(attempt))
                self._running[task] = attempt
                task.add_done_callback(self._running.pop)
        finally:
            self._live = ""
            # The server gives back what is not extended soon.
            self._check_leases()

    def _check_leases(self) -> None:
        for attempt in self._running.values():
            attempt.check_lease()

    async def _hand_back(self, lease: Lease) -> None:
        """Releases a lease that came after the stop; undrained, the server would send it again."""
        await self._drain_stream()
        await self._settle(lease, release())
        if not self._is_drained:
            self._undrained += 1
            await asyncio.sleep(self._backoff.pause(self._undrained))

    async def _work(self, attempt: Attempt) -> None:
        """Runs an attempt when there is a slot.

        Leases wait for one after a reconnection, and while threads outlast their attempts.
        """
        try:
            if not await self._slot():
                if not self._stopping.is_set():
                    text = "no slot for %s of %s; it is handed back"
                    log.warning(text, attempt.lease.id, self.queue)
                await self._settle(attempt.lease, release(), attempt.ends)
                return
            try:
                settlement = await self._run(attempt)
                if settlement is not None:
                    await self._settle(attempt.lease, settlement, attempt.ends)
            finally:
                attempt.when_over(self._slots.release)
        except asyncio.CancelledError:
            # What has been done is not to be done again, even if its settling was cut short.
            await self._settle_last(attempt.lease, attempt.settlement or release())

    async def _slot(self) -> bool:
        """Waits for a slot, and returns whether there is one in time; a stop ends the waiting."""
        if not self._slots.locked():
            return await self._slots.acquire()
        if self._stopping.is_set():
            return False
        # Not by `wait_for`, which may swallow a cancellation before Python 3.12.
        waiting = asyncio.ensure_future(self._slots.acquire())
        self._waiting.add(waiting)
        try:
            await asyncio.wait({waiting}, timeout=self._ttr * SLOT_WAIT)
        except asyncio.CancelledError:
            if not waiting.cancel() and not waiting.cancelled():
                self._slots.release()
            raise
        finally:
            self._waiting.discard(waiting)
        return not waiting.cancel() and not waiting.cancelled()

    async def _run(self, attempt: Attempt) -> Settlement | None:
        """Runs an attempt that has a slot; `None` if its lease is lost, and with it its end."""
        # What a stream has sent may have been given back when it ended.
        is_sure = self._stopping.is_set() or attempt.stream == self._live
        if not (is_sure or await attempt.is_held()):
            log.warning("lease of %s lost before its handler began", attempt.lease.id)
            return None
        return release() if self._stopping.is_set() else await attempt.run()

    async def _settle(self, lease: Lease, settlement: Settlement, ends: float = 0.0) -> None:
        """Settles a lease, while that goes on again and again where the server is away."""
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            try:
                lasts = ends - loop.time() if ends else math.inf
                return await self.client._settle(lease, settlement, lasts)
            except LeaseLostError:
                log.warning("%s of %s is too late: the lease is lost", settlement.outcome, lease.id)
                return None
            except (ProblemError, ConnectionFailed) as error:
                log.warning("%s of %s failed: %s", settlement.outcome, lease.id, error)
                if isinstance(error, InvalidError) and "reply" in settlement.body:
                    # It is the reply that is refused; the event is done all the same.
                    settlement = ack()
                    continue
                may_pass = isinstance(error, ConnectionFailed) or error.may_pass
            failures += 1
            pause = self._backoff.pause(failures)
            if not may_pass or loop.time() + pause >= ends:
                return None  # the event comes back when its lease ends
            await asyncio.sleep(pause)

    async def _settle_last(self, lease: Lease, settlement: Settlement) -> None:
        """Settles a lease once more and not for long; no other cancellation cuts that."""
        ends = asyncio.get_running_loop().time() + SETTLE_MAX
        settling = self._settle(lease, settlement, ends)
        last = asyncio.create_task(asyncio.wait_for(settling, SETTLE_MAX))
        while not last.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({last})
        with contextlib.suppress(asyncio.TimeoutError):
            last.result()

    async def _end_stream(self, streaming: asyncio.Task[None], grace: float) -> None:
        """Stops: nothing more is sent, and what was sent ends or is handed back."""
        await self._drain_stream(streaming)
        await self._drain(grace)
        if self._is_drained:
            await asyncio.wait({streaming}, timeout=DRAIN_MAX)

    async def _drain_stream(self, streaming: asyncio.Task[None] | None = None) -> None:
        """Lets the server send nothing more.

        It does not know yet a stream that is about to begin: that is drained when it has begun.
        """
        if self._is_drained:
            return
        try:
            await asyncio.wait_for(self._drain_known(streaming), DRAIN_MAX)
        except (ProblemError, ConnectionFailed, asyncio.TimeoutError) as error:
            # The server gives back what is on its way when the connection ends.
            log.warning("stream of %s not drained: %r", self.queue, error)

    async def _drain_known(self, streaming: asyncio.Task[None] | None) -> None:
        loop = asyncio.get_running_loop()
        ends = loop.time() + DRAIN_MAX
        while not self._is_drained:
            try:
                await self.client._drain(self.queue, self._name, ends - loop.time())
                self._is_drained = True
            except NotFoundError:
                if streaming is None or streaming.done():
                    raise
                await asyncio.wait({streaming}, timeout=DRAIN_AGAIN)

    async def _drain(self, grace: float) -> None:
        """Waits for what runs, cancels what takes longer than the grace period.

        What waits for a slot is handed back at once, as it has not begun.
        """
        for waiting in self._waiting:
            waiting.cancel()
        running = list(self._running)
        if running:
            await asyncio.wait(running, timeout=grace)
        await self._cancel_all()

    async def _cancel_all(self) -> None:
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
