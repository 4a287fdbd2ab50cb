"""Client of the delayed job queue duly."""

from .app import App, Task
from .attempt import Context
from .backoff import Backoff
from .blocking import Client
from .client import AsyncClient
from .errors import (
    ConflictError,
    ConnectionFailed,
    DeniedError,
    DulyError,
    InvalidError,
    LeaseLostError,
    NotFoundError,
    Problem,
    ProblemError,
    ThrottledError,
    UnavailableError,
    UsageError,
)
from .messages import Event, Lease, NewEvent, Pushed, PushManyError
from .payloads import PayloadError
from .settlements import Bury, Discard, Retry, Settlement, Snooze, ack, bury, discard, release
from .settlements import retry as retry
from .settlements import snooze as snooze
from .worker import Worker

__all__ = [
    "App",
    "AsyncClient",
    "Backoff",
    "Bury",
    "Client",
    "ConflictError",
    "ConnectionFailed",
    "Context",
    "DeniedError",
    "Discard",
    "DulyError",
    "Event",
    "InvalidError",
    "Lease",
    "LeaseLostError",
    "NewEvent",
    "NotFoundError",
    "PayloadError",
    "Problem",
    "ProblemError",
    "PushManyError",
    "Pushed",
    "Retry",
    "Settlement",
    "Snooze",
    "Task",
    "ThrottledError",
    "UnavailableError",
    "UsageError",
    "Worker",
    "ack",
    "bury",
    "discard",
    "release",
    "retry",
    "snooze",
]
