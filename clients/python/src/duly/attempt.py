"""One attempt: a handler runs while its lease is extended, and its end becomes a settlement."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, get_args

from .client import AsyncClient
from .errors import ConnectionFailed, LeaseLostError, NotFoundError, ProblemError, UsageError
from .messages import Lease
from .payloads import PayloadError
from .settlements import Outcome, Settlement, ack, bury, retry
from .threads import Threads

log = logging.getLogger("duly")

EXTENSIONS = 3
"""How often a lease is extended within its length."""


class _OldLeaseError(Exception):
    """Others have blocked the loop since the lease was extended."""


@dataclass(frozen=True)
class Context:
    """What a handler may know of its attempt."""

    lease: Lease
    lost: threading.Event = field(default_factory=threading.Event)
    """Set when the lease is lost or nobody waits any more; a handler in a thread polls it."""

    @property
    def id(self) -> str:
        return self.lease.id

    @property
    def attempt(self) -> int:
        return self.lease.attempt


@dataclass(frozen=True)
class Handler:
    """A function with what is known of it."""

    function: Callable[..., Any]
    payload_type: Any
    wants_context: bool
    is_async: bool

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Handler:
        """Reads the signature: a payload, and a `Context` if it wants one."""
        name = getattr(function, "__name__", "the handler")
        try:
            signature = inspect.signature(function, eval_str=True)
        except NameError as error:
            raise UsageError(
                f"an annotation of {name} is unknown: {error}; its type must be one of the module"
            ) from error
        payload, wants_context = _parameters(name, signature)
        annotation = payload.annotation
        is_typed = annotation is not payload.empty and payload.kind != payload.VAR_POSITIONAL
        payload_type = annotation if is_typed else None
        calls = (function, getattr(function, "__call__", None))  # noqa: B004 - an object has one
        is_async = any(inspect.iscoroutinefunction(call) for call in calls)
        return cls(function, payload_type, wants_context, is_async)

    def arguments(self, context: Context) -> list[Any]:
        payload = context.lease.payload(self.payload_type)
        return [payload, context] if self.wants_context else [payload]


def _parameters(name: str, signature: inspect.Signature) -> tuple[inspect.Parameter, bool]:
    """Returns the one of the payload, and whether another one takes the context."""
    parameters = signature.parameters.values()
    by_place = [
        it for it in parameters if it.kind in (it.POSITIONAL_ONLY, it.POSITIONAL_OR_KEYWORD)
    ]
    needed = [it for it in by_place if it.default is it.empty]
    others = [it.name for it in parameters if it.kind == it.KEYWORD_ONLY and it.default is it.empty]
    rest = [it for it in parameters if it.kind == it.VAR_POSITIONAL]
    takes = "a handler takes a payload, and a duly.Context if it wants one"
    if others:
        raise UsageError(f"{name} needs {', '.join(others)} by name; {takes}")
    if len(needed) > 2 or not (by_place or rest):
        raise UsageError(f"{name} takes {len(needed)} arguments; {takes}")
    second = by_place[1] if len(by_place) > 1 else None
    wants_context = second is not None and (second in needed or _is_context(second.annotation))
    return (by_place or rest)[0], wants_context


def _is_context(annotation: object) -> bool:
    return annotation is Context or Context in get_args(annotation)


class Attempt:
    """Runs a handler for a lease."""

    def __init__(
        self,
        client: AsyncClient,
        lease: Lease,
        handler: Handler,
        *,
        ttr: float,
        timeout: float | None,
        threads: Threads,
        extending: set[asyncio.Future[None]] | None = None,
        stream: str = "",
        age: float = 0.0,
        misjudged: Callable[[], None] = lambda: None,
    ) -> None:
        """`age` is for how long the lease goes on already, as far as is known.

        `misjudged` is called where the server says that it was not so old.
        """
        self.lease = lease
        self.stream = stream
        """The name of the stream that has sent it."""
        self._client = client
        self._handler = handler
        self._ttr = ttr
        self._timeout = timeout
        self._threads = threads
        self.settlement: Settlement | None = None
        """How its handler has ended, unless it failed as it was told to end."""
        self._context = Context(lease)
        self._check = asyncio.Event()
        self._extending = set() if extending is None else extending
        """The extensions of all attempts of a worker that have no response yet."""
        self._received = asyncio.get_running_loop().time()
        self._age = age
        """By how much earlier than `ends` the lease may end: an extension confirms that."""
        self._misjudged = misjudged
        self._renewed = self._received - age
        self.ends = self._received + ttr
        """When the lease ends, by the clock of the loop, if no later extension was confirmed."""
        self._thread: Future[Any] | None = None

    def check_lease(self) -> None:
        """Extends the lease at once: it may have been lost."""
        self._check.set()

    async def is_held(self) -> bool:
        """Extends the lease, and returns whether it goes on as far as is known."""
        mine = asyncio.get_running_loop().create_future()
        self._extending.add(mine)
        try:
            return await self._is_extended()
        finally:
            self._extending.discard(mine)
            mine.set_result(None)

    async def _is_extended(self) -> bool:
        self._check.clear()
        loop = asyncio.get_running_loop()
        begun = loop.time()
        # One that hangs leaves time for another one.
        limit = max(min(self.ends - begun, self._ttr / EXTENSIONS), 0.001)
        try:
            await asyncio.wait_for(self._client.extend(self.lease, self._ttr), limit)
            if self._age and begun >= self.ends - self._age:
                self._misjudged()  # it went on
            self._age = 0.0
            self.ends = begun + self._ttr
            self._renewed = begun
        except (LeaseLostError, NotFoundError):
            return False
        except (ProblemError, ConnectionFailed, asyncio.TimeoutError) as error:
            log.warning("lease of %s not extended: %r", self.lease.id, error)
            self._renewed = loop.time()
            return self._renewed < self.ends - self._age
        return True

    def _is_old(self) -> bool:
        """Whether the lease should have been extended: the loop was blocked."""
        passed = asyncio.get_running_loop().time() - self._renewed
        return passed >= self._ttr / EXTENSIONS

    async def _may_begin(self) -> bool:
        """Returns whether the lease goes on, as far as is known; an old one is extended for that.

        Where a handler blocks the loop, what came with its event may have been given to others.
        """
        if not self._is_old():
            return True
        is_held = await self.is_held()
        if self._extending:
            await asyncio.wait(set(self._extending))  # its handler may block the loop as well
        return is_held

    async def keep(self) -> None:
        """Extends the lease until it is lost; then it returns."""
        loop = asyncio.get_running_loop()
        begun = self._received
        step = self._ttr / EXTENSIONS
        while not self._context.lost.is_set():
            pause = max(min(begun + step, self.ends) - loop.time(), 0.0)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._check.wait(), pause)
            # Before Python 3.12 `wait_for` swallows a cancel that comes with its result.
            if self._context.lost.is_set():
                return
            begun = loop.time()
            if not await self.is_held():
                return

    async def run(self) -> Settlement | None:
        """Returns how the attempt ended; `None` if its lease was lost meanwhile."""
        running = asyncio.create_task(self._handle())
        keeping = asyncio.create_task(self.keep())
        try:
            await asyncio.wait({running, keeping}, return_when=asyncio.FIRST_COMPLETED)
            if running.cancelled():  # by something that it has called
                self.settlement = retry("the handler was cancelled")
                return self.settlement
            if running.done():
                return running.result()
            log.warning("lease of %s lost; its handler is cancelled", self.lease.id)
            return None
        finally:
            self._context.lost.set()
            for task in (running, keeping):
                task.cancel()
            await asyncio.gather(running, keeping, return_exceptions=True)

    async def _handle(self) -> Settlement | None:
        settlement = await self._settlement()
        # One that fails as it is told to end is handed back, which costs no attempt.
        if settlement is None or settlement.outcome != "retry" or not self._context.lost.is_set():
            self.settlement = settlement
        return settlement

    async def _settlement(self) -> Settlement | None:
        while await self._may_begin():
            try:
                return await asyncio.wait_for(self._handled(), self._timeout)
            except _OldLeaseError:
                continue
            except asyncio.TimeoutError:
                return retry(f"timed out after {self._timeout} s")
        log.warning("lease of %s lost before its handler began", self.lease.id)
        return None

    async def _handled(self) -> Settlement:
        if self._is_old():
            raise _OldLeaseError
        try:
            try:
                arguments = self._handler.arguments(self._context)
            except PayloadError as error:
                return bury(str(error))
            result = await self._call(arguments)
        except Outcome as outcome:
            return outcome.settlement
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:  # `sys.exit` ends an attempt, and no program
            return self._failed(error)
        try:
            return ack(result)
        except Exception as error:
            # What has been done is not to be done again.
            log.warning("reply of %s dropped: %s", self.lease.id, _text_of(error))
            return ack()

    def _failed(self, error: BaseException) -> Settlement:
        log.error("handler of %s failed", self.lease.id, exc_info=error)
        return retry(_text_of(error))

    async def _call(self, arguments: list[Any]) -> Any:
        if self._handler.is_async:
            result = self._handler.function(*arguments)
        else:
            self._thread = self._threads.submit(self._run, arguments)
            result = await asyncio.wrap_future(self._thread)
        if inspect.isawaitable(result):  # also of a function around an `async def`
            result = await result
        if inspect.isgenerator(result) or inspect.isasyncgen(result):
            raise TypeError("the handler is a generator, of which nothing has run")
        return result

    def _run(self, arguments: list[Any]) -> Any:
        try:
            return self._handler.function(*arguments)
        except (StopIteration, GeneratorExit, KeyboardInterrupt) as error:
            # They mean something else to what waits for the thread.
            raise RuntimeError(f"the handler raised {type(error).__name__}") from error

    def when_over(self, release: Callable[[], None]) -> None:
        """Calls `release` when the function has ended: in a thread it may outlast its attempt."""
        if self._thread is None or self._thread.done():
            release()
            return
        log.warning("handler of %s outlasts its attempt, and keeps its thread", self.lease.id)
        loop = asyncio.get_running_loop()

        def ended(_: Future[Any]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended before
                loop.call_soon_threadsafe(release)

        self._thread.add_done_callback(ended)


def _text_of(error: BaseException) -> str:
    """Returns its class and its text, also where making the text fails."""
    return traceback.format_exception_only(type(error), error)[-1].strip()
