import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

import { expect, test } from "vitest";

import { ConnectionError, ProblemError, Worker } from "../src/index.js";
import { TestServer } from "../src/testing.js";
import { until } from "./until.js";

const COUNT = 600;
const KILLS = 3;

/** Takes an error of a server that is away; any other is one of the test. */
function whileAway(error: unknown): [] {
  const isAway = error instanceof ProblemError && error.problem.status === 503;
  if (error instanceof ConnectionError || isAway) return [];
  throw error;
}

test("nothing is lost when the server is killed", async () => {
  const server = await TestServer.start({ store: "sqlite:jobs.db" });
  const client = await server.client();
  const ends = new Map<number, number>();
  const worker = new Worker<number>(
    "q",
    async (payload) => {
      await sleep(2);
      ends.set(payload, (ends.get(payload) ?? 0) + 1);
    },
    { client, concurrency: 20, ttr: 2_000, backoff: { first: 20, longest: 200 }, onError: () => undefined },
  );
  const ids: string[] = [];
  const push = async (): Promise<void> => {
    for (let begin = 0; begin < COUNT; begin += 20) {
      const numbers = Array.from({ length: 20 }, (_, n) => begin + n);
      const events = numbers.map((n) => ({ payload: n, attempts: 99, idempotencyKey: `n${n}` }));
      await until(async () => {
        // A start may take longer than the client repeats a push.
        const pushed = await client.pushMany("q", events).catch(whileAway);
        ids.push(...pushed.map((event) => event.id));
        return pushed.length > 0;
      });
      await sleep(10);
    }
  };
  const kill = async (): Promise<void> => {
    for (let number = 1; number <= KILLS; number += 1) {
      await until(() => ends.size >= (number * COUNT) / 10);
      await server.kill();
      await server.start();
    }
  };
  await Promise.all([push(), kill()]);
  await until(() => ends.size === COUNT);
  const isOver = async (id: string): Promise<boolean> => (await client.explain("q", id)).state === "done";
  for (const id of ids) await until(() => isOver(id));
  expect(new Set(ids).size).toBe(COUNT);
  await worker.stop();
  await server.stop();
});

test("a server ends with a test that is killed", async () => {
  const program = ["node_modules/vite-node/vite-node.mjs", "test/left-behind.ts"];
  const killed = spawn(process.execPath, program, { stdio: ["ignore", "pipe", "inherit"] });
  const [url] = (await once(createInterface(killed.stdout), "line")) as [string];
  expect((await fetch(`${url}/clock`)).ok).toBe(true);
  killed.kill("SIGKILL");
  await until(async () => {
    const reply = await fetch(`${url}/clock`).catch(() => undefined);
    return reply === undefined;
  });
});
