"""Threads for blocking handlers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any

Call = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...]]


class Threads:
    """As many threads as there are calls at a time, used again; a program does not wait for them.

    It waits for those of a `ThreadPoolExecutor` before it ends, however long they take.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._count = 0

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Calls a function in a thread."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        if not self._idle.acquire(blocking=False):
            self._count += 1
            threading.Thread(target=self._work, name=f"duly_{self._count}", daemon=True).start()
        self._calls.put((future, function, arguments))
        return future

    def close(self) -> None:
        """Ends each thread after its call."""
        for _ in range(self._count):
            self._calls.put(None)

    def _work(self) -> None:
        while call := self._calls.get():
            self._run(*call)
            del call

    def _run(self, future: Future[Any], function: Callable[..., Any], arguments: Any) -> None:
        try:
            end = partial(future.set_result, function(*arguments))
        except BaseException as error:
            end = partial(future.set_exception, error)
        self._idle.release()  # before who waits for the call makes another one
        end()
