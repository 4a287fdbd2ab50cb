/** A test of vitest with a server whose clock is moved by hand. */

import { randomUUID } from "node:crypto";

import { test as base } from "vitest";

import type { Client } from "./client.js";
import { TestServer } from "./testing.js";

export interface DulyFixtures {
  /** A server in memory, of the file of the test. */
  readonly server: TestServer;
  /** A client in a namespace of its own. */
  readonly client: Client;
}

/** As `test` of vitest, with `server` and `client`. */
export const test = base.extend<DulyFixtures>({
  server: [
    // eslint-disable-next-line no-empty-pattern -- vitest reads the pattern
    async ({}, use) => {
      const server = await TestServer.start();
      await use(server);
      await server.stop();
    },
    { scope: "file" },
  ],
  client: async ({ server }, use) => {
    await use(await server.client(`test-${randomUUID()}`));
  },
});
