import { describe, expect } from "vitest";

import { ack, Client, ConnectionError, LeaseLostError, ProblemError, PushManyError, retry, UsageError } from "../src/index.js";
import { TestServer } from "../src/testing.js";
import { test } from "../src/vitest.js";

const MINUTE = 60_000;

describe("the clock", () => {
  test("half an hour passes in a moment", async ({ server, client }) => {
    await client.push("close", { order: 7 }, { delay: 30 * MINUTE, key: "customer:8" });
    await server.advance(30 * MINUTE - 1);
    expect(await client.lease("close")).toEqual([]);
    const before = await server.now();
    expect((await server.advance(1)).getTime()).toBe(before.getTime() + 1);
    const [lease] = await client.lease("close");
    expect(lease?.payload()).toEqual({ order: 7 });
    expect([lease?.key, lease?.attempt]).toEqual(["customer:8", 1]);
    await client.settle(lease!, ack());
    await expect(client.get("close", lease!.id)).rejects.toThrow(/404 not_found/);
    expect((await client.explain("close", lease!.id)).state).toBe("done");
  });

  test("a lease that has ended is lost", async ({ server, client }) => {
    await client.push("close", 1, { attempts: 3 });
    const [lease] = await client.lease("close", { ttr: 10_000 });
    await client.extend(lease!, MINUTE);
    await server.advance(MINUTE - 1);
    await client.extend(lease!, 10_000);
    await server.advance(60 * MINUTE);
    await expect(client.settle(lease!, ack())).rejects.toThrow(LeaseLostError);
    const [again] = await client.lease("close");
    expect([again?.id, again?.attempt]).toEqual([lease!.id, 2]);
    await client.settle(again!, retry("the bank is closed", MINUTE));
    await server.advance(MINUTE);
    expect((await client.lease("close"))[0]?.attempt).toBe(3);
  });

  test("is not moved where it is not manual", async () => {
    const server = await TestServer.start({ store: "sqlite:jobs.db" });
    await expect(server.advance(1)).rejects.toThrow(/memory:/);
    await server.stop();
  });
});

describe("a client", () => {
  test("finds, moves and cancels events", async ({ client }) => {
    const at = new Date(Date.now() + 1_440 * MINUTE);
    const bytes = Uint8Array.of(0, 255);
    const { id } = await client.push("close", bytes, { at, headers: { shop: "a" } });
    const found = await client.get("close", id);
    expect(found).toMatchObject({ state: "scheduled", due_ms: at.getTime(), payload_base64: "AP8=" });
    await client.reschedule("close", id, MINUTE);
    expect((await client.get("close", id)).due_ms).toBeLessThan(at.getTime());
    await client.cancel("close", id);
    expect((await client.explain("close", id)).state).toBe("cancelled");
  });

  test("pushes many with few requests, and a repeat adds none", async ({ client }) => {
    const events = Array.from({ length: 2_500 }, (_, n) => ({ payload: n, idempotencyKey: `n${n}` }));
    const pushed = await client.pushMany("many", events);
    expect(new Set(pushed.map((event) => event.id)).size).toBe(2_500);
    const again = await client.pushMany("many", events);
    expect(again.every((event) => event.duplicate)).toBe(true);
  });

  test("says which of many were not stored", async ({ client }) => {
    await client.push("part", 1, { idempotencyKey: "a" });
    const pushing = client.pushMany("part", [{ payload: 2, idempotencyKey: "a" }, { payload: 3 }]);
    const error = await pushing.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(PushManyError);
    expect((error as PushManyError<unknown>).results).toMatchObject([{ status: 409 }, { duplicate: false }]);
    await expect(client.push("part", 2, { idempotencyKey: "a" })).rejects.toThrow(/409/);
  });

  test("has errors that say what would be right", async ({ server, client }) => {
    await expect(client.push("close", 1, { headers: { "duly-x": "1" } })).rejects.toThrow(/`duly-`/);
    const stranger = new Client({ url: server.url, token: "x", namespace: "other" });
    const denied = await stranger.push("close", 1).catch((thrown: unknown) => thrown);
    expect((denied as ProblemError).problem).toMatchObject({ status: 401 });
    await expect(client.push("close", 1, { delay: -1 })).rejects.toThrow(/delay is -1/);
    await expect(client.push("close", 1, { delay: 1, at: new Date() })).rejects.toThrow(/one of them/);
    await expect(client.push("a/b", 1)).rejects.toThrow(/letters, digits/);
    await expect(client.push("close", undefined)).rejects.toThrow(UsageError);
    expect(() => new Client({ token: "x" })).toThrow(/DULY_NAMESPACE/);
  });

  test("gives up after some tries where nothing listens", async () => {
    const client = new Client({ url: "http://127.0.0.1:9", token: "x", namespace: "ns" });
    await expect(client.push("close", 1)).rejects.toThrow(ConnectionError);
  });
});
