"""Fixtures for pytest: a server with a clock that is moved by hand."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from .blocking import Client
from .testing import TestServer


@pytest.fixture(scope="session")
def duly_server() -> Iterator[TestServer]:
    """A server for all tests, in memory, whose clock `advance` moves."""
    with TestServer() as server:
        yield server


@pytest.fixture
def duly_client(duly_server: TestServer) -> Iterator[Client]:
    """A client in a namespace of its own."""
    with duly_server.client(f"test-{uuid.uuid4().hex}") as client:
        yield client
