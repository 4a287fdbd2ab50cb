"""How many jobs a second does the client for Python push, and lease and settle? See ../throughput.sh."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

import duly


async def rate(many: int, at_once: int, work: Callable[[], Awaitable[None]]) -> float:
    left = many

    async def loop() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await work()

    begin = time.perf_counter()
    await asyncio.gather(*(loop() for _ in range(at_once)))
    return many / (time.perf_counter() - begin)


async def main(url: str, token: str, many: int, at_once: int) -> None:
    async with duly.AsyncClient(url, token=token, namespace="shop") as client:

        async def push() -> None:
            await client.push("python", {"order": 7}, attempts=3)

        async def consume() -> None:
            (lease,) = await client.lease("python", ttr=60, wait=5)
            await client.settle(lease, duly.ack())

        pushed = await rate(many, at_once, push)
        print(f"{pushed:.0f} {await rate(many, at_once, consume):.0f}")


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
