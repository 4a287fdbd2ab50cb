/** Pauses between tries: they double, have jitter, and are bounded. */

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

/** Waits; ends early, without an error, when the signal is aborted. */
export async function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  try {
    await sleep(Math.min(milliseconds, TIMER_MAX), undefined, signal ? { signal } : {});
  } catch (error) {
    if (!signal?.aborted) throw error;
  }
}
