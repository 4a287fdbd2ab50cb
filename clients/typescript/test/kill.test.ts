import { setTimeout as sleep } from "node:timers/promises";

import { expect, test } from "vitest";

import { Worker } from "../src/index.js";
import { TestServer } from "../src/testing.js";
import { until } from "./until.js";

const COUNT = 600;
const KILLS = 3;

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
      const events = Array.from({ length: 20 }, (_, n) => ({ payload: begin + n, attempts: 99 }));
      ids.push(...(await client.pushMany("q", events)).map((event) => event.id));
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
