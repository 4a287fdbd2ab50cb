import type { ServerResponse } from "node:http";

import { expect, vi } from "vitest";

import { bury, Client, ConnectionError, Outcome, ProblemError, PushManyError, retry, snooze, UsageError, Worker } from "../src/index.js";
import type { DulyError } from "../src/index.js";
import { test } from "../src/vitest.js";
import { forwarded, standIn, streamLease } from "./stand-in.js";
import { gate, until } from "./until.js";

const quiet = { onError: (): void => undefined };
const place = { token: "x", namespace: "ns" };

/** Returns the state in which an event ends. */
async function endOf(client: Client, id: string): Promise<unknown> {
  let state: unknown;
  await until(async () => {
    ({ state } = await client.explain("q", id));
    return state === "done" || state === "dead";
  });
  return state;
}

test("a push that was interrupted says what is stored, and the rest is pushed again", async ({ server, client }) => {
  let requests = 0;
  await using proxy = await standIn(async (request, response) => {
    const [status, text] = await forwarded(server.url, request);
    requests += 1;
    // The second request is stored, and its response is lost.
    if (requests > 1) response.destroy();
    else response.writeHead(status).end(text);
  });
  const token = await server.newToken(client.namespace);
  const behind = new Client({ url: proxy.url, token, namespace: client.namespace });
  const events = Array.from({ length: 2_500 }, (_, payload) => ({ payload }));
  const pushing = behind.pushMany("many", events);
  const error = (await pushing.catch((thrown: unknown) => thrown)) as DulyError;
  expect(error).toBeInstanceOf(ConnectionError);
  expect(error.pushed?.length).toBe(1_000);
  expect(error.remaining?.map((event) => event.payload)).toEqual(events.slice(1_000).map((event) => event.payload));
  expect(JSON.stringify(error)).not.toContain("payload");
  const rest = await client.pushMany("many", error.remaining ?? []);
  expect(rest.map((event) => event.duplicate)).toEqual(events.slice(1_000).map((_, at) => at < 1_000));
});

test.for([
  [1_000, "x".repeat(9_000), 2],
  [9, "x".repeat(1_000_000), 2],
  [9, new Uint8Array(1_000_000), 2],
  [20, "\u00e9\u2028".repeat(200_000), 3],
  [20, '"'.repeat(500_000), 3],
  [1_001, null, 2],
] as const)("a push of many has as many requests as their bytes need: %i", async ([count, payload, requests], { server, client }) => {
  const sent: number[] = [];
  await using proxy = await standIn(async (request, response) => {
    sent.push(Number(request.headers["content-length"]));
    const [status, text] = await forwarded(server.url, request);
    response.writeHead(status).end(text);
  });
  const token = await server.newToken(client.namespace);
  const behind = new Client({ url: proxy.url, token, namespace: client.namespace });
  const pushed = await behind.pushMany("many", Array.from({ length: count }, () => ({ payload })));
  expect(new Set(pushed.map((event) => event.id)).size).toBe(count);
  expect(sent.length).toBe(requests);
  expect(Math.max(...sent)).toBeLessThan(8 << 20);
});

test("a response that has not a result for each event is none of duly", async () => {
  for (const text of ["[]", "{}", "null", '[{"id": "7", "due_ms": 0, "duplicate": true}]']) {
    await using server = await standIn((_, response) => void response.writeHead(201).end(text));
    const client = new Client({ url: server.url, ...place });
    const pushing = client.pushMany("q", [{ payload: 1 }, { payload: 2 }]);
    await expect(pushing).rejects.toThrow(ConnectionError);
  }
});

test("a later request that is stored in part has the results of all", async ({ client }) => {
  await client.push("part", 1, { idempotencyKey: "a" });
  const events = Array.from({ length: 1_000 }, (_, payload) => ({ payload }));
  const pushing = client.pushMany("part", [...events, { payload: 2, idempotencyKey: "a" }, { payload: 3 }]);
  const error = await pushing.catch((thrown: unknown) => thrown);
  const { results } = error as PushManyError<unknown>;
  expect(results.length).toBe(1_002);
  expect(results[1_000]).toMatchObject({ status: 409 });
});

test.for([
  [500, "unknown", 2],
  [500, "corrupt", 1],
  [408, "timeout", 2],
  ...[408, 429, 502, 504, 520, 522, 524, 530, 599].map((status) => [status, undefined, 2] as const),
  ...[401, 403, 404].map((status) => [status, undefined, 2] as const),
  ...([[400, "invalid"], [401, "unauthorized"], [403, "forbidden"]] as const).map((it) => [...it, 1] as const),
  ...[400, 410, 413, 422].map((status) => [status, undefined, 1] as const),
] as const)("a push of which the server does not know is repeated under its key: %s %s", async ([status, kind, requests]) => {
  const sent: string[] = [];
  await using server = await standIn(async (request, response) => {
    let text = "";
    for await (const part of request) text += String(part);
    sent.push(text);
    const problem = kind ? JSON.stringify({ kind, detail: "the reply was lost" }) : "<html>origin is unreachable</html>";
    if (sent.length === 1) response.writeHead(status).end(problem);
    else response.writeHead(201).end('[{"id": "7", "due_ms": 0, "duplicate": true}]');
  });
  const client = new Client({ url: server.url, ...place });
  const [result] = await Promise.allSettled([client.push("q", 1, { version: 2 })]);
  expect(result.status).toBe(requests === 2 ? "fulfilled" : "rejected");
  expect(sent.length).toBe(requests);
  expect(new Set(sent).size).toBe(1);
  expect(sent[0]).toContain('"version":2');
});

test("numbers that are none, and values that are no JSON, are refused before anything is sent", async ({ client }) => {
  const wrong = [{ at: new Date("2026-13-01") }, { attempts: Number.NaN }, { delay: Infinity }, { version: -1 }];
  for (const options of wrong) await expect(client.push("q", 1, options)).rejects.toThrow(UsageError);
  await expect(client.push("q", 1n)).rejects.toThrow(UsageError);
  await expect(client.lease("q", { limit: Number.NaN })).rejects.toThrow(UsageError);
  expect(await client.lease("q")).toEqual([]);
  expect(() => snooze(Number.NaN)).toThrow(UsageError);
  expect([snooze(-3), retry("why", -3)]).toMatchObject([{ delay_ms: 0 }, { delay_ms: 0 }]);
  for (const options of [{ timeout: 2 ** 31 }, { grace: Number.NaN }, { ttr: Infinity }, { ttr: 1 }]) {
    expect(() => new Worker("q", () => undefined, { client, ...options })).toThrow(UsageError);
  }
});

test("an attempt without a timeout and a stop without a limit wait for their handler", async ({ client }) => {
  const { opened, open } = gate();
  const signals: AbortSignal[] = [];
  const handler = async (_: unknown, { signal }: { signal: AbortSignal }): Promise<void> => {
    signals.push(signal);
    await opened;
  };
  const worker = new Worker("q", handler, { client, timeout: Infinity, grace: Infinity });
  const { id } = await client.push("q", 1, { attempts: 1 });
  await until(() => signals.length === 1);
  const stopped = worker.stop();
  // Timers of a millisecond have ended when these requests have.
  for (let n = 0; n < 5; n += 1) await client.lease("other");
  expect(signals[0]?.aborted).toBe(false);
  open();
  await stopped;
  expect(await endOf(client, id)).toBe("done");
});

test("what cannot be a reply is left out, and the event is done", async ({ client }) => {
  const circular: unknown[] = [];
  circular.push(circular);
  const broken = { toJSON: () => { throw new Error("a bug"); } };
  const replies = [1n, circular, broken, "x".repeat(2 << 20), () => undefined, { order: 7 }];
  const begun: number[] = [];
  const handler = (at: number): unknown => {
    begun.push(at);
    return replies[at];
  };
  const worker = new Worker<number>("q", handler, { client, ...quiet });
  const pushed = await client.pushMany("q", replies.map((_, payload) => ({ payload, attempts: 1 })));
  for (const { id } of pushed) expect(await endOf(client, id)).toBe("done");
  expect(begun.length).toBe(replies.length);
  await worker.stop();
});

test("a reply of which JSON has nothing is left out, and that is told", async ({ client }) => {
  const replies = [() => 1, Symbol("s"), { toJSON: () => undefined }, undefined, null];
  const told: string[] = [];
  const onError = (error: unknown): void => void told.push(String((error as Error).cause));
  const worker = new Worker<number>("q", (at) => replies[at], { client, onError });
  const pushed = await client.pushMany("q", replies.map((_, payload) => ({ payload, attempts: 1 })));
  for (const { id } of pushed) expect(await endOf(client, id)).toBe("done");
  await worker.stop();
  expect(told).toEqual(Array.from({ length: 3 }, () => expect.stringContaining("the reply is no value of JSON")));
});

test.for(["throws", "rejects"])("an onError that %s ends nothing", async (how) => {
  const failed = vi.spyOn(console, "error").mockImplementation(() => undefined);
  const { opened, open } = gate();
  let stream: ServerResponse | undefined;
  const settled: string[] = [];
  await using server = await standIn(async (request, response) => {
    if (request.url?.includes("/stream?")) return streamLease((stream = response), 7);
    if (request.url?.includes("/drain")) stream?.end();
    let text = "";
    for await (const part of request) text += String(part);
    if (request.url?.endsWith("/settle")) settled.push(text);
    const isRefused = request.url?.endsWith("/extend");
    if (isRefused) open();
    response.writeHead(isRefused ? 400 : 204).end(isRefused ? '{"kind": "invalid"}' : undefined);
  });
  const onError = (): Promise<void> => {
    if (how === "throws") throw new Error("a bug");
    return Promise.reject(new Error("a bug"));
  };
  try {
    const options = { client: { url: server.url, ...place }, ttr: 1_000, onError };
    const worker = new Worker("q", () => opened.then(() => until(() => failed.mock.calls.length > 0)), options);
    await until(() => settled.length > 0);
    await worker.stop();
    expect(settled).toEqual(['{"outcome":"ack"}']);
    expect(String(failed.mock.calls[0]?.[1])).toContain("a bug");
  } finally {
    failed.mockRestore();
  }
});

test("a reply that the server refuses is followed by an ack without it", async () => {
  const settled: unknown[] = [];
  let stream: ServerResponse | undefined;
  await using server = await standIn(async (request, response) => {
    if (request.url?.includes("/stream?")) return streamLease((stream = response), 7);
    if (request.url?.includes("/drain")) stream?.end();
    let text = "";
    for await (const part of request) text += String(part);
    if (!request.url?.endsWith("/settle")) return void response.writeHead(204).end();
    settled.push(JSON.parse(text));
    response.writeHead(text.includes("reply") ? 413 : 204).end();
  });
  const options = { client: { url: server.url, ...place }, ...quiet };
  const worker = new Worker<number>("q", (payload) => payload, options);
  await until(() => settled.length >= 2);
  expect(settled).toEqual([{ outcome: "ack", reply: 7 }, { outcome: "ack" }]);
  await worker.stop();
});

test("an event for which there is no slot goes back before its lease ends", async () => {
  const settled: string[] = [];
  await using server = await standIn(async (request, response) => {
    if (request.url?.includes("/stream?")) {
      streamLease(response, 1);
      return streamLease(response, 2);
    }
    let text = "";
    for await (const part of request) text += String(part);
    if (request.url?.endsWith("/settle")) settled.push(text);
    response.writeHead(request.url?.includes("/drain") ? 404 : 204).end();
  });
  const begun: number[] = [];
  const { opened, open } = gate();
  const handler = async (payload: number): Promise<void> => {
    begun.push(payload);
    await opened;
  };
  const options = { client: { url: server.url, ...place }, concurrency: 1, ttr: 1_000, ...quiet };
  const worker = new Worker<number>("q", handler, options);
  await until(() => settled.length === 1);
  open();
  await worker.stop();
  expect(begun).toEqual([1]);
  expect(settled).toEqual(['{"outcome":"release"}', '{"outcome":"ack"}']);
});

test("a handler that outlasts its attempt keeps its slot", async ({ client }) => {
  const { opened, open } = gate();
  const begun: number[] = [];
  const told: string[] = [];
  const handler = async (payload: number): Promise<void> => {
    begun.push(payload);
    if (payload === 1) await opened; // whatever its signal says
  };
  const onError = (error: unknown): void => void told.push(String(error));
  const worker = new Worker<number>("q", handler, { client, concurrency: 1, timeout: 500, ttr: 1_000, onError });
  const first = await client.push("q", 1, { attempts: 1 });
  expect(await endOf(client, first.id)).toBe("dead");
  const second = await client.push("q", 2, { attempts: 1 });
  await until(() => begun.length > 1 || told.some((text) => text.includes(`no slot for ${second.id}`)));
  expect(begun).toEqual([1]);
  expect(told[0]).toContain(`${first.id} outlasts its attempt`);
  open();
  expect(await endOf(client, second.id)).toBe("done");
  expect(begun).toEqual([1, 2]);
  await worker.stop();
});

test("whatever a handler throws ends its attempt", async ({ client }) => {
  const thrown = [Object.create(null), undefined, Symbol("s"), new Error("half \ud83d"), new Outcome(bury("half \ud83d"))];
  const worker = new Worker<number>("q", (at) => { throw thrown[at]; }, { client, ...quiet });
  const pushed = await client.pushMany("q", thrown.map((_, payload) => ({ payload, attempts: 1 })));
  for (const { id } of pushed) expect(await endOf(client, id)).toBe("dead");
  await worker.stop();
});

test("what a handler throws is told with its stack, and an outcome is not", async ({ client }) => {
  const told: Error[] = [];
  const broken = new TypeError("a bug");
  const worker = new Worker<number>(
    "q",
    (at) => { throw at === 0 ? broken : new Outcome(bury("poison")); },
    { client, onError: (error) => told.push(error as Error) },
  );
  const pushed = await client.pushMany("q", [0, 1].map((payload) => ({ payload, attempts: 1 })));
  for (const { id } of pushed) expect(await endOf(client, id)).toBe("dead");
  await worker.stop();
  expect(told.map(({ message, cause }) => [message, cause])).toEqual([[`the handler of ${pushed[0]?.id} failed`, broken]]);
});

test("a worker that is refused tells so, and one behind a proxy that is wrong goes on", async () => {
  const statuses = [404, 400, 401, 403];
  await using server = await standIn((_, response) => {
    const status = statuses.shift();
    response.writeHead(status ?? 401).end(status ? "<html>back soon</html>" : '{"kind": "unauthorized"}');
  });
  const told: unknown[] = [];
  const options = { client: { url: server.url, ...place }, backoff: { first: 1, longest: 1 } };
  const worker = new Worker("q", () => undefined, { ...options, onError: (error) => told.push(error) });
  await expect(worker.ended).rejects.toThrow(/401/);
  expect(told.map((error) => (error as ProblemError).problem.status)).toEqual([404, 400, 401, 403, 401]);
});

test("a stop waits some seconds at most for a drain that is not answered", async () => {
  let drains = 0;
  await using server = await standIn((request, response) => {
    if (request.url?.includes("/stream?")) streamLease(response, 7);
    else if (request.url?.includes("/drain")) drains += 1;
    else response.writeHead(204).end();
  });
  let begun = 0;
  const options = { client: { url: server.url, timeout: 7_000, ...place }, ...quiet };
  const worker = new Worker("q", () => { begun += 1; }, options);
  await until(() => begun === 1);
  await worker.stop();
  expect(drains).toBe(1);
});
