/** A client: pushes, looks up, changes, leases and settles events. */

import { randomUUID } from "node:crypto";

import { pause, pauseAfter, within } from "./backoff.js";
import { jsonOf, leaseTokenOf, named, span, timer, tokenOf, urlOf, whole } from "./checks.js";
import type { ChangedEvent, EventView, Explanation, LeaseView, NewEvent, PushedEvent } from "./description.js";
import type { Problem } from "./errors.js";
import { askedPause, ConnectionError, DulyError, errorOf, mayPass, ProblemError, problemOf } from "./errors.js";
import { PushManyError, reasonOf, UsageError } from "./errors.js";
import type { Settlement } from "./settlements.js";
import { serverSentEvents } from "./sse.js";

export interface ClientOptions {
  /** Default: `DULY_URL`, or `http://127.0.0.1:7777`. */
  readonly url?: string;
  /** A token of the namespace. Default: `DULY_TOKEN`. */
  readonly token?: string;
  /** Default: `DULY_NAMESPACE`. */
  readonly namespace?: string;
  /** How long a response may take, in milliseconds. Default: 30,000. */
  readonly timeout?: number;
}

/** The options of an event; times are in milliseconds. */
export interface EventOptions {
  /** How long until it is due. */
  readonly delay?: number;
  /** When it is due. */
  readonly at?: Date;
  /** By which events are found. */
  readonly key?: string;
  /** Of which only one event waits or runs, in a queue of one bucket, the server's default. */
  readonly unique?: string;
  /** Whether an event that waits with the unique key is replaced. */
  readonly replace?: boolean;
  readonly attempts?: number;
  readonly expires?: number;
  /** Whether its records keep its payload, so that it can be replayed. */
  readonly keepPayload?: boolean;
  /** Of the form of its payload, for handlers in Rust that upgrade older ones. Default: 0. */
  readonly version?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** A ULID, if you choose it. */
  readonly id?: string;
  /** A name that stands for the id. Without it and `id` one is made, so that a repeat is safe. */
  readonly idempotencyKey?: string;
}

/** An event to push with others. */
export interface EventToPush extends EventOptions {
  readonly payload: unknown;
}

/** As that of `JSON.parse`; since Node 21 it is told the text of a number as `context.source`. */
export type Reviver = (this: unknown, key: string, value: unknown, context?: { readonly source?: string }) => unknown;

/** A leased event: settle it before its deadline, or extend the lease. */
export interface Lease<T = unknown> {
  readonly id: string;
  readonly token: string;
  readonly deadline: Date;
  /** From 1. */
  readonly attempt: number;
  readonly attemptsLeft: number;
  readonly key: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly bytes: Uint8Array;
  /**
   * Reads the payload as JSON, with a reviver as that of `JSON.parse`. Without one a whole number beyond
   * 2^53 is rounded, as JavaScript does.
   */
  payload(reviver?: Reviver): T;
}

export interface LeaseOptions {
  /** The length of the lease, in milliseconds. Default: 30,000. */
  readonly ttr?: number;
  /** Default: 1. */
  readonly limit?: number;
  /** How long to wait for the first, in milliseconds, and 8,000 at most. Default: 0. */
  readonly wait?: number;
}

export interface StreamOptions {
  readonly ttr?: number;
  /** The most that are not settled. Default: 1. */
  readonly maxInFlight?: number;
  /** A name by which it can be drained. */
  readonly name?: string;
  readonly signal?: AbortSignal;
  /** Called when the server knows the stream. */
  readonly begun?: () => void;
}

/** The most events of one request, and the most leases. */
const PUSH_MAX = 1_000;
/** The most bytes of the events of one request; a server takes 8 MiB, and one event has less. */
const PUSH_BYTES_MAX = 7 << 20;
const IN_FLIGHT_MAX = 1_000;
const TRIES_MAX = 5;
/** No repeat begins later after the first try: a server knows for a minute what has ended. */
const REPEATS_MAX = 50_000;
/** A redirect would make a GET of a POST, and a success of what was not done. */
const REDIRECT = "manual" as const;
const TTR = 30_000;
/** A stream has a comment every ten seconds; one that is silent for longer is dead. */
const STREAM_SILENCE_MAX = 35_000;
const SILENT = new Error(`nothing came for ${STREAM_SILENCE_MAX / 1_000} s`);
const ATTEMPTS_MAX = 65_535;
const VERSION_MAX = 4_294_967_295;

interface Request<R> {
  readonly method: string;
  readonly path: string;
  /** JSON. */
  readonly body?: string;
  /**
   * Of what returns nothing: the only status of a success with a body. Without a body any success is
   * one: something on the way may make a 200 of a 204.
   */
  readonly wanted?: number;
  /** Reads the response. Default: takes it as it is. */
  readonly read?: (response: unknown) => R;
  /** Whether it is sent again where it may not have arrived. Default: yes. */
  readonly mayRepeat?: boolean;
  readonly wait?: number;
  /** Ends it, and its repeats. */
  readonly signal?: AbortSignal;
  /** When it is of no use any more: no pause that the server asks for outlasts that. */
  readonly ends?: number;
}

function timeOf(at: Date): number {
  const time = at.getTime();
  if (time >= 0) return time;
  throw new UsageError(`at is ${String(at)}; it must be a date of 1970 or later`);
}

/** Returns an event that stays the same one when it is pushed again. */
function keyed(event: EventToPush): EventToPush {
  const isNamed = event.id !== undefined || event.idempotencyKey !== undefined;
  return isNamed ? event : { ...event, idempotencyKey: randomUUID() };
}

/** Returns an event as JSON; it leaves out a payload of which there is none in JSON. */
function textOf(event: EventToPush): string {
  const text = jsonOf(bodyOf(event));
  if (text.startsWith('{"payload')) return text;
  throw new UsageError("the payload is undefined, or no value of JSON; give null, or another value");
}

function bodyOf(event: EventToPush): NewEvent {
  if (event.delay !== undefined && event.at) {
    throw new UsageError("there are `delay` and `at`; give one of them");
  }
  if (event.id !== undefined && event.idempotencyKey !== undefined) {
    throw new UsageError("there are `id` and `idempotencyKey`; give one of them");
  }
  const isBytes = event.payload instanceof Uint8Array;
  return {
    ...(isBytes
      ? { payload_base64: Buffer.from(event.payload as Uint8Array).toString("base64") }
      : { payload: event.payload }),
    ...(event.delay !== undefined && { delay_ms: span("delay", event.delay) }),
    ...(event.at && { due_ms: timeOf(event.at) }),
    ...(event.expires !== undefined && { expires_ms: span("expires", event.expires) }),
    ...(event.keepPayload !== undefined && { keep_payload: event.keepPayload }),
    ...(event.id !== undefined && { id: event.id }),
    ...(event.idempotencyKey !== undefined && { idempotency_key: event.idempotencyKey }),
    ...(event.key !== undefined && { key: event.key }),
    ...(event.unique !== undefined && { unique: event.unique }),
    ...(event.replace && { replace: true }),
    ...(event.attempts !== undefined && { attempts: whole("attempts", event.attempts, ATTEMPTS_MAX) }),
    ...(event.version !== undefined && { version: whole("version", event.version, VERSION_MAX, 0) }),
    ...(event.headers && { headers: { ...event.headers } }),
  } as NewEvent;
}

/** One that refuses other bytes, where a buffer makes a text of them. */
const UTF_8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function leaseOf<T>(view: LeaseView): Lease<T> {
  const bytes = Buffer.from(view.payload_base64, "base64");
  return {
    id: view.id,
    token: view.token,
    deadline: new Date(view.deadline_ms),
    attempt: view.attempt,
    attemptsLeft: view.attempts_left,
    key: view.key ?? undefined,
    headers: view.headers,
    bytes,
    payload: (reviver) => JSON.parse(UTF_8.decode(bytes), reviver) as T,
  };
}

const received = new WeakMap<object, number>();

/** When a lease of a stream came, by `performance.now()`, which may be long before it is read. */
export function receivedAt(lease: Lease): number {
  return received.get(lease) ?? performance.now();
}

type PushResult = PushedEvent | { readonly problem: Problem };

/** Returns the events of each request. */
function requestsOf(texts: readonly string[]): string[][] {
  const requests: string[][] = [];
  let request: string[] = [];
  let length = 0;
  for (const text of texts) {
    const bytes = Buffer.byteLength(text) + 1;
    length += bytes;
    if (requests.length === 0 || request.length === PUSH_MAX || length > PUSH_BYTES_MAX) {
      requests.push((request = []));
      length = bytes;
    }
    request.push(text);
  }
  return requests;
}

function pushedOf(results: readonly PushResult[], count: number, before: readonly PushedEvent[]): PushedEvent[] {
  if (results.length !== count) throw new Error(`${results.length} results for ${count} events`);
  const all = results.map((result) => ("problem" in result ? result.problem : result));
  const problem = all.find((result): result is Problem => "kind" in result);
  if (!problem) return all as PushedEvent[];
  throw all.length === 1 ? errorOf(problem) : new PushManyError(problem, [...before, ...all]);
}

/** Reads what became of an event that was changed. */
function changed(response: unknown): void {
  const due = (response as ChangedEvent).due_ms;
  if (!Number.isInteger(due)) throw new Error("no response of duly: it has no due time");
}

/** Calls a server. It has no state but its options, and may be shared. */
export class Client {
  readonly namespace: string;
  readonly #url: string;
  readonly #headers: Record<string, string>;
  readonly #timeout: number;

  constructor(options: ClientOptions = {}) {
    const token = options.token || process.env["DULY_TOKEN"];
    const namespace = options.namespace || process.env["DULY_NAMESPACE"];
    if (!token) throw new UsageError("no token; give `token`, or set DULY_TOKEN");
    if (!namespace) throw new UsageError("no namespace; give `namespace`, or set DULY_NAMESPACE");
    this.namespace = named("namespace", namespace);
    const url = options.url || process.env["DULY_URL"] || "http://127.0.0.1:7777";
    this.#url = `${urlOf(url)}/v1/${this.namespace}`;
    this.#headers = { Authorization: `Bearer ${tokenOf(token)}`, "User-Agent": "duly-node/0.1.0" };
    this.#timeout = timer("timeout", options.timeout ?? 30_000);
  }

  /** Pushes an event. */
  async push(queue: string, payload: unknown, options: EventOptions = {}): Promise<PushedEvent> {
    const [pushed] = await this.pushMany(queue, [{ ...options, payload }]);
    if (!pushed) throw new DulyError("the server has not said what became of the event");
    return pushed;
  }

  /**
   * Pushes events, with each request a thousand or 7 MiB. The error of a later request has what was
   * stored as `pushed`, and the others as `remaining`.
   */
  async pushMany(queue: string, events: readonly EventToPush[]): Promise<PushedEvent[]> {
    const path = `/queues/${named("queue", queue)}/events`;
    const all = events.map(keyed);
    const pushed: PushedEvent[] = [];
    for (const texts of requestsOf(all.map(textOf))) {
      const body = `{"events":[${texts.join(",")}]}`;
      const read = (response: unknown): PushedEvent[] => pushedOf(response as PushResult[], texts.length, pushed);
      try {
        pushed.push(...(await this.#send({ method: "POST", path, body, read })));
      } catch (error) {
        // Not enumerable: whoever logs the error does not log payloads.
        const remaining = all.slice(pushed.length);
        throw Object.defineProperties(error, { pushed: { value: pushed }, remaining: { value: remaining } });
      }
    }
    return pushed;
  }

  /** Returns an event that is not over. */
  async get(queue: string, id: string): Promise<EventView> {
    return this.#send({ method: "GET", path: this.#event(queue, "events", id) });
  }

  /** Cancels an event that waits. */
  async cancel(queue: string, id: string): Promise<void> {
    await this.#send({ method: "DELETE", path: this.#event(queue, "events", id), wanted: 204 });
  }

  /** Makes an event that waits due after a delay from now, in milliseconds. */
  async reschedule(queue: string, id: string, delay: number): Promise<void> {
    const body = jsonOf({ delay_ms: span("delay", delay) });
    const path = this.#event(queue, "events", id);
    await this.#send({ method: "PATCH", path, body, wanted: 200, read: changed });
  }

  /** Explains where an event is and what it waits for; also one that is over. */
  async explain(queue: string, id: string): Promise<Explanation> {
    return this.#send({ method: "GET", path: this.#event(queue, "explanations", id) });
  }

  /** Leases events. */
  async lease<T = unknown>(queue: string, options: LeaseOptions = {}): Promise<Lease<T>[]> {
    const { ttr = TTR, limit = 1, wait = 0 } = options;
    const path = `/queues/${named("queue", queue)}/leases`;
    const max = whole("limit", limit, PUSH_MAX);
    const body = jsonOf({ max, ttr_ms: span("ttr", ttr), wait_ms: span("wait", wait) });
    // What was leased by a lost response comes back by itself.
    const read = (views: unknown): Lease<T>[] => (views as LeaseView[]).map((view) => leaseOf<T>(view));
    return this.#send({ method: "POST", path, body, mayRepeat: false, wait, read });
  }

  /** Ends an attempt; the lease ends at `ends`, by `performance.now()`, if that is known. */
  async settle(lease: Pick<Lease, "token">, settlement: Settlement, signal?: AbortSignal, ends = Infinity): Promise<void> {
    const path = `/leases/${leaseTokenOf(lease.token)}/settle`;
    const body = jsonOf(settlement);
    if ("reply" in settlement && settlement.reply !== undefined && !body.includes('"reply":')) {
      throw new UsageError("the reply is no value of JSON; give null, or another value");
    }
    await this.#send({ method: "POST", path, body, wanted: 204, ends, ...(signal && { signal }) });
  }

  /** Lets a stream end when all that it has sent is settled. */
  async drain(queue: string, name: string, signal?: AbortSignal, ends = Infinity): Promise<void> {
    const path = `/queues/${named("queue", queue)}/leases/stream/drain?name=${named("name", name)}`;
    await this.#send({ method: "POST", path, wanted: 204, ends, ...(signal && { signal }) });
  }

  /** Makes a lease end `ttr` milliseconds from now. */
  async extend(lease: Pick<Lease, "token">, ttr: number, signal?: AbortSignal): Promise<void> {
    const body = jsonOf({ ttr_ms: span("ttr", ttr) });
    const path = `/leases/${leaseTokenOf(lease.token)}/extend`;
    await this.#send({ method: "POST", path, body, wanted: 204, ...(signal && { signal }) });
  }

  /** Streams leased events; ends without an error only when the signal is aborted or all is settled. */
  async *stream<T = unknown>(queue: string, options: StreamOptions = {}): AsyncGenerator<Lease<T>> {
    const { ttr = TTR, maxInFlight = 1, name, signal } = options;
    whole("maxInFlight", maxInFlight, IN_FLIGHT_MAX);
    const naming = name === undefined ? "" : `&name=${named("name", name)}`;
    const query = `max_in_flight=${maxInFlight}&ttr_ms=${span("ttr", ttr)}${naming}`;
    const url = `${this.#url}/queues/${named("queue", queue)}/leases/stream?${query}`;
    const silence = new AbortController();
    let timer: NodeJS.Timeout | undefined;
    const listen = (): void => {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(SILENT), STREAM_SILENCE_MAX);
    };
    const signals = signal ? [silence.signal, signal] : [silence.signal];
    try {
      const init = { headers: this.#headers, signal: AbortSignal.any(signals), redirect: REDIRECT };
      listen();
      const response = await fetch(url, init);
      if (!response.ok) throw await refusal(response);
      options.begun?.();
      for await (const event of serverSentEvents(response.body as AsyncIterable<Uint8Array>, listen)) {
        if (event.name === "lease") {
          clearTimeout(timer); // nothing is read before the consumer asks for the next one
          const lease = leaseOf<T>(JSON.parse(event.data) as LeaseView);
          received.set(lease, event.at);
          yield lease;
          listen();
        }
        if (event.name === "problem") {
          const problem = JSON.parse(event.data) as Problem;
          throw errorOf(problemOf(problem.status, problem));
        }
      }
    } catch (error) {
      if (signal?.aborted) return;
      if (error instanceof DulyError) throw error;
      throw new ConnectionError(`stream of ${queue}: ${reasonOf(error)}`, { cause: error });
    } finally {
      clearTimeout(timer);
    }
    if (!signal?.aborted) throw new ConnectionError(`stream of ${queue}: the server closed it`);
  }

  #event(queue: string, what: string, id: string): string {
    return `/queues/${named("queue", queue)}/${what}/${named("id", id)}`;
  }

  async #send<R>(request: Request<R>): Promise<R> {
    const begun = performance.now();
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#sendOnce<R>(request);
      } catch (error) {
        if (request.mayRepeat === false || tries >= TRIES_MAX || !mayPass(error)) throw error;
        if (request.signal?.aborted) throw error;
        const left = (request.ends ?? Infinity) - performance.now();
        const asked = Math.min(askedPause(error) ?? 0, left / 2); // another try comes in time
        const length = Math.max(asked, pauseAfter(tries, { first: 50, longest: 5_000 }));
        if (performance.now() - begun + length >= REPEATS_MAX) throw error;
        await pause(length, request.signal);
      }
    }
  }

  async #sendOnce<R>(request: Request<R>): Promise<R> {
    const { method, path, wanted, wait = 0, read = (response) => response as R } = request;
    const body = request.body === undefined ? {} : { body: request.body };
    const headers = { ...this.#headers, ...("body" in body && { "Content-Type": "application/json" }) };
    const init = { method, headers, redirect: REDIRECT, ...body };
    try {
      return await within(this.#timeout + wait, request.signal, async (signal) => {
        const response = await fetch(this.#url + path, { ...init, signal });
        if (!response.ok) throw await refusal(response);
        const text = await response.text();
        if (wanted !== undefined && text === "") return undefined as R;
        if (wanted !== undefined && response.status !== wanted) {
          throw new Error(`no response of duly: its status is ${response.status}`);
        }
        return read(JSON.parse(text));
      });
    } catch (error) {
      if (error instanceof DulyError) throw error;
      throw new ConnectionError(`${method} ${path}: ${reasonOf(error)}`, { cause: error });
    }
  }
}

async function refusal(response: Response): Promise<ProblemError> {
  const text = await response.text();
  let value: unknown = text.slice(0, 200);
  try {
    value = JSON.parse(text);
  } catch {
    // Not of this server: its text is the reason.
  }
  const after = response.headers.get("Retry-After") ?? "";
  return errorOf(problemOf(response.status, value), /^0*[1-9]\d*$/.test(after) ? Number(after) * 1_000 : undefined);
}
