/** One attempt: a handler runs while its lease is extended, and its end becomes a settlement. */

import { pause, within } from "./backoff.js";
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
  /** Told of what goes wrong and is not the handler's. */
  readonly onError: (error: unknown) => void;
}

/** How often a lease is extended within its length. */
const EXTENSIONS = 3;

/** Runs a handler for a lease. */
export class Attempt<T> {
  readonly #received = performance.now();
  readonly #end = new AbortController();
  #check = new AbortController();
  #isLost = false;
  #ends: number;

  constructor(
    private readonly client: Client,
    readonly lease: Lease<T>,
    /** The name of the stream that has sent it. */
    readonly stream: string,
    private readonly handler: Handler<T>,
    private readonly options: AttemptOptions,
  ) {
    this.#ends = this.#received + options.ttr;
  }

  /** Extends the lease at once: it may have been lost. */
  checkLease(): void {
    this.#check.abort();
  }

  /** Aborts the handler, for whose end nobody waits. */
  abort(reason: Error): void {
    this.#end.abort(reason);
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
      return await Promise.race([this.#settlement(), aborted]);
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
      await this.#extend(ended);
    }
  }

  /** Extends the lease once; aborts the handler where it is lost. */
  async #extend(ended: AbortSignal): Promise<void> {
    const { ttr, onError } = this.options;
    this.#check = new AbortController();
    const begun = performance.now();
    // One that hangs leaves time for another one.
    const limit = Math.max(Math.min(this.#ends - begun, ttr / EXTENSIONS), 1);
    try {
      await within(limit, ended, (signal) => this.client.extend(this.lease, ttr, signal));
      this.#ends = begun + ttr;
    } catch (error) {
      if (ended.aborted) return;
      this.#isLost = error instanceof LeaseLostError || isGone(error) || performance.now() >= this.#ends;
      if (this.#isLost) this.abort(new Error(`the lease of ${this.lease.id} is lost`));
      else onError(error);
    }
  }

  async #settlement(): Promise<Settlement> {
    const { lease, handler, options } = this;
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
      return await Promise.race([handling, timedOut]);
    } catch (error) {
      return error instanceof Outcome ? error.settlement : retry(textOf(error));
    } finally {
      clearTimeout(timer);
    }
  }
}

function textOf(error: unknown): string {
  try {
    return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  } catch {
    return "an error that has no text";
  }
}
