/** Pauses between tries, which double, have jitter and are bounded; and how long a try may take. */

import { setTimeout as sleep } from "node:timers/promises";

import { TIMER_MAX } from "./checks.js";

export interface BackoffOptions {
  /** The first pause, in milliseconds. Default: 100. */
  readonly first?: number;
  /** The longest pause, in milliseconds. Default: 10,000. */
  readonly longest?: number;
}

/** Returns the pause after so many failures in a row: half of its length at least. */
export function pauseAfter(failures: number, options: BackoffOptions = {}): number {
  const { first = 100, longest = 10_000 } = options;
  const length = Math.min(longest, first * 2 ** Math.min(Math.max(failures - 1, 0), 32));
  return length * (0.5 + Math.random() / 2);
}

/**
 * Calls with a signal that is aborted after some milliseconds, or with another signal. Not by
 * `AbortSignal.timeout`, which Node 20 drops where only `AbortSignal.any` knows it.
 */
export async function within<R>(
  milliseconds: number,
  signal: AbortSignal | undefined,
  call: (signal: AbortSignal) => Promise<R>,
): Promise<R> {
  const over = new AbortController();
  const end = (): void => over.abort(new Error(`no response within ${milliseconds} ms`));
  const timer = setTimeout(end, Math.min(milliseconds, TIMER_MAX));
  try {
    return await call(signal ? AbortSignal.any([over.signal, signal]) : over.signal);
  } finally {
    clearTimeout(timer);
  }
}

/** Waits; ends early, without an error, when the signal is aborted. */
export async function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  try {
    await sleep(Math.min(milliseconds, TIMER_MAX), undefined, signal ? { signal } : {});
  } catch (error) {
    if (!signal?.aborted) throw error;
  }
}
