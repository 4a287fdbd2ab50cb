import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { expect, test } from "vitest";

const path = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

test("the types are those of the description in the repository", async () => {
  const program = path("../node_modules/.bin/openapi-typescript");
  const options = ["--root-types", "--root-types-no-schema-prefix", "--check"];
  const files = [path("../../../server/openapi.json"), "-o", path("../src/description.ts")];
  const { stderr, stdout } = await promisify(execFile)(program, [...files, ...options]);
  expect(`${stdout}${stderr}`).not.toMatch(/not up-to-date/i);
});
