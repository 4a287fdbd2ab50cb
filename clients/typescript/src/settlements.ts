/** How an attempt ends. */

import { span } from "./checks.js";
import type { Settlement } from "./description.js";

export type { Settlement };

/** The longest reason, in characters; a longer one is cut. */
const REASON_LEN_MAX = 4_096;

/** Half of a pair of surrogates is no text for the server. */
const cut = (reason: string): string =>
  Array.from(Buffer.from(reason).toString()).slice(0, REASON_LEN_MAX).join("");

/** What is computed from a time may be a moment late. */
const delayOf = (delay: number): number => span("delay", Math.max(delay, 0));

/** The event is done; `reply` goes to a caller that waits for one. */
export function ack(reply?: unknown): Settlement {
  return reply === undefined ? { outcome: "ack" } : { outcome: "ack", reply };
}

/** It failed, and is due again after a delay in milliseconds, or by the policy of the queue. */
export function retry(reason: string, delay?: number): Settlement {
  const base = { outcome: "retry" as const, reason: cut(reason) };
  return delay === undefined ? base : { ...base, delay_ms: delayOf(delay) };
}

/** It is due again after a delay in milliseconds; the attempt does not count. */
export function snooze(delay: number): Settlement {
  return { outcome: "snooze", delay_ms: delayOf(delay) };
}

/** It is ready again at once, at its place; the attempt does not count. */
export function release(): Settlement {
  return { outcome: "release" };
}

/** It becomes a dead letter: no further attempt would help. */
export function bury(reason: string): Settlement {
  return { outcome: "bury", reason: cut(reason) };
}

/** It is dropped as no longer useful. */
export function discard(reason: string): Settlement {
  return { outcome: "discard", reason: cut(reason) };
}

/** Thrown by a handler, it ends the attempt otherwise than by an ack. */
export class Outcome extends Error {
  constructor(readonly settlement: Settlement) {
    super(settlement.outcome);
  }
}
