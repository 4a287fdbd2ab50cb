import type { IncomingMessage, ServerResponse } from "node:http";

import { expect, test, vi } from "vitest";

import { Client, PushManyError, Worker } from "../src/index.js";
import type { Context } from "../src/index.js";
import { standIn, streamLease } from "./stand-in.js";
import { gate, until } from "./until.js";

const quick = { onError: (): void => undefined, backoff: { first: 1, longest: 1 } };
const place = { token: "x", namespace: "ns" };

/** A stand-in with one lease, whose streams end when they are drained, and what was settled there. */
async function server(respond: (call: string, response: ServerResponse, nth: number) => boolean) {
  const settled: unknown[] = [];
  const calls = new Map<string, number>();
  let stream: ServerResponse | undefined;
  const standing = await standIn(async (request: IncomingMessage, response) => {
    const call = request.url?.split(/[?/]/).filter((part) => /^(stream|drain|extend|settle)$/.test(part)).at(-1) ?? "";
    if (call === "stream") return streamLease((stream = response), 7);
    if (call === "drain") stream?.end();
    let text = "";
    for await (const part of request) text += String(part);
    if (call === "settle") settled.push(JSON.parse(text));
    const nth = (calls.get(call) ?? 0) + 1;
    calls.set(call, nth);
    if (!respond(call, response, nth)) response.writeHead(204).end();
  });
  return Object.assign(standing, { settled });
}

function worker(at: { readonly url: string }, handler: (signal: AbortSignal) => Promise<void>, options: object): Worker {
  const client = { url: at.url, ...place };
  return new Worker("q", (_, { signal }) => handler(signal), { client, ...quick, ...options });
}

/** Returns a handler that ends with a gate, or when it is told to, and how it has ended. */
function handlerOf(opened: Promise<void>) {
  const ended: string[] = [];
  const handler = async (signal: AbortSignal): Promise<void> => {
    const aborted = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
    await Promise.race([opened, aborted]);
    ended.push(signal.aborted ? "aborted" : "done");
  };
  return { ended, handler };
}

test("an extension that hangs is followed by another one", async () => {
  const { opened, open } = gate();
  await using at = await server((call, _, nth) => {
    if (call === "extend" && nth === 4) open(); // later than the first lease would have ended
    return call === "extend" && nth === 1;
  });
  const { ended, handler } = handlerOf(opened);
  const working = worker(at, handler, { ttr: 1_000 });
  await until(() => ended.length === 1);
  await working.stop();
  expect(ended).toEqual(["done"]);
  expect(at.settled).toEqual([{ outcome: "ack" }]);
});

test("a handler that ends while an extension hangs is settled at once", async () => {
  const { opened, open } = gate();
  await using at = await server((call) => {
    if (call === "extend") open();
    return call === "extend";
  });
  const { handler } = handlerOf(opened);
  const working = worker(at, handler, { ttr: 1_000 });
  await until(() => at.settled.length === 1);
  await working.stop();
  expect(at.settled).toEqual([{ outcome: "ack" }]);
});

test.for([
  [400, 1],
  [401, 2],
  [403, 2],
  [404, 2],
] as const)("a %i of a proxy ends no attempt, and is met by %i settlements", async ([status, tries]) => {
  const { opened, open } = gate();
  await using at = await server((call, response, nth) => {
    if (call === "extend" && nth > 1) open();
    if (nth > 1 || call === "drain") return false;
    response.writeHead(status).end("<html>back soon</html>");
    return true;
  });
  const { ended, handler } = handlerOf(opened);
  const working = worker(at, handler, { ttr: 1_000 });
  await until(() => ended.length === 1);
  await working.stop();
  expect(ended).toEqual(["done"]);
  expect(at.settled).toEqual(Array.from({ length: tries }, () => ({ outcome: "ack" })));
});

test("a settlement is repeated for as long as its lease goes on", async () => {
  await using at = await server((call, response, nth) => {
    if (call !== "settle" || nth >= 8) return false;
    response.writeHead(502).end();
    return true;
  });
  const { ended, handler } = handlerOf(Promise.resolve());
  const working = worker(at, handler, {});
  await until(() => ended.length === 1);
  await working.stop();
  expect(at.settled).toEqual(Array.from({ length: 8 }, () => ({ outcome: "ack" })));
});

test("a pause that the server asks for does not outlast the lease that is settled", async () => {
  await using at = await server((call, response, nth) => {
    if (call !== "settle" || nth > 1) return false;
    response.writeHead(503, { "Retry-After": "30" }).end();
    return true;
  });
  const { handler } = handlerOf(Promise.resolve());
  const working = worker(at, handler, { ttr: 1_000, grace: 0 });
  const begun = performance.now();
  await until(() => at.settled.length === 2 || performance.now() - begun > 15_000);
  expect(at.settled.length).toBe(2);
  await working.stop();
});

test("a stop waits for a settlement no longer than its grace", async () => {
  await using at = await server((call, response) => {
    if (call !== "settle") return false;
    response.writeHead(502).end();
    return true;
  });
  const { handler } = handlerOf(Promise.resolve());
  const working = worker(at, handler, { ttr: 3_600_000, grace: 0 });
  await until(() => at.settled.length > 5);
  await working.stop();
});

test.for(["hangs", "is away for long"])("a stop is not held up by a settlement where the server %s", async (how) => {
  await using at = await server((call, response) => {
    if (call !== "settle") return false;
    if (how !== "hangs") response.writeHead(503, { "Retry-After": "30" }).end();
    return true;
  });
  const { handler } = handlerOf(Promise.resolve());
  const working = worker(at, handler, { ttr: 3_600_000, grace: 0 });
  await until(() => at.settled.length > 0);
  await working.stop();
  // The one that was cut short, and a last one, which is repeated if there is a response.
  expect(at.settled.length === 2).toBe(how === "hangs");
  expect(at.settled.slice(0, 2)).toEqual([{ outcome: "ack" }, { outcome: "ack" }]);
});

test("a pause that the server asks for does not outlast the stop that drains", async () => {
  let drains = 0;
  let stream: ServerResponse | undefined;
  await using at = await standIn((request, response) => {
    if (request.url?.includes("/stream?")) return (stream = response.writeHead(200)).flushHeaders();
    drains += 1;
    if (drains === 1) return void response.writeHead(503, { "Retry-After": "30" }).end();
    response.writeHead(204).end();
    stream?.end();
  });
  const working = worker(at, () => Promise.resolve(), {});
  await until(() => stream !== undefined);
  await working.stop();
  expect(drains).toBe(2);
});

test("a stop takes one lease at most of a stream that it could not drain", async () => {
  const settled: string[] = [];
  let [streams, drains, begun] = [0, 0, 0];
  let stream: ServerResponse | undefined;
  await using at = await standIn(async (request, response) => {
    if (request.url?.includes("/stream?")) {
      streams += 1;
      if (streams === 1) streamLease((stream = response), 7);
      else stream = response.writeHead(200);
      if (streams === 2) response.flushHeaders();
      return;
    }
    if (request.url?.includes("/drain")) {
      drains += 1;
      response.writeHead(drains === 1 ? 404 : 204).end(drains === 1 ? '{"kind": "not_found"}' : undefined);
      if (drains === 1) streamLease(stream!, 8);
      return;
    }
    let text = "";
    for await (const part of request) text += String(part);
    response.writeHead(204).end();
    if (!request.url?.endsWith("/settle")) return;
    settled.push((JSON.parse(text) as { outcome: string }).outcome);
    if (settled.at(-1) === "ack") stream?.end();
    else if (drains < 2 && settled.length < 5) streamLease(stream!, 8);
  });
  const { opened, open } = gate();
  const working = worker(at, async () => { begun += 1; await opened; }, {});
  await until(() => begun === 1);
  stream?.destroy();
  await until(() => streams === 2);
  const stopped = working.stop();
  await until(() => settled.length === 5 || (drains >= 2 && settled.length > 0));
  open();
  await stopped;
  expect(settled).toEqual(["release", "ack"]);
});

test.for([200, 403])("a worker is ready when its stream has begun, or it has ended: %i", async (status) => {
  let stream: ServerResponse | undefined;
  await using at = await standIn((request, response) => {
    if (request.url?.includes("/stream?")) return void (stream = response);
    stream?.end();
    response.writeHead(204).end();
  });
  const working = worker(at, () => Promise.resolve(), {});
  let isReady = false;
  const ready = working.ready.then(() => (isReady = true));
  await until(() => stream !== undefined);
  expect(isReady).toBe(false);
  stream!.writeHead(status);
  if (status === 200) stream!.flushHeaders();
  else stream!.end('{"kind": "forbidden"}');
  if (status === 200) await ready;
  else await expect(ready).rejects.toThrow(/403/);
  await working.stop().catch(() => undefined);
});

test("a stop while a stream begins costs no attempt", async () => {
  const settled: unknown[] = [];
  let drains = 0;
  let stream: ServerResponse | undefined;
  await using at = await standIn(async (request, response) => {
    if (request.url?.includes("/stream?")) return void (stream = response);
    if (request.url?.includes("/drain")) {
      drains += 1;
      if (drains < 3) return void response.writeHead(404).end('{"kind": "not_found"}');
      if (drains === 3) streamLease(stream!, 7);
    }
    let text = "";
    for await (const part of request) text += String(part);
    if (request.url?.endsWith("/settle")) {
      settled.push(JSON.parse(text));
      stream?.end();
    }
    response.writeHead(204).end();
  });
  const working = worker(at, () => Promise.resolve(), {});
  await until(() => stream !== undefined);
  await working.stop();
  expect(settled).toEqual([{ outcome: "release" }]);
});

test("what waits for a slot is handed back as the worker stops", async () => {
  const { opened, open } = gate();
  const begun: string[] = [];
  const settled: [string, string][] = [];
  let stream: ServerResponse | undefined;
  await using at = await standIn(async (request, response) => {
    const [token = "", call = ""] = (request.url ?? "").split(/[/?]/).slice(-2);
    if (request.url?.includes("/stream?")) {
      streamLease((stream = response), 7, "runs");
      return streamLease(response, 7, "waits");
    }
    let text = "";
    for await (const part of request) text += String(part);
    if (call === "settle") {
      settled.push([token, (JSON.parse(text) as { outcome: string }).outcome]);
      open();
      if (settled.length === 2) stream?.end();
    }
    response.writeHead(204).end();
  });
  const handler = async (_: unknown, { lease, signal }: Context): Promise<void> => {
    begun.push(lease.token);
    await opened;
    signal.throwIfAborted();
  };
  const client = { url: at.url, ...place };
  const working = new Worker("q", handler, { client, ...quick, concurrency: 1, ttr: 3_600_000, grace: 5_000 });
  await until(() => begun.length === 1);
  await working.stop();
  expect(begun).toEqual(["runs"]);
  expect(settled).toEqual([["waits", "release"], ["runs", "ack"]]);
});

test("what waited for a slot while its stream ended begins only if its lease goes on", async () => {
  const { opened, open } = gate();
  const { opened: hasBegun, open: begins } = gate();
  const begun: string[] = [];
  const settled: string[] = [];
  let streams = 0;
  let stream: ServerResponse | undefined;
  await using at = await standIn(async (request, response) => {
    const [token = "", call = ""] = (request.url ?? "").split(/[/?]/).slice(-2);
    if (request.url?.includes("/stream?")) {
      const nth = streams;
      streams += 1;
      if (nth === 1) await hasBegun;
      if (nth < 3) streamLease(response, nth, ["first", "second", "third"][nth]);
      if (nth < 3) return void response.end();
      open(); // the last one is taken
      return (stream = response.writeHead(200)).flushHeaders();
    }
    if (request.url?.includes("/drain")) stream?.end();
    if (call === "settle") settled.push(token);
    const isLost = call === "extend" && token === "second";
    response.writeHead(isLost ? 409 : 204).end(isLost ? '{"kind": "lease_lost"}' : undefined);
  });
  const handler = async (_: unknown, { lease }: Context): Promise<void> => {
    begun.push(lease.token);
    begins();
    await opened;
  };
  const client = { url: at.url, ...place };
  const working = new Worker("q", handler, { client, concurrency: 1, ...quick });
  await until(() => settled.length > 1 && settled.length === begun.length);
  await working.stop();
  expect(begun).toEqual(["first", "third"]);
  expect(settled).toEqual(begun);
});

test("the end of a stream checks the lease of each handler that runs at once", async () => {
  const { opened: hasBegun, open: begins } = gate();
  let streams = 0;
  await using at = await standIn(async (request, response) => {
    if (request.url?.includes("/stream?")) {
      streams += 1;
      streamLease(response, 7);
      await hasBegun;
      return void response.end();
    }
    const isLost = request.url?.endsWith("/extend") === true;
    response.writeHead(isLost ? 409 : 204).end(isLost ? '{"kind": "lease_lost"}' : undefined);
  });
  const { ended, handler } = handlerOf(new Promise(() => undefined));
  const handle = (signal: AbortSignal): Promise<void> => {
    begins();
    return handler(signal);
  };
  // The next stream would begin a long time later.
  const working = worker(at, handle, { ttr: 3_600_000, backoff: { first: 600_000, longest: 600_000 } });
  await until(() => ended.length === 1);
  await working.stop();
  expect([streams, ended]).toEqual([1, ["aborted"]]);
});

const away = { problem: { status: 503, kind: "unavailable", title: "", detail: "away" } };
const conflict = { problem: { status: 409, kind: "conflict", title: "", detail: "another" } };
const stored = { id: "7", due_ms: 0, duplicate: true };

test.for([
  [207, 201, [away, away], 2],
  [207, 201, [conflict, away], 2],
  [207, 201, [stored, away], 2],
  [207, 201, [conflict, stored], 1],
  [200, 200, [stored, away], 2], // a gateway makes a 200 of each success
  [200, 200, [conflict, stored], 1],
] as const)("a push of many is repeated where one of them may be stored then: %j", async ([part, all, first, requests]) => {
  const sent: string[] = [];
  await using at = await standIn(async (request, response) => {
    let text = "";
    for await (const part of request) text += String(part);
    sent.push(text);
    const isFirst = sent.length === 1;
    response.writeHead(isFirst ? part : all).end(JSON.stringify(isFirst ? first : [stored, stored]));
  });
  const client = new Client({ url: at.url, ...place });
  const pushing = client.pushMany("q", [{ payload: 1 }, { payload: 2 }]);
  if (requests === 1) await expect(pushing).rejects.toThrow(PushManyError);
  else expect((await pushing).length).toBe(2);
  expect(sent.length).toBe(requests);
  expect(new Set(sent).size).toBe(1);
});

test("a stream is silent when its server is, and not while its consumer works", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    let stream: ServerResponse | undefined;
    await using at = await standIn((_, response) => streamLease((stream = response), 1));
    const leases = new Client({ url: at.url, ...place }).stream<number>("q");
    expect((await leases.next()).value?.payload()).toBe(1);
    vi.advanceTimersByTime(60_000); // the consumer works for a minute
    streamLease(stream!, 2);
    expect((await leases.next()).value?.payload()).toBe(2);
    const next = leases.next();
    vi.advanceTimersByTime(34_000);
    streamLease(stream!, 3);
    expect((await next).value?.payload()).toBe(3);
    const silent = expect(leases.next()).rejects.toThrow(/nothing came for 35 s/);
    vi.advanceTimersByTime(35_000);
    await silent;
  } finally {
    vi.useRealTimers();
  }
});
