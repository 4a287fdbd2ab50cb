/** One attempt: a handler runs while its lease is extended, and its end becomes a settlement. */

import { pause, within } from "./backoff.js";
import { receivedAt } from "./client.js";
import type { Client, Lease } from "./client.js";
import { isGone, LeaseLostError } from "./errors.js";
import { ack, bury, Outcome, retry } from "./settlements.js";
import type { Settlement } from "./settlements.js";

/** What a handler may know of its attempt. */
export interface Context {
  readonly lease: Lease;
  readonly id: string;
  /** From 1. */
  readonly attempt: number;
  /** Aborted when the lease is lost, the attempt has timed out, or the worker gives up waiting. */
  readonly signal: AbortSignal;
}

/** Handles a payload; what it returns is the reply to a caller. */
export type Handler<T> = (payload: T, context: Context) => unknown;

export interface AttemptOptions {
  readonly ttr: number;
  /** `Infinity` is none. */
  readonly timeout: number;
  /** Told of what goes wrong. */
  readonly onError: (error: unknown) => void;
  /** The extensions of all attempts of a worker that have no response yet. */
  readonly extending: Set<Promise<void>>;
}

/** How often a lease is extended within its length. */
const EXTENSIONS = 3;

/** Runs a handler for a lease. */
export class Attempt<T> {
  readonly #received: number;
  readonly #end = new AbortController();
  #check = new AbortController();
  #isLost = false;
  /** The handler, while it runs. */
  #handling: Promise<unknown> | undefined;
  #ends: number;
  /** Since when the lease goes on, or was last extended. */
  #renewed: number;
  /** By how much earlier than `#ends` the lease may end: an extension confirms that. */
  #age: number;

  constructor(
    private readonly client: Client,
    readonly lease: Lease<T>,
    /** The name of the stream that has sent it. */
    readonly stream: string,
    private readonly handler: Handler<T>,
    private readonly options: AttemptOptions,
    /** For how long the lease goes on already, as far as is known. */
    age = 0,
    /** Called where the server says that it was not so old. */
    private readonly misjudged = (): void => undefined,
  ) {
    this.#age = age;
    this.#received = receivedAt(lease);
    this.#ends = this.#received + options.ttr;
    this.#renewed = this.#received - age;
  }

  /** Extends the lease at once: it may have been lost. */
  checkLease(): void {
    this.#check.abort();
  }

  /** Aborts the handler, for whose end nobody waits. */
  abort(reason: Error): void {
    this.#end.abort(reason);
  }

  /** Calls `free` when the handler has ended, which may outlast its attempt. */
  whenOver(free: () => void): void {
    if (!this.#handling) return free();
    this.options.onError(new Error(`the handler of ${this.lease.id} outlasts its attempt, and keeps its slot`));
    void this.#handling.then(free, free);
  }

  /** Returns how the attempt ended; `undefined` if its lease was lost, or it was aborted. */
  async run(): Promise<Settlement | undefined> {
    const ended = new AbortController();
    const keeping = this.#keep(ended.signal);
    const aborted = new Promise<undefined>((resolve) => {
      const end = (): void => resolve(undefined);
      if (this.#end.signal.aborted) end();
      this.#end.signal.addEventListener("abort", end, { once: true });
    });
    try {
      return await Promise.race([this.#settlement(ended.signal), aborted]);
    } finally {
      ended.abort();
      await keeping;
    }
  }

  get isLost(): boolean {
    return this.#isLost;
  }

  /** When the lease ends, by `performance.now()`, if no later extension was confirmed. */
  get ends(): number {
    return this.#ends;
  }

  /** Aborted with its handler. */
  get signal(): AbortSignal {
    return this.#end.signal;
  }

  /** Extends the lease before its handler begins; returns whether it goes on as far as is known. */
  async isHeld(): Promise<boolean> {
    this.#check = new AbortController();
    await this.#extend(this.#end.signal);
    return !this.#isLost;
  }

  async #keep(ended: AbortSignal): Promise<void> {
    const step = this.options.ttr / EXTENSIONS;
    let begun = this.#received;
    while (!ended.aborted && !this.#isLost) {
      const next = Math.min(begun + step, this.#ends);
      await pause(Math.max(next - performance.now(), 0), AbortSignal.any([ended, this.#check.signal]));
      if (ended.aborted) return;
      begun = performance.now();
      this.#check = new AbortController();
      await this.#extend(ended);
    }
  }

  async #extend(ended: AbortSignal): Promise<void> {
    const { extending } = this.options;
    const mine = this.#extendOnce(ended);
    extending.add(mine);
    await mine.finally(() => extending.delete(mine));
  }

  /** Extends the lease once; aborts the handler where it is lost. */
  async #extendOnce(ended: AbortSignal): Promise<void> {
    const { ttr, onError } = this.options;
    const begun = performance.now();
    // One that hangs leaves time for another one.
    const limit = Math.max(Math.min(this.#ends - begun, ttr / EXTENSIONS), 1);
    try {
      await within(limit, ended, (signal) => this.client.extend(this.lease, ttr, signal));
      if (this.#age > 0 && begun >= this.#ends - this.#age) this.misjudged(); // it went on
      this.#age = 0;
      this.#ends = begun + ttr;
      this.#renewed = begun;
    } catch (error) {
      if (ended.aborted) return;
      this.#renewed = performance.now();
      const isOver = this.#renewed >= this.#ends - this.#age;
      this.#isLost = error instanceof LeaseLostError || isGone(error) || isOver;
      if (this.#isLost) this.abort(new Error(`the lease of ${this.lease.id} is lost`));
      else onError(error);
    }
  }

  /** Whether the lease should have been extended: the thread was blocked. */
  #isOld(): boolean {
    return performance.now() - this.#renewed >= this.options.ttr / EXTENSIONS;
  }

  /**
   * Returns whether the lease goes on, as far as is known; an old one is extended for that. Where a
   * handler blocks the thread, what came with its event may have been given to others.
   */
  async #mayBegin(ended: AbortSignal): Promise<boolean> {
    await this.#extend(ended);
    await Promise.all(this.options.extending); // its handler may block the thread as well
    if (this.#isLost) this.options.onError(lostBefore(this.lease));
    return !ended.aborted && !this.#isLost;
  }

  async #settlement(ended: AbortSignal): Promise<Settlement | undefined> {
    const { lease, handler, options } = this;
    while (this.#isOld()) if (!(await this.#mayBegin(ended))) return undefined;
    let payload: T;
    try {
      payload = lease.payload();
    } catch (error) {
      return bury(`the payload is no JSON: ${textOf(error)}`);
    }
    const timeout = new AbortController();
    const timer =
      options.timeout === Infinity
        ? undefined
        : setTimeout(() => timeout.abort(new Error("timed out")), options.timeout);
    const signal = AbortSignal.any([this.#end.signal, timeout.signal]);
    const context = { lease, id: lease.id, attempt: lease.attempt, signal };
    const timedOut = new Promise<Settlement>((resolve) => {
      const text = `timed out after ${options.timeout} ms`;
      timeout.signal.addEventListener("abort", () => resolve(retry(text)), { once: true });
    });
    try {
      const handling = (async () => ack(await handler(payload, context)))();
      const over = (): void => void (this.#handling = undefined);
      this.#handling = handling;
      handling.then(over, over);
      return await Promise.race([handling, timedOut]);
    } catch (error) {
      if (error instanceof Outcome) return error.settlement;
      // What it fails by as it is told to end says nothing of it.
      if (!ended.aborted) options.onError(new Error(`the handler of ${lease.id} failed`, { cause: error }));
      return retry(textOf(error));
    } finally {
      clearTimeout(timer);
    }
  }
}

/** The error of a lease that no handler began. */
export function lostBefore({ id }: Lease): Error {
  return new Error(`the lease of ${id} was lost before its handler began`);
}

function textOf(error: unknown): string {
  try {
    return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  } catch {
    return "an error that has no text";
  }
}
