"""A server for tests, whose clock stands still until it is moved: half an hour in a millisecond."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import TracebackType

import httpx

from .blocking import Client
from .errors import ServerStartError, UsageError
from .spans import Span, span_ms

PROGRAM_VARIABLE = "DULY_PROGRAM"
LOG_LINES_MAX = 50
STOP_SECONDS_MAX = 90  # the server's own bound is two grace periods of 30 seconds


def program() -> str:
    """Returns the program `duly`: that of `DULY_PROGRAM`, or the one on the path."""
    named = os.environ.get(PROGRAM_VARIABLE) or "duly"
    found = shutil.which(named)
    if not found:
        raise ServerStartError(
            f"no program `{named}`, here or on the path; install it as the README of the server "
            f"says, or set {PROGRAM_VARIABLE} to it"
        )
    return os.path.abspath(found)  # the server has a folder of its own


class TestServer:
    """A server in a process of its own, on free ports. Use it as a context manager.

    By default its store is in memory and its clock is moved by `advance`. With `store`, which
    `sqlite:` and a file may be, it has the clock of the machine, and survives `kill` and `start`.
    """

    __test__ = False  # pytest takes it for a class of tests

    def __init__(self, store: str = "memory:", *, namespace: str = "test") -> None:
        self.store = store
        self.namespace = namespace
        self.token = ""
        self.url = ""
        self.admin_url = ""
        self._folder = tempfile.TemporaryDirectory(prefix="duly-test-")
        self._process: subprocess.Popen[str] | None = None
        self._last_lines: list[str] = []

    @property
    def is_manual(self) -> bool:
        """Whether `advance` moves the clock."""
        return self.store == "memory:"

    def __enter__(self) -> TestServer:
        try:
            self.start()
        except BaseException:
            self._folder.cleanup()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._folder.cleanup()

    def start(self) -> None:
        """Starts it, on the addresses that it had before, if it had some."""
        listen = self.url.removeprefix("http://") or "127.0.0.1:0"
        admin = self.admin_url.removeprefix("http://") or "127.0.0.1:0"
        command = [program(), "serve", "--store", self.store]
        command += ["--listen", listen, "--admin-listen", admin, "--stop-with-stdin"]
        if self.is_manual:
            command += ["--clock", "manual"]
        # Its settings are these alone: a variable of a real server names a real store or outbox.
        environment = {n: v for n, v in os.environ.items() if not n.upper().startswith("DULY_")}
        environment.update(DULY_SERVER__LOG__FORMAT="json", DULY_SERVER__LOG__ACCESS="false")
        self._process = subprocess.Popen(  # noqa: S603 - the program under test
            command,
            cwd=self._folder.name,
            env=environment,
            stdin=subprocess.PIPE,  # ends with this process, even if that is killed
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",  # what ended the reading would block the server
        )
        try:
            self._read_addresses(self._process)
            if not self.token:
                self.token = self.new_token(self.namespace)
        except BaseException:
            self.kill()
            raise

    def _read_addresses(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        addresses: dict[str, str] = {}
        for line in process.stdout:
            self._note(line)
            addresses.update(_address(line))
            if len(addresses) == 2:
                break
        else:
            process.wait()
            process.stdout.close()
            raise ServerStartError(f"{program()} did not start:\n{''.join(self._last_lines)}")
        self.url, self.admin_url = addresses["api"], addresses["admin"]
        # A pipe that nobody reads would block the server.
        threading.Thread(target=self._drain, args=(process,), daemon=True).start()

    def _drain(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self._note(line)

    def _note(self, line: str) -> None:
        self._last_lines = [*self._last_lines[-LOG_LINES_MAX:], line]

    def stop(self) -> None:
        """Stops it in order."""
        self._end(is_kill=False)

    def kill(self) -> None:
        """Kills it, as by `kill -9`."""
        self._end(is_kill=True)

    def _end(self, *, is_kill: bool) -> None:
        if self._process is None:
            return
        if is_kill:
            self._process.kill()
        else:
            self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None

    def new_token(self, namespace: str) -> str:
        """Makes a token of a namespace."""
        response = self._admin("POST", f"/token/{namespace}?description=test").raise_for_status()
        return str(response.json()["token"])

    def _admin(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Calls the admin listener, which is here: without the proxy of the environment."""
        url = self.admin_url + path
        with httpx.Client(trust_env=False, timeout=None) as http:  # noqa: S113 - as long as it takes
            return http.request(method, url, json=body)

    def client(self, namespace: str | None = None) -> Client:
        """Returns a client; in another namespace a test has queues that nobody else has."""
        token = self.token if namespace is None else self.new_token(namespace)
        return Client(self.url, token=token, namespace=namespace or self.namespace)

    def now(self) -> datetime:
        """Returns the time that the clock shows."""
        return _now(self._admin("GET", "/clock"))

    def advance(self, span: Span = 0.0, *, settle: Span = 0.0, **parts: float) -> datetime:
        """Moves the clock, by seconds or by `hours=` and others of `timedelta`.

        Returns when everything that became due can be leased. `settle` is how long the clock
        waits, at each instant on the way, for workers to end what is due; in real time.
        """
        if not self.is_manual:
            raise UsageError(f"the clock of a server on {self.store} is not manual; use `memory:`")
        whole = span if isinstance(span, timedelta) else timedelta(seconds=span)
        by_ms = span_ms("the span", whole + timedelta(**parts))
        body = {"by_ms": by_ms, "settle_ms": span_ms("settle", settle)}
        return _now(self._admin("POST", "/clock/advance", body))

    @property
    def folder(self) -> Path:
        """The folder of the process."""
        return Path(self._folder.name)


def _now(response: httpx.Response) -> datetime:
    if response.status_code >= 300:
        raise UsageError(f"the clock was not moved: {response.text}")
    return datetime.fromtimestamp(response.json()["now_ms"] / 1_000, timezone.utc)


def _address(line: str) -> dict[str, str]:
    """Returns the address that a line of the log tells, by its listener."""
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    if entry.get("message") != "listening":
        return {}
    return {entry["listener"]: f"http://{entry['address']}"}
