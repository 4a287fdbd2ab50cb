/** Handlers that block the thread: no other one begins by a lease that has ended meanwhile. */

import type { ServerResponse } from "node:http";

import { expect, test } from "vitest";

import { Worker } from "../src/index.js";
import { standIn, streamLease } from "./stand-in.js";
import { until } from "./until.js";

const quiet = { onError: (): void => undefined };
const place = { token: "x", namespace: "ns" };
const TTR = 1_000;
const LOST = '{"kind": "lease_lost"}';

function compute(milliseconds: number): void {
  const ends = performance.now() + milliseconds;
  while (performance.now() < ends);
}

test.for([Infinity, 60_000])("a handler that computes costs no other event its lease: %s", async (timeout) => {
  const tokens = Array.from({ length: 6 }, (_, n) => `lease-${n}`);
  const renewed = new Map<string, number>();
  const ages: number[] = [];
  const begun: string[] = [];
  const settled: string[] = [];
  let stream: ServerResponse | undefined;
  await using server = await standIn((request, response) => {
    const [token = "", call = ""] = (request.url ?? "").split(/[/?]/).slice(-2);
    if (request.url?.includes("/stream?")) {
      stream = response.writeHead(200);
      stream.cork(); // they come in one part
      for (const one of tokens) {
        renewed.set(one, performance.now());
        streamLease(stream, 7, one);
      }
      return stream.uncork();
    }
    if (request.url?.includes("/drain")) stream?.end();
    const isLost = performance.now() - (renewed.get(token) ?? Infinity) >= TTR;
    if (call === "extend" && !isLost) renewed.set(token, performance.now());
    if (call === "settle" && !isLost) settled.push(token);
    response.writeHead(isLost ? 409 : 204).end(isLost ? LOST : undefined);
  });
  const options = { client: { url: server.url, ...place }, ttr: TTR, timeout, ...quiet };
  const worker = new Worker("q", (_, { lease }) => {
    begun.push(lease.token);
    ages.push(performance.now() - renewed.get(lease.token)!);
    compute(400);
  }, options);
  await until(() => settled.length === tokens.length || begun.length > tokens.length || Math.max(...ages) >= TTR);
  await worker.stop();
  expect(Math.max(...ages)).toBeLessThan(TTR);
  expect(begun.sort()).toEqual(tokens);
  expect(settled.sort()).toEqual(tokens);
});

test("a lease that has lain in the socket for long begins only if it goes on", async () => {
  const begun: string[] = [];
  const extended: string[] = [];
  let stream: ServerResponse | undefined;
  await using server = await standIn((request, response) => {
    const [token = "", call = ""] = (request.url ?? "").split(/[/?]/).slice(-2);
    if (request.url?.includes("/stream?")) return streamLease((stream = response), 7, "first");
    if (request.url?.includes("/drain")) stream?.end();
    if (call === "extend") extended.push(token);
    const isLost = call === "extend" && token === "lost";
    response.writeHead(isLost ? 409 : 204).end(isLost ? LOST : undefined);
  });
  const options = { client: { url: server.url, ...place }, ttr: TTR, ...quiet };
  const worker = new Worker("q", (_, { lease }) => void begun.push(lease.token), options);
  await until(() => begun.length === 1);
  streamLease(stream!, 7, "lost", TTR / 2);
  streamLease(stream!, 7, "held", TTR / 2);
  streamLease(stream!, 7, "new");
  await until(() => begun.length > 2);
  await worker.stop();
  expect(begun.sort()).toEqual(["first", "held", "new"]);
  expect(extended.sort()).toEqual(["held", "lost"]);
});

test("a lease that ended in the socket and is not extended does not begin", async () => {
  const begun: string[] = [];
  const told: unknown[] = [];
  let stream: ServerResponse | undefined;
  await using server = await standIn((request, response) => {
    const [token = "", call = ""] = (request.url ?? "").split(/[/?]/).slice(-2);
    if (request.url?.includes("/stream?")) return streamLease((stream = response), 7, "first");
    if (request.url?.includes("/drain")) stream?.end();
    if (call !== "extend" || token !== "over") return void response.writeHead(204).end();
    response.destroy();
  });
  const onError = (error: unknown): void => void told.push(error);
  const options = { client: { url: server.url, ...place }, ttr: TTR, onError };
  const worker = new Worker("q", (_, { lease }) => void begun.push(lease.token), options);
  await until(() => begun.length === 1);
  streamLease(stream!, 7, "over", TTR * 1.4);
  streamLease(stream!, 7, "new");
  await until(() => begun.length > 1 && told.length > 0);
  await worker.stop();
  expect(begun).toEqual(["first", "new"]);
  expect(String(told[0])).toContain("lost before its handler began");
});

test("a clock that was set back makes only the next lease look old", async () => {
  const begun: string[] = [];
  const extended: string[] = [];
  let stream: ServerResponse | undefined;
  await using server = await standIn((request, response) => {
    const [token = "", call = ""] = (request.url ?? "").split(/[/?]/).slice(-2);
    if (request.url?.includes("/stream?")) return streamLease((stream = response), 7, "first");
    if (request.url?.includes("/drain")) stream?.end();
    if (call === "extend") extended.push(token);
    response.writeHead(204).end();
  });
  const options = { client: { url: server.url, ...place }, ttr: TTR, ...quiet };
  const worker = new Worker("q", (_, { lease }) => void begun.push(lease.token), options);
  await until(() => begun.length === 1);
  streamLease(stream!, 7, "second", TTR * 2);
  await until(() => begun.length === 2);
  streamLease(stream!, 7, "third", TTR * 2);
  await until(() => begun.length === 3);
  await worker.stop();
  expect(begun).toEqual(["first", "second", "third"]);
  expect(extended).toEqual(["second"]);
});
