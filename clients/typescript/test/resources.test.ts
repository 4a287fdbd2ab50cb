/** What a worker and a server for tests leave behind: nothing. */

import { EventEmitter, getEventListeners } from "node:events";
import { mkdtemp, readFile, readdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";

import { expect, test, vi } from "vitest";

import { Worker } from "../src/index.js";
import { TestServer } from "../src/testing.js";
import { standIn } from "./stand-in.js";
import { until } from "./until.js";

const place = { token: "x", namespace: "ns" };

test("a worker has no more listeners after many reconnections", async () => {
  const signals: AbortSignal[] = [];
  const add = vi.spyOn(AbortSignal.prototype, "addEventListener").mockImplementation(function (this: AbortSignal, ...args) {
    signals.push(this);
    EventTarget.prototype.addEventListener.call(this, ...(args as Parameters<EventTarget["addEventListener"]>));
  });
  try {
    let streams = 0;
    await using server = await standIn((_, response) => {
      streams += 1;
      response.writeHead(streams % 2 === 0 ? 200 : 503).end();
    });
    const options = { client: { url: server.url, ...place }, backoff: { first: 0, longest: 0 }, onError: () => undefined };
    const worker = new Worker("q", () => undefined, options);
    await until(() => streams >= 100);
    const counts = [...new Set(signals)].map((signal) => getEventListeners(signal, "abort").length);
    expect(Math.max(...counts)).toBeLessThan(10);
    await worker.stop();
  } finally {
    add.mockRestore();
  }
});

test("many workers have one listener of a signal, and each is stopped by it", async () => {
  const before = process.listenerCount("SIGTERM");
  const warnings: Error[] = [];
  const warned = (warning: Error): void => void warnings.push(warning);
  process.on("warning", warned);
  await using server = await standIn((request, response) => {
    if (request.url?.includes("/drain")) response.writeHead(404).end('{"kind": "not_found"}');
    else response.writeHead(200).flushHeaders();
  });
  const options = { client: { url: server.url, ...place }, signals: true, grace: 0, onError: () => undefined };
  for (let round = 0; round < 2; round += 1) {
    const count = 2 * EventEmitter.defaultMaxListeners;
    const workers = Array.from({ length: count }, () => new Worker("q", () => undefined, options));
    expect(process.listenerCount("SIGTERM")).toBe(before + 1);
    await workers.pop()!.stop();
    expect(process.listenerCount("SIGTERM")).toBe(before + 1);
    process.emit("SIGTERM", "SIGTERM");
    await Promise.all(workers.map((worker) => worker.ended));
    expect(process.listenerCount("SIGTERM")).toBe(before);
    expect(process.listenerCount("SIGINT")).toBe(before);
  }
  process.off("warning", warned);
  expect(warnings).toEqual([]);
});

/** Returns a program that notes its process and its folder, and then is the server. */
async function noted(): Promise<{ readonly program: string; readonly started: () => Promise<{ id: number; folder: string }> }> {
  const folder = await mkdtemp(join(tmpdir(), "duly-test-"));
  const program = join(folder, "duly");
  const script = `#!/bin/sh\necho $$ $PWD >${folder}/started\nexec ${process.env["DULY_PROGRAM"] ?? "duly"} "$@"\n`;
  await writeFile(program, script, { mode: 0o755 });
  const started = async (): Promise<{ id: number; folder: string }> => {
    const [id, its] = (await readFile(join(folder, "started"), "utf8")).trim().split(" ");
    return { id: Number(id), folder: its! };
  };
  return { program, started };
}

function isThere(id: number): boolean {
  try {
    return process.kill(id, 0);
  } catch {
    return false;
  }
}

test.for([{ namespace: "a/b" }, { namespace: "no name" }])("a server that has no token to start with is ended: %j", async (options) => {
  const { program, started } = await noted();
  await expect(TestServer.start({ ...options, program })).rejects.toThrow(/token/);
  const { id, folder } = await started();
  expect(isThere(id)).toBe(false);
  await expect(readFile(folder)).rejects.toThrow(/ENOENT/);
});

test("a program is found from here", async () => {
  const { program, started } = await noted();
  await using server = await TestServer.start({ program: relative(".", program) });
  expect((await started()).folder).toBe(server.folder);
});

test.for(["memory:", "sqlite:jobs.db"])("a server on %s has no setting of the environment", async (store) => {
  const folder = await mkdtemp(join(tmpdir(), "duly-test-"));
  await writeFile(join(folder, "duly.toml"), "no settings");
  const settings = {
    DULY_SERVER__OUTBOX__URL: `sqlite:${folder}/outbox.db`,
    DULY_SERVER__ADMIN__ACCOUNTS__ANN: "secret",
    DULY_SERVER__POOLS__OTHER__URL: `sqlite:${folder}/other.db`,
    duly_server__admin__state: `sqlite:${folder}/state.db`,
    DULY__RECORDS__JOURNAL: `sqlite:${folder}/records.db`,
    DULY_CONFIG: `${folder}/duly.toml`,
  };
  for (const [name, value] of Object.entries(settings)) vi.stubEnv(name, value);
  try {
    await using server = await TestServer.start({ store });
    const client = await server.client();
    expect(await client.push("q", 1)).toBeDefined();
  } finally {
    vi.unstubAllEnvs();
  }
  expect(await readdir(folder)).toEqual(["duly.toml"]);
});

test("a program that is none does not start a server", async () => {
  await expect(TestServer.start({ program: "/no/such/program" })).rejects.toThrow(/did not start/);
  await expect(TestServer.start({ program: "false" })).rejects.toThrow(/it ended with 1/);
  const program = join(await mkdtemp(join(tmpdir(), "duly-test-")), "duly");
  await writeFile(program, "#!/bin/sh\nkill -9 $$\n", { mode: 0o755 });
  await expect(TestServer.start({ program })).rejects.toThrow(/it ended with SIGKILL/);
});

test.for(["SIGKILL", "SIGTERM", "SIGABRT"] as const)("a server that something else has ended by %s is stopped, or starts again", async (signal) => {
  const { program, started } = await noted();
  const server = await TestServer.start({ program });
  const end = async (): Promise<void> => {
    const { id } = await started();
    process.kill(id, signal);
    await until(() => !isThere(id));
  };
  await end();
  await server.start();
  await server.kill();
  await server.start();
  await end();
  await server.stop();
  await expect(readFile(server.folder)).rejects.toThrow(/ENOENT/);
});
