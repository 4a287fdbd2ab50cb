"""A PostgreSQL of a test, in a folder of its own, with the tables of an outbox."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from duly.testing import program


def _command(name: str) -> str:
    found = shutil.which(name)
    # Debian keeps it out of the path.
    paths = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    if not found and not paths:
        raise RuntimeError(f"{name} is missing: install PostgreSQL")
    return found or str(paths[-1])


def _user() -> str | None:
    return "postgres" if os.geteuid() == 0 else None  # it does not run as root


def _run(*command: str) -> str:
    done = subprocess.run(command, user=_user(), capture_output=True, text=True, cwd="/")
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]}: {done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def outbox_database(folder: Path) -> Iterator[str]:
    """Starts a server on a socket; yields how to connect to it."""
    user = _user()
    if user:
        shutil.chown(folder, user)
    data = str(folder / "data")
    _run(_command("initdb"), "-D", data, "-A", "trust", "-U", "postgres", "--no-sync")
    options = f"-k {folder} -c listen_addresses= -c fsync=off"
    control = [_command("pg_ctl"), "-D", data, "-w"]
    _run(*control, "-o", options, "-l", str(folder / "log"), "start")
    try:
        address = f"host={folder} user=postgres dbname=postgres"
        schema = subprocess.run(
            [program(), "outbox", "schema", "--database", "postgres"],
            capture_output=True,
            text=True,
            check=True,
        )
        (folder / "schema.sql").write_text(schema.stdout)
        _run(_command("psql"), address, "-v", "ON_ERROR_STOP=1", "-q", "-f", f"{folder}/schema.sql")
        yield address
    finally:
        _run(*control, "-m", "immediate", "stop")
