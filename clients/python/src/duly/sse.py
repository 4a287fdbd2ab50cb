"""Server-sent events, line by line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from .errors import ConnectionFailed

DATA_LEN_MAX = 32 << 20
"""The longest data of one event, in characters; no server sends more."""


def _too_long() -> ConnectionFailed:
    return ConnectionFailed(f"an event of the stream has more than {DATA_LEN_MAX} characters")


async def lines(parts: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Splits a body at line feeds alone: JSON has other characters that `splitlines` splits at."""
    begun: list[bytes] = []
    length = 0
    async for part in parts:
        *ended, last = part.split(b"\n")
        for end in ended:
            yield b"".join([*begun, end]).decode()
            begun, length = [], 0
        begun.append(last)
        length += len(last)
        if length > DATA_LEN_MAX:
            raise _too_long()


@dataclass
class Parser:
    """Collects the lines of an event."""

    _name: str = ""
    _data: list[str] = field(default_factory=list)
    _len: int = 0

    def line(self, line: str) -> tuple[str, str] | None:
        """Takes a line without its end; returns the name and the data of an event that it ends."""
        if not line:
            name, data = self._name, "\n".join(self._data)
            self._name, self._data, self._len = "", [], 0
            return (name, data) if name else None
        field_name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field_name == "event":
            self._name = value
        elif field_name == "data":
            self._len += len(value) + 1
            if self._len > DATA_LEN_MAX:
                raise _too_long()
            self._data.append(value)
        return None
