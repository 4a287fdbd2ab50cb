/** What comes between a client and its server: cut responses, redirects, limits, strange values. */

import { createServer } from "node:net";
import type { AddressInfo } from "node:net";

import { expect, vi } from "vitest";

import { Client, ConnectionError, ProblemError, UsageError, Worker } from "../src/index.js";
import { test } from "../src/vitest.js";
import { standIn } from "./stand-in.js";
import { collecting, gate, until } from "./until.js";

const place = { token: "x", namespace: "ns" };
const quiet = { onError: (): void => undefined };

/** A server that sends some bytes to each request, and then closes; and what was sent to it. */
async function canned(responses: string[]): Promise<{ url: string; requests: string[] } & AsyncDisposable> {
  const requests: string[] = [];
  const server = createServer((socket) => {
    let text = "";
    socket.on("error", () => undefined);
    socket.on("data", (part) => {
      text += part.toString();
      const head = text.indexOf("\r\n\r\n");
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0);
      if (head < 0 || text.length < head + 4 + length) return;
      requests.push(text.slice(head + 4));
      socket.end(Buffer.from(responses[requests.length - 1] ?? "", "latin1"));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const close = async (): Promise<void> => void (await new Promise((resolve) => server.close(resolve)));
  return { url: `http://127.0.0.1:${port}`, requests, [Symbol.asyncDispose]: close };
}

const STORED = '[{"id": "7", "due_ms": 0, "duplicate": true}]';
const WHOLE = `HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: ${STORED.length}\r\n\r\n${STORED}`;

test.for([
  "",
  "HTTP/1.1 20",
  "no HTTP at all\r\n\r\n",
  WHOLE.slice(0, 30),
  WHOLE.slice(0, -1),
  `HTTP/1.1 201 Created\r\nConnection: close\r\n\r\n${STORED.slice(0, 20)}`,
  `HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2d\r\n${STORED}`,
  "HTTP/1.1 201 Created\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n[]",
  "HTTP/1.1 503 Unavailable\r\nContent-Length: 99\r\n\r\n{",
  "HTTP/1.1 503 Unavailable\r\nConnection: close\r\nContent-Type: text/html; charset=none\r\n\r\n\xff",
])("a push whose response is cut is repeated: %j", async (cut) => {
  await using server = await canned([cut, WHOLE]);
  const client = new Client({ url: server.url, ...place });
  expect((await client.push("q", 1)).duplicate).toBe(true);
  expect(server.requests.length).toBe(2);
  expect(new Set(server.requests).size).toBe(1);
});

test.for([
  ["7", 7_000],
  ["007", 7_000],
  ["31", 31_000],
  ["9".repeat(400), Infinity],
  ...["", "0", "-5", "1.5", "1e3", "0x10", "soon", "Wed, 21 Oct 2099 07:28:00 GMT"].map((after) => [after, undefined] as const),
] as const)("a pause is read as the server asks: %j", async ([after, expected]) => {
  for (const status of [429, 503]) {
    await using server = await standIn((_, response) => void response.writeHead(status, { "Retry-After": after }).end());
    const leasing = new Client({ url: server.url, ...place }).lease("q"); // it is not repeated
    const error = await leasing.catch((thrown: unknown) => thrown);
    expect((error as ProblemError).problem.status).toBe(status);
    expect((error as ProblemError).retryAfter).toBe(expected);
  }
});

test.for([
  [0, undefined, 5],
  [9_000, undefined, 5],
  [30_000, undefined, 2],
  [21_000, "30", 1],
  [60_000, undefined, 1],
] as const)("no repeat begins when the server may have forgotten the first try: %j", async ([each, after, expected]) => {
  const shown = performance.now.bind(performance);
  let tries = 0;
  const now = vi.spyOn(performance, "now").mockImplementation(() => shown() + tries * each);
  await using server = await standIn((_, response) => {
    tries += 1;
    response.writeHead(503, after === undefined ? {} : { "Retry-After": after }).end();
  });
  try {
    const pushing = new Client({ url: server.url, ...place }).push("q", 1);
    const error = await pushing.catch((thrown: unknown) => thrown);
    expect((error as ProblemError).remaining?.length).toBe(1);
    expect(tries).toBe(expected);
  } finally {
    now.mockRestore();
  }
});

test.for([301, 302, 303, 307, 308])("a redirect is an error and is not followed: %i", async (status) => {
  const methods: string[] = [];
  await using server = await standIn((request, response) => {
    methods.push(request.method ?? "");
    if (request.url === "/login") response.writeHead(200).end("{}");
    else response.writeHead(status, { Location: "/login" }).end();
  });
  const client = new Client({ url: server.url, ...place });
  const lease = { token: "t" };
  const calls = [
    () => client.push("q", 1),
    () => client.cancel("q", "7"),
    () => client.reschedule("q", "7", 1),
    () => client.settle(lease, { outcome: "ack" }),
  ];
  for (const call of calls) await expect(call()).rejects.toThrow(new RegExp(`^${status} `));
  expect(methods).toEqual(["POST", "DELETE", "PATCH", "POST"]);
  await expect(client.stream("q").next()).rejects.toThrow(new RegExp(`^${status} `));
});

test.for(["<h1>Log in</h1>", "{}", "null", "0", '""', "[]", '{"login": "/"}', " "])("a success of something else is none: %j", async (text) => {
  let requests = 0;
  let [other, own] = [200, 204];
  await using server = await standIn((_, response) => {
    requests += 1;
    if (requests === 1) response.writeHead(other).end(text);
    else response.writeHead(own).end(own === 200 ? '{"due_ms": 0}' : undefined);
  });
  const client = new Client({ url: server.url, ...place });
  const lease = { token: "t" };
  const calls = [
    () => client.settle(lease, { outcome: "ack" }),
    () => client.extend(lease, 1_000),
    () => client.cancel("q", "7"),
    () => client.drain("q", "s"),
  ];
  for (const call of calls) {
    requests = 0;
    await call();
    expect(requests).toBe(2);
  }
  for (const status of [201, 200]) {
    [requests, other, own] = [0, status, 200];
    await client.reschedule("q", "7", 1_000);
    expect(requests).toBe(2);
  }
});

test.for([200, 201, 202, 204, 205])("a success without a body is one of what returns nothing: %s", async (status) => {
  let requests = 0;
  await using server = await standIn((_, response) => {
    requests += 1;
    response.writeHead(status).end();
  });
  const client = new Client({ url: server.url, ...place });
  const lease = { token: "t" };
  await client.settle(lease, { outcome: "ack" });
  await client.extend(lease, 1_000);
  await client.cancel("q", "7");
  await client.drain("q", "s");
  await client.reschedule("q", "7", 1_000);
  expect(requests).toBe(5);
  await expect(client.get("q", "7")).rejects.toThrow(ConnectionError);
  await expect(client.explain("q", "7")).rejects.toThrow(ConnectionError);
});

test("a worker that is throttled waits as long as the server asks", async () => {
  let [asked, other] = [0, 0];
  await using server = await standIn((request, response) => {
    const isAsked = request.url?.includes("/asked/");
    if (isAsked) asked += 1;
    else other += 1;
    response.writeHead(429, isAsked ? { "Retry-After": "30" } : {}).end();
  });
  const options = { client: { url: server.url, ...place }, backoff: { first: 1, longest: 1 }, ...quiet };
  const workers = ["asked", "other"].map((queue) => new Worker(queue, () => undefined, options));
  await until(() => other >= 100 && asked > 0);
  await Promise.all(workers.map((worker) => worker.stop()));
  expect(asked).toBe(1);
});

test("a worker whose token expires ends with the reason", async ({ server }) => {
  const made = await fetch(`${server.adminUrl}/token/short?description=test&expires_in=2`, { method: "POST" });
  const { token } = (await made.json()) as { token: string };
  const client = { url: server.url, token, namespace: "short" };
  await expect(new Worker("q", () => undefined, { client, ...quiet }).ended).rejects.toThrow(/401/);
});

test("a thousand handlers run at a time", async ({ client }) => {
  const events = Array.from({ length: 1_000 }, (_, payload) => ({ payload }));
  await client.pushMany("q", events);
  const { opened, open } = gate();
  let begun = 0;
  const done = new Set<number>();
  const handler = async (payload: number): Promise<void> => {
    begun += 1;
    if (begun === 1_000) open();
    await opened;
    done.add(payload);
  };
  const worker = new Worker<number>("q", handler, { client, concurrency: 1_000, ttr: 600_000, ...quiet });
  await until(() => done.size === 1_000);
  await worker.stop();
  expect(await client.lease("q")).toEqual([]);
  expect(begun).toBe(1_000);
});

test("a request ends in time though memory is collected meanwhile", async () => {
  let hangs = false;
  await using server = await standIn((_, response) => void (hangs || response.writeHead(204).end()));
  const client = new Client({ url: server.url, timeout: 500, ...place });
  const { signal } = new AbortController();
  const settle = async (): Promise<void> => client.settle({ token: "t" }, { outcome: "ack" }, signal);
  // Functions that are called often are compiled again, and hold only what they still need.
  for (let n = 0; n < 3_000; n += 1) await settle();
  hangs = true;
  using _ = collecting();
  await expect(settle()).rejects.toThrow(/no response within 500 ms/);
});

test("a token of a file is taken, and one that cannot be sent is not shown", async () => {
  const sent: (string | undefined)[] = [];
  await using server = await standIn((request, response) => {
    sent.push(request.headers.authorization);
    response.end("[]");
  });
  const tokens = ["secret", "secret\n", "secret\r\n", " secret\t"];
  for (const token of tokens) await new Client({ url: server.url, token, namespace: "ns" }).lease("q");
  expect(sent).toEqual(tokens.map(() => "Bearer secret"));
  for (const token of ["secret\nother", "secret\0", "secret\x7f", "\u00e9secret", "sec\u2028ret"]) {
    expect(() => new Client({ url: server.url, token, namespace: "ns" })).toThrow(/^(?!.*secret).*the token/s);
  }
});

test("what is no name is refused before anything is sent", async () => {
  const client = new Client({ url: "http://127.0.0.1:9", ...place });
  for (const name of ["", ".", "..", "a/b", "a%2Fb", "a b", "a?b", "a#b", "ключ", "\u0661", "q\n", "\ud83d"]) {
    await expect(client.push(name, 1)).rejects.toThrow(UsageError);
    await expect(client.lease(name)).rejects.toThrow(UsageError);
    await expect(client.cancel("q", name)).rejects.toThrow(UsageError);
    await expect(new Worker(name, () => undefined, { client, ...quiet }).ended).rejects.toThrow(UsageError);
    if (name !== "") expect(() => new Client({ ...place, namespace: name })).toThrow(UsageError);
    await expect(client.settle({ token: name }, { outcome: "ack" })).rejects.toThrow(UsageError);
    await expect(client.extend({ token: name }, 1)).rejects.toThrow(UsageError);
  }
});

test("what is no URL is refused at once, and an empty variable is none", async () => {
  for (const url of ["here", "localhost:7777", "127.0.0.1:7777", "ftp://here", "http://", "://"]) {
    expect(() => new Client({ url, ...place })).toThrow(/no URL/);
  }
  await using server = await standIn((_, response) => void response.writeHead(200).end("[]"));
  try {
    vi.stubEnv("DULY_URL", server.url);
    vi.stubEnv("DULY_TOKEN", "x");
    vi.stubEnv("DULY_NAMESPACE", "ns");
    expect(await new Client({ url: "", token: "", namespace: "" }).lease("q")).toEqual([]);
    for (const url of [`${server.url} `, ` ${server.url}`, `${server.url}/\n`]) {
      expect(await new Client({ url, ...place }).lease("q")).toEqual([]);
      vi.stubEnv("DULY_URL", url);
      expect(await new Client(place).lease("q")).toEqual([]);
    }
    vi.stubEnv("DULY_URL", "");
    expect(() => new Client()).not.toThrow();
  } finally {
    vi.unstubAllEnvs();
  }
});

test("a payload comes back as it was", async ({ client }) => {
  const deep = JSON.parse("[".repeat(500) + "]".repeat(500)) as unknown;
  const values = [2 ** 53, 1e308, 5e-324, 1.5, null, false, "", "\u0000\u2028\u{1f600}", "half \ud83d", { "": { é: [] } }, deep];
  for (const value of values) {
    await client.push("q", value);
    const [lease] = await client.lease("q");
    expect(JSON.stringify(lease?.payload())).toBe(JSON.stringify(value));
  }
});

test("a payload is read by a reviver, where a number is too large", async ({ client }) => {
  await client.push("q", Buffer.from('{"id": 9007199254740993, "n": 1}'));
  const [lease] = await client.lease<{ id: unknown; n: unknown }>("q");
  const found = lease?.payload((_, value, context) => (typeof value === "number" ? (context?.source ?? `${value}`) : value));
  const hasSource = Number(process.versions.node.split(".")[0]) > 20;
  expect(found).toEqual({ id: hasSource ? "9007199254740993" : "9007199254740992", n: "1" });
});

test.for(["{}", "null", "7", '"leases"', "[null]", ""])("leases that are none are no response of duly: %s", async (text) => {
  await using server = await standIn((_, response) => void response.writeHead(200).end(text));
  await expect(new Client({ url: server.url, ...place }).lease("q")).rejects.toThrow(ConnectionError);
});

test("a payload that is none is refused before anything is sent", async ({ client }) => {
  let endless: unknown[] = [];
  for (let n = 0; n < 100_000; n += 1) endless = [endless];
  const none = { toJSON: () => undefined };
  for (const value of [undefined, 1n, [2n ** 64n], endless, () => 1, Symbol("s"), none]) {
    await expect(client.push("q", value)).rejects.toThrow(UsageError);
  }
  await expect(client.pushMany("q", [{ payload: 1 }, { payload: none }])).rejects.toThrow(UsageError);
  expect(await client.lease("q")).toEqual([]);
});

test("bytes that are no JSON become a dead letter", async ({ client }) => {
  const texts = ['"\xff"', '"\xed\xa0\x80"', "\xef\xbb\xbf7", "\xff\xfe7\0", "", "7 8", "NaN", "[".repeat(100_000)];
  const events = texts.map((text) => ({ payload: Buffer.from(text, "latin1"), attempts: 9 }));
  const pushed = await client.pushMany("q", events);
  const begun: unknown[] = [];
  const worker = new Worker("q", (payload) => void begun.push(payload), { client, ...quiet });
  for (const { id } of pushed) await until(async () => /dead|done/.test(String((await client.explain("q", id)).state)));
  await worker.stop();
  expect(begun).toEqual([]);
});
