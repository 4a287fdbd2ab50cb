/** A worker: it takes leases from a stream and runs a handler for each, so many at a time. */

import { randomUUID } from "node:crypto";

import { Attempt, lostBefore } from "./attempt.js";
import type { AttemptOptions, Handler } from "./attempt.js";
import { pause, pauseAfter, within } from "./backoff.js";
import type { BackoffOptions } from "./backoff.js";
import { span, timer, whole } from "./checks.js";
import { Client, receivedAt } from "./client.js";
import type { ClientOptions, Lease } from "./client.js";
import { askedPause, isBare, isGone, LeaseLostError, mayPass, ProblemError, UsageError } from "./errors.js";
import { ack, release } from "./settlements.js";
import type { Settlement } from "./settlements.js";

export interface WorkerOptions {
  /** A client, or how to reach the server. Default: by `DULY_URL`, `DULY_TOKEN`, `DULY_NAMESPACE`. */
  readonly client?: Client | ClientOptions;
  /** How many handlers run at a time. Default: 10. */
  readonly concurrency?: number;
  /** How long an attempt may take, in milliseconds. Default: for ever. */
  readonly timeout?: number;
  /** The length of a lease, which is extended, in milliseconds. Default: 30,000. */
  readonly ttr?: number;
  /** How long a stop waits for handlers, in milliseconds. Default: 25,000. */
  readonly grace?: number;
  /** Stops by TERM and INT. Default: no. */
  readonly signals?: boolean;
  readonly backoff?: BackoffOptions;
  /** Told of what handlers throw, of lost leases and connections, and of the end. Default: `console.warn`. */
  readonly onError?: (error: unknown) => void;
}

const CONCURRENCY_MAX = 1_000;
const TTR_MIN = 1_000;
/** For which part of its lease an event waits for a slot, before it is handed back. */
const SLOT_WAIT = 0.5;
/** How long a stop waits for the server to drain a stream, and then to end it. */
const DRAIN_MAX = 5_000;
/** How long until a stream that the server does not know yet is drained again. */
const DRAIN_AGAIN = 50;
/** How long a stop waits for a settlement after `grace`. */
const SETTLE_MAX = 5_000;
/** A stream that lasted so long is no failure: the next one begins after the shortest pause. */
const STREAM_LASTED = 5_000;
/** Statuses of refusals that another try would meet as well, if they are no proxy's. */
const LASTING = new Set([400, 401, 403, 413, 415, 422]);
/** Statuses of a settlement that is wrong, whatever the state of its event. */
const INVALID = new Set([400, 413, 422]);
const SIGNALS = ["SIGTERM", "SIGINT"] as const;

/** What TERM and INT stop: node warns of more than ten listeners of its own for them. */
const toStop = new Set<() => void>();
const stopAll = (): void => toStop.forEach((stop) => stop());

/** Stops a worker by TERM and INT, until the function that it returns is called. */
function stoppedBySignals(stop: () => void): () => void {
  if (toStop.size === 0) for (const signal of SIGNALS) process.on(signal, stopAll);
  toStop.add(stop);
  return () => {
    toStop.delete(stop);
    if (toStop.size === 0) for (const signal of SIGNALS) process.off(signal, stopAll);
  };
}

/**
 * Runs `handler` for the events of a queue, from its creation until `stop`.
 *
 * Leases are extended while handlers run. The signal of a handler whose lease is lost is aborted, as
 * another worker may have the event.
 */
export class Worker<T = unknown> {
  /** Settled when the worker has ended: rejected where the server refuses it for good. */
  readonly ended: Promise<void>;
  /** Settled when the server has begun a stream, as then what is due is handled; or as `ended` is. */
  readonly ready: Promise<void>;

  readonly #client: Client;
  readonly #concurrency: number;
  readonly #grace: number;
  readonly #backoff: BackoffOptions;
  readonly #attempt: AttemptOptions;
  readonly #stopping = new AbortController();
  readonly #running = new Map<Promise<void>, Attempt<T>>();
  /** More leases than there are slots come after a reconnection; they wait here. */
  readonly #waiting = new Set<AbortController>();
  #free: number;
  #begun: () => void = () => undefined;
  /** The name of the stream that goes on, if there is one. */
  #live = "";
  #isDrained = false;
  /** Whether what has not begun goes back. */
  #isLeaving = false;

  constructor(
    readonly queue: string,
    private readonly handler: Handler<T>,
    options: WorkerOptions = {},
  ) {
    const { client, concurrency = 10, ttr = 30_000, timeout = Infinity, grace = 25_000 } = options;
    this.#concurrency = this.#free = whole("concurrency", concurrency, CONCURRENCY_MAX);
    if (!(span("ttr", ttr) >= TTR_MIN)) throw new UsageError(`ttr is ${ttr}; it must be at least ${TTR_MIN}`);
    timer("timeout", timeout);
    this.#grace = timer("grace", grace);
    this.#client = client instanceof Client ? client : new Client(client);
    this.#backoff = options.backoff ?? {};
    const onError = options.onError ?? ((error) => console.warn("duly:", error));
    this.#attempt = { ttr, timeout, onError: (error) => tell(onError, error), extending: new Set() };
    const begun = new Promise<void>((resolve) => (this.#begun = resolve));
    this.ended = this.#run(options.signals === true);
    this.ready = Promise.race([begun, this.ended]);
    this.ready.catch(() => undefined);
    this.ended.catch(() => undefined); // whoever waits for it is told
  }

  /** Takes no more events, waits for handlers as long as `grace`, and hands back the others. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.ended;
  }

  async #run(hasSignals: boolean): Promise<void> {
    const forget = hasSignals ? stoppedBySignals(() => this.#stopping.abort()) : undefined;
    try {
      await this.#receive();
    } finally {
      await this.#drain(0);
      forget?.();
    }
  }

  /** Streams leases, and again after a pause when the connection ends, until it is stopped. */
  async #receive(): Promise<void> {
    const stopping = this.#stopping.signal;
    let failures = 0;
    while (!stopping.aborted) {
      const begun = performance.now();
      const close = new AbortController();
      const name = randomUUID();
      const streaming = this.#stream(name, close.signal);
      let stop = (): void => undefined;
      const stopped = new Promise<void>((resolve) => (stop = resolve));
      stopping.addEventListener("abort", stop);
      try {
        await Promise.race([streaming, stopped]);
        if (stopping.aborted) await this.#endStream(name, streaming);
      } catch (error) {
        this.#attempt.onError(error);
        if (isLasting(error) || error instanceof UsageError) throw error;
        failures = performance.now() - begun >= STREAM_LASTED ? 1 : failures + 1;
        await pause(Math.max(pauseAfter(failures, this.#backoff), askedPause(error) ?? 0), stopping);
      } finally {
        stopping.removeEventListener("abort", stop);
        close.abort();
        await streaming.catch(() => undefined); // told above, or of no use any more
      }
    }
    await this.#drain(this.#grace);
  }

  /** Stops: nothing more is sent, and what was sent ends or is handed back. */
  async #endStream(name: string, streaming: Promise<void>): Promise<void> {
    await this.#drainStream(name, true);
    await this.#drain(this.#grace);
    if (this.#isDrained) await ended(streaming);
  }

  /**
   * Lets the server send nothing more. It does not know yet a stream that is about to begin: with
   * `isRepeated` that is drained when it has begun.
   */
  async #drainStream(name: string, isRepeated = false): Promise<void> {
    try {
      const ends = performance.now() + DRAIN_MAX;
      await within(DRAIN_MAX, undefined, async (signal) => {
        while (!this.#isDrained) {
          try {
            await this.#client.drain(this.queue, name, signal, ends);
            this.#isDrained = true;
          } catch (error) {
            if (!isRepeated || !isGone(error) || this.#live !== name || signal.aborted) throw error;
            await pause(DRAIN_AGAIN, signal);
          }
        }
      });
    } catch (error) {
      // The server gives back what is on its way when the connection ends.
      this.#attempt.onError(error);
    }
  }

  async #stream(name: string, signal: AbortSignal): Promise<void> {
    this.#checkLeases(); // again, as the server may have been away when an earlier stream ended
    let undrained = 0;
    const options = { ttr: this.#attempt.ttr, maxInFlight: this.#concurrency, name, signal, begun: this.#begun };
    this.#live = name;
    let quickest = Infinity;
    const misjudged = (): void => void (quickest = Infinity); // a clock was set
    try {
      for await (const lease of this.#client.stream<T>(this.queue, options)) {
        // By how much longer it was on its way than the quickest one: it lay in the socket while the
        // thread was blocked. The clocks of the server and of this machine need not agree.
        const passed = receivedAt(lease) - lease.deadline.getTime();
        quickest = Math.min(quickest, passed);
        const age = passed - quickest;
        if (this.#stopping.signal.aborted) {
          await this.#drainStream(name); // or the server would send it again
          await this.#settle(lease, release());
          if (!this.#isDrained) await pause(pauseAfter((undrained += 1), this.#backoff), signal);
          continue;
        }
        const attempt = new Attempt(this.#client, lease, name, this.handler, this.#attempt, age, misjudged);
        const work: Promise<void> = this.#work(attempt).finally(() => this.#running.delete(work));
        this.#running.set(work, attempt);
      }
    } finally {
      this.#live = "";
      this.#checkLeases(); // the server gives back what is not extended soon
    }
  }

  #checkLeases(): void {
    for (const attempt of this.#running.values()) attempt.checkLease();
  }

  async #work(attempt: Attempt<T>): Promise<void> {
    if (!(await this.#slot())) {
      if (!this.#isLeaving) {
        this.#attempt.onError(new Error(`no slot for ${attempt.lease.id} of ${this.queue}; it is handed back`));
      }
      return this.#settle(attempt.lease, release(), attempt);
    }
    try {
      const settlement = await this.#end(attempt);
      if (settlement) await this.#settle(attempt.lease, settlement, attempt);
    } finally {
      attempt.whenOver(() => this.#freeSlot());
    }
  }

  #freeSlot(): void {
    this.#free += 1;
    const [next] = this.#waiting;
    if (next) this.#waiting.delete(next);
    next?.abort();
  }

  /** Runs an attempt that has a slot; `undefined` if its lease is lost. */
  async #end(attempt: Attempt<T>): Promise<Settlement | undefined> {
    const stopping = this.#stopping.signal;
    // What a stream has sent may have been given back when it ended.
    const isSure = stopping.aborted || attempt.stream === this.#live;
    if (!isSure && !(await attempt.isHeld())) {
      this.#attempt.onError(lostBefore(attempt.lease));
      return undefined;
    }
    const ended = stopping.aborted ? undefined : await attempt.run();
    return ended ?? (attempt.isLost ? undefined : release());
  }

  /** Waits for a slot, and returns whether there is one in time. */
  async #slot(): Promise<boolean> {
    const ends = performance.now() + this.#attempt.ttr * SLOT_WAIT;
    while (this.#free === 0) {
      const left = ends - performance.now();
      if (left <= 0 || this.#isLeaving) return false;
      const freed = new AbortController();
      this.#waiting.add(freed);
      await pause(left, freed.signal);
      this.#waiting.delete(freed);
    }
    this.#free -= 1;
    return true;
  }

  /** Settles a lease; that of an attempt again and again while it goes on and the server is away. */
  async #settle(lease: Lease, settlement: Settlement, attempt?: Attempt<T>): Promise<void> {
    for (let failures = 1; ; failures += 1) {
      try {
        return await this.#trySettle(lease, settlement, attempt);
      } catch (error) {
        const what = error instanceof LeaseLostError ? "came too late" : "failed";
        const text = `${settlement.outcome} of ${lease.id} ${what}`;
        this.#attempt.onError(new Error(text, { cause: error }));
        if ((hasStatus(error, INVALID) || error instanceof UsageError) && "reply" in settlement) {
          return this.#settle(lease, ack(), attempt); // it is the reply that is refused; the event is done
        }
        const length = pauseAfter(failures, this.#backoff);
        // Otherwise the event comes back when its lease ends.
        if (!attempt || !mayPass(error) || performance.now() + length >= attempt.ends) return;
        await pause(length, attempt.signal);
        if (attempt.signal.aborted) return;
      }
    }
  }

  /** Settles a lease; where nobody waits for that any more, once more and not for long. */
  async #trySettle(lease: Lease, settlement: Settlement, attempt?: Attempt<T>): Promise<void> {
    try {
      if (attempt) return await this.#client.settle(lease, settlement, attempt.signal, attempt.ends);
    } catch (error) {
      if (!attempt?.signal.aborted || !mayPass(error)) throw error;
    }
    const ends = performance.now() + SETTLE_MAX;
    await within(SETTLE_MAX, undefined, (last) => this.#client.settle(lease, settlement, last, ends));
  }

  /** Hands back what waits for a slot, and waits for the handlers that run; aborts those that take longer. */
  async #drain(grace: number): Promise<void> {
    this.#isLeaving = true;
    for (const waiting of this.#waiting) waiting.abort();
    const all = (): Promise<unknown> => Promise.allSettled([...this.#running.keys()]);
    const over = new AbortController();
    await Promise.race([all(), pause(grace, over.signal)]);
    over.abort();
    for (const attempt of this.#running.values()) attempt.abort(new Error("the worker stops"));
    await all();
  }
}

function hasStatus(error: unknown, statuses: ReadonlySet<number>): error is ProblemError {
  return error instanceof ProblemError && statuses.has(error.problem.status);
}

/** Whether the server itself has refused a stream, and would again. */
function isLasting(error: unknown): boolean {
  return hasStatus(error, LASTING) && !isBare(error.problem);
}

/** Tells of an error; what fails at that ends nothing. */
function tell(onError: (error: unknown) => unknown, error: unknown): void {
  const failed = (thrown: unknown): void => console.error("duly: onError failed:", thrown);
  try {
    const told = onError(error);
    if (told instanceof Promise) told.catch(failed);
  } catch (thrown) {
    failed(thrown);
  }
}

/** Waits for the end of a stream, but not for ever. */
async function ended(streaming: Promise<void>): Promise<void> {
  const over = new AbortController();
  const end = streaming.catch(() => undefined); // it is told by the worker, if it matters
  await Promise.race([end, pause(DRAIN_MAX, over.signal)]);
  over.abort();
}
