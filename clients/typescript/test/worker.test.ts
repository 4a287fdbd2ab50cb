import { expect } from "vitest";

import { discard, Outcome, retry, snooze, Worker } from "../src/index.js";
import { test } from "../src/vitest.js";
import { gate, until } from "./until.js";

const HOUR = 3_600_000;
const quiet = { onError: (): void => undefined };

test("each outcome is what the server records", async ({ server, client }) => {
  const seen: [string, number][] = [];
  const times = (name: string): number => seen.filter(([one]) => one === name).length;
  const worker = new Worker<string>(
    "q",
    (payload, { attempt }) => {
      seen.push([payload, attempt]);
      if (payload === "retry" && attempt < 3) throw new Outcome(retry("not yet", 60_000));
      if (payload === "snooze" && times("snooze") < 3) throw new Outcome(snooze(60_000));
      if (payload === "discard") throw new Outcome(discard("of no use"));
      if (payload === "fail") throw new Error("the bank is closed");
    },
    { client },
  );
  const names = ["ack", "retry", "snooze", "discard", "fail"];
  const pushed = await client.pushMany("q", names.map((payload) => ({ payload, attempts: 3 })));
  await until(() => seen.length >= 5);
  await server.advance(24 * HOUR, { settle: 60_000 });
  const states = pushed.map(async ({ id }) => (await client.explain("q", id)).state);
  expect(await Promise.all(states)).toEqual(["done", "done", "done", "discarded", "dead"]);
  const attempts = names.map((name) => seen.filter(([one]) => one === name).map(([, at]) => at));
  expect(attempts).toEqual([[1], [1, 2, 3], [1, 1, 1], [1], [1, 2, 3]]);
  await worker.stop();
});

test("a handler whose lease was lost is aborted", async ({ server, client }) => {
  const begun: number[] = [];
  const aborted: unknown[] = [];
  const handler = async (_: unknown, { attempt, signal }: { attempt: number; signal: AbortSignal }): Promise<void> => {
    begun.push(attempt);
    if (attempt > 1) return;
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    aborted.push(signal.reason);
  };
  const worker = new Worker("q", handler, { client, ttr: 1_000, ...quiet });
  const { id } = await client.push("q", 7, { attempts: 3 });
  await until(() => begun.length === 1);
  await server.advance(1_000);
  await until(() => aborted.length === 1);
  expect(String(aborted[0])).toContain(`the lease of ${id} is lost`);
  await server.advance(HOUR, { settle: 60_000 });
  await until(() => begun.length === 2);
  await worker.stop();
  expect(begun).toEqual([1, 2]);
  expect((await client.explain("q", id)).state).toBe("done");
});

test("no more run at a time than allowed", async ({ client }) => {
  let [now, most] = [0, 0];
  const done = new Set<number>();
  await client.pushMany("q", Array.from({ length: 30 }, (_, payload) => ({ payload })));
  let arrived = gate();
  const worker = new Worker<number>(
    "q",
    async (payload) => {
      now += 1;
      most = Math.max(most, now);
      const mine = arrived;
      if (now === 3) {
        arrived = gate();
        mine.open();
      }
      await mine.opened;
      now -= 1;
      done.add(payload);
    },
    { client, concurrency: 3 },
  );
  await until(() => done.size === 30);
  await worker.stop();
  expect(most).toBe(3);
});

test("a stop lets handlers end and costs others no attempt", async ({ client }) => {
  const { opened, open } = gate();
  const begun: number[] = [];
  const events = Array.from({ length: 10 }, (_, payload) => ({ payload, attempts: 9 }));
  await client.pushMany("q", events);
  const handler = async (payload: number): Promise<void> => {
    begun.push(payload);
    await opened;
  };
  const worker = new Worker<number>("q", handler, { client, concurrency: 4 });
  await until(() => begun.length === 4);
  const stopped = worker.stop();
  open();
  await stopped;
  const left = await client.lease<number>("q", { limit: 100 });
  const expected = events.map((event) => event.payload).filter((n) => !begun.includes(n));
  const found = left.map((lease) => [lease.payload(), lease.attempt]);
  found.sort((one, other) => Number(one[0]) - Number(other[0])); // handed back in any order
  expect(found).toEqual(expected.map((n) => [n, 1]));
  expect(begun.length).toBe(4);
});

test("a stop hands back what takes longer than its grace", async ({ client }) => {
  const signals: AbortSignal[] = [];
  await client.push("q", 1, { attempts: 9 });
  const handler = async (_: unknown, { signal }: { signal: AbortSignal }): Promise<void> => {
    signals.push(signal);
    await gate().opened;
  };
  const worker = new Worker("q", handler, { client, grace: 0 });
  await until(() => signals.length === 1);
  await worker.stop();
  expect(signals[0]?.aborted).toBe(true);
  const [lease] = await client.lease("q", { wait: 8_000 });
  expect(lease?.attempt).toBe(1);
});

test("a timeout and a wrong payload end an attempt", async ({ client }) => {
  const worker = new Worker("q", () => gate().opened, { client, timeout: 50 });
  const slow = await client.push("q", 1, { attempts: 1 });
  const wrong = await client.push("q", Uint8Array.of(0), { attempts: 9 });
  for (const { id } of [slow, wrong]) {
    await until(async () => (await client.explain("q", id)).state === "dead");
  }
  await worker.stop();
});

test("a worker without a right ends with the reason", async ({ server }) => {
  const options = { url: server.url, token: "wrong", namespace: "ns" };
  const worker = new Worker("q", () => undefined, { client: options, ...quiet });
  await expect(worker.ended).rejects.toThrow(/401/);
  expect(() => new Worker("q", () => undefined, { client: options, concurrency: 0 })).toThrow(/1 to 1000/);
});
