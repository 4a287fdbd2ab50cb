"""Functions that are no handlers, and options out of bounds, are refused."""

from __future__ import annotations

import pytest

from duly import App, AsyncClient, UsageError, Worker
from duly.attempt import Handler


def test_a_signature_that_cannot_be_called_is_refused() -> None:
    class Local: ...

    def of_local(payload: Local) -> None: ...

    def of_three(payload: int, context: object, more: object) -> None: ...

    with pytest.raises(UsageError, match="one of the module"):
        Handler.of(of_local)
    with pytest.raises(UsageError, match="3 arguments"):
        Handler.of(of_three)


def test_options_out_of_bounds_and_a_second_task_of_a_queue_are_refused() -> None:
    def handle(payload: int) -> None: ...

    client = AsyncClient(token="x", namespace="ns")
    with pytest.raises(UsageError, match="1 to 1000"):
        Worker(client, "q", handle, concurrency=0)
    with pytest.raises(UsageError, match="at least 1 s"):
        Worker(client, "q", handle, ttr=0.1)
    app = App()
    app.task(queue="q")(handle)
    with pytest.raises(UsageError, match="a task already, handle"):
        app.task(queue="q")(handle)
    with pytest.raises(UsageError, match="there are: q"):
        app.workers(client, ["other"])


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DULY_TOKEN", raising=False)
    with pytest.raises(UsageError, match="DULY_TOKEN"):
        AsyncClient(namespace="ns")
