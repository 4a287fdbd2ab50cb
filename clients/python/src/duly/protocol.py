"""The requests of `/v1` and the reading of their responses, without any input or output."""

from __future__ import annotations

import ipaddress
import json
import math
import os
import re
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from time import monotonic
from typing import Any, Generic, TypeVar, cast

import httpx

from .backoff import Backoff
from .errors import ConnectionFailed, Problem, ProblemError, UsageError, error_of
from .messages import Event, Lease, NewEvent, Pushed, pushed_of
from .settlements import Settlement
from .spans import Span, span_ms

T = TypeVar("T")

PUSH_MAX = 1_000
"""The most events of one request; more are sent in several."""
PUSH_BYTES_MAX = 7 << 20
"""The most bytes of the events of one request; a server takes 8 MiB, and one event has less."""
IN_FLIGHT_MAX = 1_000
"""The most events of a stream at a time."""
TRIES_MAX = 5
"""How often a request is sent that may be repeated."""
REPEATS_MAX = 50.0
"""No repeat begins later after the first try: a server knows for a minute what has ended."""
RETRY_AFTER_MAX = 30.0
UNREADABLE = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    OSError,
    RecursionError,
)
"""What the readers of messages raise where something is no JSON or has another form."""
_JSON = {"Content-Type": "application/json"}
_TOKEN = re.compile(r"[ -~]+")
_NAME = re.compile(r"[-_A-Za-z0-9]{1,255}")
_LEASE = re.compile(r"(?!\.+$)[-_.A-Za-z0-9]{1,1000}")
"""The token of a lease, which has the name of its queue in it."""


@cache
def tls() -> ssl.SSLContext:
    """Returns the TLS settings of all clients: to make them takes much longer than a push."""
    return httpx.create_ssl_context()


@dataclass(frozen=True)
class Options:
    """Where the server is, and who calls it."""

    url: str
    token: str = field(repr=False)
    namespace: str

    @classmethod
    def of(cls, url: str | None, token: str | None, namespace: str | None) -> Options:
        """Fills in what is not given: `DULY_URL`, `DULY_TOKEN`, `DULY_NAMESPACE`."""
        found = {"url": url, "token": token, "namespace": namespace}
        for name, value in found.items():
            found[name] = value or os.environ.get(f"DULY_{name.upper()}")
        found["url"] = found["url"] or "http://127.0.0.1:7777"
        for name in ("token", "namespace"):
            if not found[name]:
                raise UsageError(f"no {name}; give `{name}=`, or set DULY_{name.upper()}")
        token = str(found["token"]).strip()  # what is read from a file ends by a line break
        if not _TOKEN.fullmatch(token):
            # It is not shown, as httpx would do.
            raise UsageError("the token has a line break in it, or a letter that is not ASCII")
        options = cls(_checked_url(str(found["url"])).rstrip("/"), token, str(found["namespace"]))
        checked_name("namespace", options.namespace)
        return options

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", "User-Agent": "duly-python/0.1.0"}

    @property
    def mounts(self) -> dict[str, None]:
        """Returns what a client of httpx calls without the proxy of the environment: this machine.

        httpx calls it by the proxy as well, which is another machine.
        """
        host = httpx.URL(self.url).host
        try:
            is_here = ipaddress.ip_address(host).is_loopback
        except ValueError:
            is_here = host == "localhost"
        return {f"all://{f'[{host}]' if ':' in host else host}": None} if is_here else {}

    def headers_of(self, content: bytes | None) -> dict[str, str]:
        """Returns the headers of a request with a body of JSON, or without one."""
        return self.headers if content is None else {**self.headers, **_JSON}


def _checked_url(url: str) -> str:
    """Returns a URL that is one; to try another one again and again would not help."""
    url = url.strip()
    try:
        parsed = httpx.URL(url)
        is_one = parsed.scheme in ("http", "https") and parsed.host != ""
    except httpx.InvalidURL:
        is_one = False
    if not is_one:
        raise UsageError(f"{url!r} is no URL; it must be like http://127.0.0.1:7777")
    return url


def checked_name(what: str, name: str) -> str:
    """Returns a name that is one."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{what} is {name!r}; it must have 1 to 255 letters, digits, `-` and `_`")
    return name


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and how its response is read."""

    method: str
    path: str
    content: bytes | None
    read: Callable[[int, Any], T]
    may_repeat: bool = True
    wait: float = 0.0
    """How long the server may take beyond the usual."""
    lasts: float = math.inf
    """For how many seconds more it is of use: no pause that the server asks for outlasts that."""
    wanted: int | None = None
    """Of what returns nothing: the only status of a success with a body.

    Without a body any success is one: something on the way may make a 200 of a 204.
    """


def _lease(token: str) -> str:
    if not _LEASE.fullmatch(token):
        raise UsageError(
            f"{token!r} is no token of a lease; it has letters, digits, `.`, `-` and `_`"
        )
    return f"leases/{token}"


def _queue(queue: str) -> str:
    return f"queues/{checked_name('queue', queue)}"


def _nothing(_status: int, _value: Any) -> None:
    return None


def _changed(_status: int, value: Any) -> None:
    if type(value["due_ms"]) is not int:
        raise TypeError("a due time is a whole number")


def _json(value: object) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode()
    except (TypeError, ValueError) as error:
        raise UsageError(f"the request cannot be written as JSON: {error}") from error


def pushes(queue: str, events: Sequence[NewEvent]) -> list[Call[list[Pushed]]]:
    """Returns as many requests as are needed."""
    path = f"{_queue(queue)}/events"
    requests: list[list[bytes]] = []
    length = 0
    for text in [_json(event.body()) for event in events]:
        length += len(text) + 1
        if not requests or len(requests[-1]) == PUSH_MAX or length > PUSH_BYTES_MAX:
            requests.append([])
            length = len(text)
        requests[-1].append(text)
    return [
        Call(
            "POST", path, b'{"events":[' + b",".join(texts) + b"]}", partial(pushed_of, len(texts))
        )
        for texts in requests
    ]


def get(queue: str, event: str) -> Call[Event]:
    path = f"{_queue(queue)}/events/{checked_name('id', event)}"
    return Call("GET", path, None, lambda _, value: Event.of(value))


def cancel(queue: str, event: str) -> Call[None]:
    path = f"{_queue(queue)}/events/{checked_name('id', event)}"
    return Call("DELETE", path, None, _nothing, wanted=204)


def reschedule(queue: str, event: str, delay: Span) -> Call[None]:
    path = f"{_queue(queue)}/events/{checked_name('id', event)}"
    body = _json({"delay_ms": span_ms("delay", delay)})
    return Call("PATCH", path, body, _changed, wanted=200)


def explain(queue: str, event: str) -> Call[dict[str, Any]]:
    path = f"{_queue(queue)}/explanations/{checked_name('id', event)}"
    return Call("GET", path, None, lambda _, value: dict(value))


def stats(queue: str) -> Call[dict[str, Any]]:
    return Call("GET", _queue(queue), None, lambda _, value: dict(value))


def _leases(_status: int, value: Any) -> list[Lease]:
    if not isinstance(value, list):
        raise TypeError("leases are a list")
    return [Lease.of(item) for item in value]


def lease(queue: str, ttr: Span, limit: int, wait: Span) -> Call[list[Lease]]:
    wait_ms = span_ms("wait", wait)
    body = {"max": limit, "ttr_ms": span_ms("ttr", ttr), "wait_ms": wait_ms}
    return Call(
        "POST",
        f"{_queue(queue)}/leases",
        _json(body),
        _leases,
        may_repeat=False,  # what was leased by a lost response comes back by itself
        wait=wait_ms / 1_000,
    )


def settle(token: str, settlement: Settlement, lasts: float = math.inf) -> Call[None]:
    path = f"{_lease(token)}/settle"
    return Call("POST", path, _json(settlement.body), _nothing, lasts=lasts, wanted=204)


def drain(queue: str, name: str, lasts: float = math.inf) -> Call[None]:
    path = f"{_queue(queue)}/leases/stream/drain?name={checked_name('name', name)}"
    return Call("POST", path, None, _nothing, lasts=lasts, wanted=204)


def extend(token: str, ttr: Span) -> Call[None]:
    body = _json({"ttr_ms": span_ms("ttr", ttr)})
    return Call("POST", f"{_lease(token)}/extend", body, _nothing, wanted=204)


def stream_path(queue: str, ttr: Span, max_in_flight: int, name: str | None) -> str:
    if not 1 <= max_in_flight <= IN_FLIGHT_MAX:
        raise UsageError(f"{max_in_flight} at a time; it must be 1 to {IN_FLIGHT_MAX}")
    ttr_ms = span_ms("ttr", ttr)
    path = f"{_queue(queue)}/leases/stream?max_in_flight={max_in_flight}&ttr_ms={ttr_ms}"
    return path if name is None else f"{path}&name={checked_name('name', name)}"


def problem_error(status: int, text: str, headers: httpx.Headers) -> ProblemError:
    """Returns the error of a response."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        value = text[:200]
    after = headers.get("Retry-After", "")
    return error_of(Problem.of(status, value), float(after) if after.isdecimal() else None)


def response_of(call: Call[T], response: httpx.Response) -> T:
    """Reads a response."""
    if response.status_code >= 300:
        raise problem_error(response.status_code, response.text, response.headers)
    try:
        if call.wanted is not None and not response.content:
            return cast("T", None)
        if call.wanted not in (None, response.status_code):
            raise ValueError(f"the status is {response.status_code}")
        return call.read(response.status_code, response.json() if response.content else None)
    except UNREADABLE as error:
        # Something between here and the server has answered in its stead.
        raise ConnectionFailed(f"{call.method} {call.path}: no response of duly") from error


_BACKOFF = Backoff(first=0.05, longest=5.0)


class Repeats:
    """The repeats of a request, from its first try on."""

    def __init__(self, call: Call[Any]) -> None:
        self._may_repeat = call.may_repeat
        self._lasts = call.lasts
        self._begun = monotonic()
        self._tries = 0

    def pause(self, error: Exception) -> float | None:
        """Returns how long to wait after a try before the next one; `None`: there is none."""
        self._tries += 1
        if not self._may_repeat or self._tries >= TRIES_MAX:
            return None
        if isinstance(error, ProblemError) and not error.may_pass:
            return None
        passed = monotonic() - self._begun
        asked = min(asked_pause(error), (self._lasts - passed) / 2)  # another try comes in time
        pause = max(asked, _BACKOFF.pause(self._tries))
        return pause if passed + pause < REPEATS_MAX else None


def asked_pause(error: Exception) -> float:
    """Returns how long the server asks to wait, within bounds; 0 if it does not."""
    asked = error.retry_after if isinstance(error, ProblemError) else None
    return min(asked or 0.0, RETRY_AFTER_MAX)
