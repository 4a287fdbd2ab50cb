"""Errors go from one process to another, as from a child of a process pool."""

from __future__ import annotations

import pickle
from datetime import datetime, timezone

import pytest

from duly import (
    Bury,
    ConflictError,
    ConnectionFailed,
    Discard,
    DulyError,
    NewEvent,
    Problem,
    Pushed,
    PushManyError,
    Retry,
    Snooze,
    ThrottledError,
    UsageError,
)
from duly.messages import note_interrupted

PROBLEM = Problem(429, "slow down", "too many", "throttled")
PUSHED = Pushed("7", datetime.now(timezone.utc), duplicate=False)


@pytest.mark.parametrize(
    "error",
    [
        ThrottledError(PROBLEM, 1.0),
        ConflictError(PROBLEM),
        PushManyError([PUSHED, PROBLEM]),
        ConnectionFailed("reset"),
        UsageError("wrong"),
        Snooze(60),
        Retry("why", delay=60),
        Bury("why"),
        Discard(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_the_same_in_another_process(error: Exception) -> None:
    if isinstance(error, DulyError):
        note_interrupted(error, [PUSHED], [NewEvent(1), NewEvent(2)])
    found = pickle.loads(pickle.dumps(error))
    assert type(found) is type(error)
    assert (str(found), found.args, vars(found)) == (str(error), error.args, vars(error))
