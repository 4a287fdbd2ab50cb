/** A server for tests, whose clock stands still until it is moved: half an hour in a millisecond. */

import { spawn } from "node:child_process";
import type { ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve as absolute } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";

import { Client } from "./client.js";
import { ServerStartError, UsageError } from "./errors.js";

export interface TestServerOptions {
  /** Default: `memory:`, with a clock that `advance` moves; any other has the machine's. */
  readonly store?: string;
  /** Default: `test`. */
  readonly namespace?: string;
  /** The program. Default: that of `DULY_PROGRAM`, or `duly` on the path. */
  readonly program?: string;
}

type Process = ChildProcessByStdio<Writable, Readable, Readable>;

const LOG_LINES_MAX = 50;

/** A server in a process of its own, on free ports. */
export class TestServer implements AsyncDisposable {
  url = "";
  adminUrl = "";
  token = "";
  readonly namespace: string;
  readonly store: string;
  readonly #program: string;
  #process: Process | undefined;
  #lines: string[] = [];

  private constructor(
    options: TestServerOptions,
    readonly folder: string,
  ) {
    this.namespace = options.namespace ?? "test";
    this.store = options.store ?? "memory:";
    const program = options.program ?? process.env["DULY_PROGRAM"] ?? "duly";
    // A path is one from here: the server has a folder of its own.
    this.#program = program.includes("/") ? absolute(program) : program;
  }

  /** Starts a server. */
  static async start(options: TestServerOptions = {}): Promise<TestServer> {
    const server = new TestServer(options, await mkdtemp(join(tmpdir(), "duly-test-")));
    try {
      await server.start();
      server.token = await server.newToken(server.namespace);
    } catch (error) {
      await server.stop();
      throw error;
    }
    return server;
  }

  /** Starts it again, on the addresses that it had before. */
  async start(): Promise<void> {
    const address = (url: string): string => url.replace("http://", "") || "127.0.0.1:0";
    const listeners = ["--listen", address(this.url), "--admin-listen", address(this.adminUrl)];
    const clock = this.store === "memory:" ? ["--clock", "manual"] : [];
    const flags = [...listeners, ...clock, "--stop-with-stdin"];
    const started = spawn(this.#program, ["serve", "--store", this.store, ...flags], {
      cwd: this.folder,
      env: { ...environment(), DULY_SERVER__LOG__FORMAT: "json", DULY_SERVER__LOG__ACCESS: "false" },
      stdio: ["pipe", "pipe", "pipe"], // the first ends with this process, even if that is killed
    });
    this.#process = started;
    const keep = (line: string): void => {
      this.#lines = [...this.#lines.slice(-LOG_LINES_MAX), line];
    };
    createInterface(started.stderr).on("line", keep);
    await new Promise<void>((resolve, reject) => {
      const fail = (reason: unknown): void => {
        const text = `${this.#program} did not start: ${String(reason)}\n${this.#lines.join("\n")}`;
        reject(new ServerStartError(`${text}\nset DULY_PROGRAM to the program duly`));
      };
      started.once("error", fail);
      started.once("close", (code, signal) => fail(`it ended with ${code ?? signal}`));
      const found = new Map<string, string>();
      createInterface(started.stdout).on("line", (line) => {
        keep(line);
        const listener = listenerOf(line);
        if (listener) found.set(...listener);
        if (found.size === 2) resolve();
        this.url = found.get("api") ?? this.url;
        this.adminUrl = found.get("admin") ?? this.adminUrl;
      });
    });
  }

  /** Stops it in order, and removes its folder. */
  async stop(): Promise<void> {
    await this.#end("SIGTERM");
    await rm(this.folder, { recursive: true, force: true });
  }

  /** Kills it, as by `kill -9`. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const running = this.#process;
    this.#process = undefined;
    if (!running || running.exitCode !== null || running.signalCode !== null) return;
    const closed = once(running, "close");
    running.kill(signal);
    await closed;
  }

  /** Makes a token of a namespace. */
  async newToken(namespace: string): Promise<string> {
    const path = `/token/${namespace}?description=test`;
    const made = await this.#admin<{ token: string }>(path, { method: "POST" });
    return made.token;
  }

  /** Returns a client; in another namespace a test has queues that nobody else has. */
  async client(namespace?: string): Promise<Client> {
    const token = namespace === undefined ? this.token : await this.newToken(namespace);
    return new Client({ url: this.url, token, namespace: namespace ?? this.namespace });
  }

  /** Returns the time that the clock shows. */
  async now(): Promise<Date> {
    return new Date((await this.#admin<{ now_ms: number }>("/clock", {})).now_ms);
  }

  /**
   * Moves the clock by milliseconds; done when everything that became due can be leased. `settle`
   * is how long the clock waits, at each instant on the way, for workers to end what is due; in
   * milliseconds of real time.
   */
  async advance(milliseconds: number, options: { readonly settle?: number } = {}): Promise<Date> {
    if (this.store !== "memory:") {
      throw new UsageError(`the clock of a server on ${this.store} is not manual; use memory:`);
    }
    const body = JSON.stringify({ by_ms: milliseconds, settle_ms: options.settle ?? 0 });
    const moved = await this.#admin<{ now_ms: number }>("/clock/advance", { method: "POST", body });
    return new Date(moved.now_ms);
  }

  async #admin<R>(path: string, init: RequestInit): Promise<R> {
    const response = await fetch(this.adminUrl + path, init);
    const text = await response.text();
    if (!response.ok) throw new UsageError(`${path}: ${response.status} ${text}`);
    return JSON.parse(text) as R;
  }
}

/** Returns the environment without the settings of a real server, which name a real store or outbox. */
function environment(): NodeJS.ProcessEnv {
  const isOther = ([name]: [string, unknown]): boolean => !name.toUpperCase().startsWith("DULY_");
  return Object.fromEntries(Object.entries(process.env).filter(isOther));
}

function listenerOf(line: string): [string, string] | undefined {
  let entry: Record<string, string>;
  try {
    entry = JSON.parse(line) as Record<string, string>;
  } catch {
    return undefined;
  }
  const { message, listener, address } = entry;
  return message === "listening" && listener && address ? [listener, `http://${address}`] : undefined;
}
