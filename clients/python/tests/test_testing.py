"""The server for tests, where its surroundings are not as usual."""

from __future__ import annotations

import asyncio
import gc
import os
import time
import warnings
from pathlib import Path

import httpx
import pytest

from duly import App, AsyncClient
from duly.errors import ServerStartError
from duly.protocol import Options
from duly.testing import TestServer, program

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


@pytest.fixture
def _behind_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("_behind_a_proxy")
def test_what_is_on_this_machine_is_reached_without_a_proxy() -> None:
    async def last(client: AsyncClient) -> object:
        async with client:
            await client.push("q", 3)
            stream = client.stream("q", max_in_flight=3)
            leases = [await anext(stream) for _ in range(3)]
            await stream.aclose()  # type: ignore[attr-defined]
            return sorted(lease.payload() for lease in leases)

    with TestServer() as server:
        before = server.now()
        with server.client() as client:
            client.push("q", 1)
        app = App(server.url, token=server.token, namespace=server.namespace)
        app.task(queue="q")(print).push(2)
        assert asyncio.run(last(app.async_client())) == [1, 2, 3]
        assert server.advance(1) > before
        app.close()


@pytest.mark.usefixtures("_behind_a_proxy")
@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        ("localhost", True),
        ("LOCALHOST", True),
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("[::1]", True),
        ("10.0.0.1", False),
        ("[::2]", False),
        ("localhost.example", False),
        ("1.0.0.127", False),
    ],
)
def test_what_is_on_another_machine_is_reached_by_the_proxy(host: str, is_here: bool) -> None:
    mounts = Options(f"http://{host}:7777", "x", "ns").mounts
    with httpx.Client(mounts=mounts) as http:
        transport = http._transport_for_url(httpx.URL(f"http://{host}:7777/v1"))
        assert (transport is http._transport) == is_here


def test_a_program_is_found_from_here_or_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "bin" / "duly"
    place.parent.mkdir()
    place.symlink_to(program())
    monkeypatch.chdir(tmp_path)
    for path, named in [
        ("/nowhere", "bin/duly"),
        ("/nowhere", "./bin/duly"),
        ("bin", "duly"),
        ("bin", ""),
    ]:
        monkeypatch.setenv("PATH", path)
        monkeypatch.setenv("DULY_PROGRAM", named)
        with TestServer() as server:
            assert server.token
    monkeypatch.setenv("DULY_PROGRAM", "bin/other")
    with pytest.raises(ServerStartError, match="no program `bin/other`"), TestServer():
        pass


@pytest.mark.parametrize("store", ["memory:", "sqlite:jobs.db"])
def test_a_server_has_no_setting_of_the_environment(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = tmp_path / "outbox.db"
    (tmp_path / "duly.toml").write_text("no settings")
    for name, value in {
        "DULY_SERVER__OUTBOX__URL": f"sqlite:{outbox}",
        "DULY_SERVER__ADMIN__ACCOUNTS__ANN": "secret",
        "DULY_SERVER__POOLS__OTHER__URL": f"sqlite:{tmp_path / 'other.db'}",
        "duly_server__admin__state": f"sqlite:{tmp_path / 'state.db'}",
        "DULY__RECORDS__JOURNAL": f"sqlite:{tmp_path / 'records.db'}",
        "DULY_CONFIG": str(tmp_path / "duly.toml"),
    }.items():
        monkeypatch.setenv(name, value)
    with TestServer(store) as server, server.client() as client:
        assert client.push("q", 1).id
    assert [path.name for path in tmp_path.iterdir()] == ["duly.toml"]


@pytest.mark.parametrize("namespace", ["a/b", "no name"])
def test_a_server_that_has_no_token_to_start_with_is_ended(
    namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "duly"
    script.write_text(f'#!/bin/sh\necho $$ >{tmp_path}/pid\nexec {program()} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("DULY_PROGRAM", str(script))
    with pytest.raises(httpx.HTTPStatusError), TestServer(namespace=namespace):
        pass
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


PROGRAM = """#!/bin/sh
printf 'a byte that is no text: \\377\\n'
if [ "$FAILS" ]; then exit 1; fi
for it in api admin; do
    printf '{"message": "listening", "listener": "%s", "address": "127.0.0.1:9"}\\n' "$it"
done
printf 'another one: \\377\\n'
printf 'the last line\\n'
cat >/dev/null
"""


def _with_token(server: TestServer) -> TestServer:
    server.token = "x"  # or the program would be asked for one
    return server


@pytest.mark.parametrize("fails", [False, True])
def test_a_server_leaves_nothing_open_whatever_it_logs(
    fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "program"
    path.write_text(PROGRAM)
    path.chmod(0o700)
    monkeypatch.setenv("DULY_PROGRAM", str(path))
    monkeypatch.setenv("FAILS", "1" if fails else "")
    gc.collect()  # what others have left
    with warnings.catch_warnings(record=True) as left:
        warnings.simplefilter("always", ResourceWarning)
        if fails:
            with pytest.raises(ServerStartError, match="no text"), TestServer():
                pass
        else:
            with _with_token(TestServer()) as server:
                while "the last line\n" not in server._last_lines:
                    time.sleep(0.01)
                server.kill()
        gc.collect()
    assert [str(warning.message) for warning in left] == []
