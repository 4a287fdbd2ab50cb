"""Pauses between tries: they double, have jitter, and are bounded."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """Pauses that double from `first` to `longest`; each is a random part of its length."""

    first: float = 0.1
    longest: float = 10.0

    def pause(self, failures: int) -> float:
        """Returns the pause after so many failures in a row: half of its length at least."""
        length = min(self.longest, self.first * 2.0 ** min(max(failures - 1, 0), 32))
        return length * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
