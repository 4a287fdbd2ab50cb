/** Errors: what the server has refused, and what did not reach it. */

import type { EventToPush } from "./client.js";
import type { PushedEvent } from "./description.js";

/** What the server says of an error: problem details of RFC 9457. */
export interface Problem {
  readonly status: number;
  readonly title: string;
  /** What is wrong, and what would be right. */
  readonly detail: string;
  /** The class of the error, for programs. */
  readonly kind: string;
}

const RETRIED = new Set([408, 429, 502, 503, 504, 507]);

/** Statuses of refusals that a proxy has as well. */
const REFUSALS = new Set([401, 403]);

/** Whether it has no kind: it is no `Problem` of the server, which tells one. */
export function isBare({ kind }: Problem): boolean {
  return kind === "unknown";
}

/**
 * Whether a proxy refuses whoever asks, or has a 404 of its own. A bare 400 is of the request: the
 * same would meet it again.
 */
function isOfProxy(problem: Problem): boolean {
  const { status, kind } = problem;
  return (REFUSALS.has(status) && isBare(problem)) || (status === 404 && kind !== "not_found");
}

function mayPassOf(problem: Problem): boolean {
  const { status } = problem;
  // With the kind `unknown` it may have been done, or is of a proxy with statuses of its own; a repeat
  // is safe, and tells.
  return RETRIED.has(status) || (status >= 500 && isBare(problem)) || isOfProxy(problem);
}

/** Whether the same request may succeed later. */
export function mayPass(error: unknown): boolean {
  if (error instanceof PushManyError) {
    return error.results.some((result: object | Problem) => "kind" in result && mayPassOf(result));
  }
  return error instanceof ProblemError ? mayPassOf(error.problem) : !(error instanceof UsageError);
}

/** The base of all errors of this package. */
export class DulyError extends Error {
  /** Of a push of many: what the requests before this one have stored. */
  declare readonly pushed?: readonly PushedEvent[];
  /**
   * Of a push: the others with their keys, to push again; what is stored of them stays single while
   * it waits or runs, and for a minute after.
   */
  declare readonly remaining?: readonly EventToPush[];

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** An argument is wrong; nothing was sent. */
export class UsageError extends DulyError {}

/** The server was not reached, or the connection ended; a push was repeated before. */
export class ConnectionError extends DulyError {}

/** A test server did not start. */
export class ServerStartError extends DulyError {}

/** The server has refused a request; `problem` says what is wrong, and what would be right. */
export class ProblemError extends DulyError {
  constructor(
    readonly problem: Problem,
    /** How long until the same may succeed, in milliseconds, if the server has said so. */
    readonly retryAfter?: number,
  ) {
    super(`${problem.status} ${problem.kind}: ${problem.detail}`);
  }
}

/** The lease has ended: the event is somebody else's, or was settled otherwise. */
export class LeaseLostError extends ProblemError {}

/**
 * Not every event was stored; `results` has a pushed event or a problem for each, from the first one
 * to the last of the request that failed. Later ones were not sent.
 */
export class PushManyError<Pushed> extends ProblemError {
  constructor(
    problem: Problem,
    readonly results: readonly (Pushed | Problem)[],
  ) {
    super(problem);
  }
}

/** Reads a problem; a response of something between here and the server has other forms. */
export function problemOf(status: number, value: unknown): Problem {
  const fields = (typeof value === "object" && value !== null ? value : {}) as Partial<Problem>;
  const text = typeof value === "string" && value !== "" ? value : `status ${status}`;
  return {
    status,
    title: fields.title ?? "",
    detail: fields.detail ?? text,
    kind: fields.kind ?? "unknown",
  };
}

/** Returns the error of a problem. */
export function errorOf(problem: Problem, retryAfter?: number): ProblemError {
  const Class = problem.kind === "lease_lost" ? LeaseLostError : ProblemError;
  return new Class(problem, retryAfter);
}

/** Whether there is no such event, lease or stream. */
export function isGone(error: unknown): boolean {
  return error instanceof ProblemError && error.problem.status === 404 && !isOfProxy(error.problem);
}

const RETRY_AFTER_MAX = 30_000;

/** Returns how long the server asks to wait, within bounds. */
export function askedPause(error: unknown): number | undefined {
  const asked = error instanceof ProblemError ? error.retryAfter : undefined;
  return asked === undefined ? undefined : Math.min(asked, RETRY_AFTER_MAX);
}

/** Returns the text of what an error is caused by. */
export function reasonOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return cause instanceof Error ? cause.message : String(cause);
}
