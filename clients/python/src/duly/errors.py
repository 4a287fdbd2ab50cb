"""Errors: what the server has refused, and what did not reach it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .messages import NewEvent, Pushed


def _made(kind: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class Pickled(Exception):  # noqa: N818 - what errors of this package have in common
    """Goes from one process to another, though it is made of other arguments than its text."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (type(self), self.args, self.__dict__.copy())


class DulyError(Pickled):
    """The base of all errors of this package."""

    pushed: Sequence[Pushed] = ()
    """Of a push of many: what the requests before this one have stored."""
    remaining: Sequence[NewEvent] = ()
    """Of a push: the others, which can be pushed again.

    What is stored of them stays single while it waits or runs, and for a minute after.
    """


class UsageError(DulyError, ValueError):
    """An argument is wrong; nothing was sent."""


class ConnectionFailed(DulyError):  # noqa: N818 - it is one
    """The server was not reached, or the connection ended; a push was repeated before."""


class ServerStartError(DulyError):
    """A test server did not start."""


_RETRIED = frozenset({408, 429, 502, 503, 504, 507})
_REFUSALS = frozenset({401, 403})


@dataclass(frozen=True)
class Problem:
    """What the server says of an error: problem details of RFC 9457."""

    status: int
    title: str
    detail: str
    """What is wrong, and what would be right."""
    kind: str
    """The class of the error, for programs."""

    @classmethod
    def of(cls, status: int, value: object) -> Problem:
        """Reads a problem; a response of something between here and the server has other forms."""
        fields: dict[str, Any] = value if isinstance(value, dict) else {}
        return cls(
            status=status,
            title=str(fields.get("title", "")),
            detail=str(fields.get("detail", value or f"status {status} without a reason")),
            kind=str(fields.get("kind", "unknown")),
        )

    @property
    def is_bare(self) -> bool:
        """Whether it has no kind: it is no `Problem` of the server, which tells one."""
        return self.kind == "unknown"

    @property
    def is_of_proxy(self) -> bool:
        """Whether a proxy refuses whoever asks, or has a 404 of its own.

        A bare 400 is of the request: the same would meet it again.
        """
        is_refusal = self.status in _REFUSALS and self.is_bare
        return is_refusal or (self.status == 404 and self.kind != "not_found")

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later."""
        # It may have been done, or is of a proxy with statuses of its own; a repeat is safe.
        is_unknown = self.status >= 500 and self.is_bare
        return self.status in _RETRIED or is_unknown or self.is_of_proxy


class ProblemError(DulyError):
    """The server has refused a request; `problem` says what is wrong, and what would be right."""

    def __init__(self, problem: Problem, retry_after: float | None = None) -> None:
        super().__init__(f"{problem.status} {problem.kind}: {problem.detail}")
        self.problem = problem
        self.retry_after = retry_after
        """How long until the same may succeed, in seconds, if the server has said so."""

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later."""
        return self.problem.may_pass


class InvalidError(ProblemError):
    """A name, an id, a field or the form of a request is wrong."""


class DeniedError(ProblemError):
    """The token is missing, unknown or expired, or may not do this."""


class NotFoundError(ProblemError):
    """There is no such event, lease, queue or schedule."""


class ConflictError(ProblemError):
    """The state of the event, or what is stored under its id, does not allow it."""


class LeaseLostError(ConflictError):
    """The lease has ended: the event is somebody else's, or was settled otherwise."""


class ThrottledError(ProblemError):
    """The limit of the token is reached."""


class UnavailableError(ProblemError):
    """The store does not answer or is full, the server stops, or a proxy does not reach it."""


_CLASSES: dict[int, type[ProblemError]] = {
    400: InvalidError,
    401: DeniedError,
    403: DeniedError,
    404: NotFoundError,
    409: ConflictError,
    413: InvalidError,
    415: InvalidError,
    422: InvalidError,
    429: ThrottledError,
    502: UnavailableError,
    503: UnavailableError,
    504: UnavailableError,
    507: UnavailableError,
}


def error_of(problem: Problem, retry_after: float | None = None) -> ProblemError:
    """Returns the error of a problem, of the class of its kind."""
    if problem.kind == "lease_lost":
        return LeaseLostError(problem, retry_after)
    if problem.is_of_proxy:
        return UnavailableError(problem, retry_after)
    return _CLASSES.get(problem.status, ProblemError)(problem, retry_after)
