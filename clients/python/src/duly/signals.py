"""The signals that stop workers: TERM and INT."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_stops: WeakKeyDictionary[asyncio.AbstractEventLoop, list[Callable[[], None]]] = WeakKeyDictionary()


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Calls `stop` by TERM and INT; a loop has one handler of a signal, for all that it stops."""
    loop = asyncio.get_running_loop()
    stops = _stops.setdefault(loop, [])
    if not stops:
        for number in _SIGNALS:
            _handle(loop, number, stops)
    stops.append(stop)
    try:
        yield
    finally:
        stops.remove(stop)
        for number in () if stops else _SIGNALS:
            _forget(loop, number)


def _handle(
    loop: asyncio.AbstractEventLoop, number: signal.Signals, stops: list[Callable[[], None]]
) -> None:
    try:
        loop.add_signal_handler(number, _call_all, stops)
    except NotImplementedError:  # on Windows

        def handle(*_: object) -> None:
            loop.call_soon_threadsafe(_call_all, stops)

        signal.signal(number, handle)


def _forget(loop: asyncio.AbstractEventLoop, number: signal.Signals) -> None:
    try:
        loop.remove_signal_handler(number)
    except NotImplementedError:
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, usual)


def _call_all(stops: list[Callable[[], None]]) -> None:
    for stop in stops:
        stop()
