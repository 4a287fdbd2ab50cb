/** Client of the delayed job queue duly. */

export type { Context, Handler } from "./attempt.js";
export type { BackoffOptions } from "./backoff.js";
export { Client } from "./client.js";
export type {
  ClientOptions,
  EventOptions,
  EventToPush,
  Lease,
  LeaseOptions,
  Reviver,
  StreamOptions,
} from "./client.js";
export type * as api from "./description.js";
export {
  ConnectionError,
  DulyError,
  LeaseLostError,
  ProblemError,
  PushManyError,
  ServerStartError,
  UsageError,
} from "./errors.js";
export type { Problem } from "./errors.js";
export { ack, bury, discard, Outcome, release, retry, snooze } from "./settlements.js";
export type { Settlement } from "./settlements.js";
export { Worker } from "./worker.js";
export type { WorkerOptions } from "./worker.js";
