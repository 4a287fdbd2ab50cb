/** Arguments: names, spans and numbers that are within their bounds. */

import { reasonOf, UsageError } from "./errors.js";

const NAME = /^[-_A-Za-z0-9]{1,255}$/;
/** Of a lease, which has the name of its queue in it. */
const LEASE_TOKEN = /^(?!\.+$)[-_.A-Za-z0-9]{1,1000}$/;
const TOKEN = /^[ -~]+$/;
const SPAN_MAX = 4_294_967_295_000;
/** The longest timer of Node, in milliseconds: a longer one ends at once. */
export const TIMER_MAX = 2_147_483_647;

/** Returns a name that is one. */
export function named(what: string, name: string): string {
  if (NAME.test(name)) return name;
  throw new UsageError(`${what} is "${name}"; it must have 1 to 255 letters, digits, - and _`);
}

/** Returns the token of a lease. */
export function leaseTokenOf(token: string): string {
  if (LEASE_TOKEN.test(token)) return token;
  throw new UsageError(`"${token}" is no token of a lease; it has letters, digits, ., - and _`);
}

/** Returns a URL that is one: to try another one again and again would not help. */
export function urlOf(text: string): string {
  const url = text.trim();
  try {
    if (/^https?:$/.test(new URL(url).protocol)) return url.replace(/\/+$/, "");
  } catch {
    // It is said below.
  }
  throw new UsageError(`"${text}" is no URL; it must be like http://127.0.0.1:7777`);
}

/** Returns a token as it is sent: what is read from a file ends by a line break. */
export function tokenOf(text: string): string {
  const token = text.trim();
  if (TOKEN.test(token)) return token;
  // It is not shown, as fetch would do.
  throw new UsageError("the token has a line break in it, or a letter that is not ASCII");
}

/** Returns a value as JSON. */
export function jsonOf(body: unknown): string {
  try {
    return JSON.stringify(body);
  } catch (error) {
    throw new UsageError(`the request cannot be written as JSON: ${reasonOf(error)}`, { cause: error });
  }
}

/** Returns a span as the server takes it, rounded up, so that nothing is early. */
export function span(what: string, milliseconds: number): number {
  if (milliseconds >= 0 && milliseconds <= SPAN_MAX) return Math.ceil(milliseconds);
  throw new UsageError(`${what} is ${milliseconds}; it must be 0 to ${SPAN_MAX} milliseconds`);
}

/** Returns a span of a timer; `Infinity` is one that never ends. */
export function timer(what: string, milliseconds: number): number {
  if ((milliseconds >= 0 && milliseconds <= TIMER_MAX) || milliseconds === Infinity) return milliseconds;
  throw new UsageError(`${what} is ${milliseconds}; it must be 0 to ${TIMER_MAX} milliseconds, or Infinity`);
}

/** Returns a whole number. */
export function whole(what: string, value: number, most: number, least = 1): number {
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  throw new UsageError(`${what} is ${value}; it must be ${least} to ${most}`);
}
