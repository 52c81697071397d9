import { expect, test } from "bun:test";
import { PROJECT_KEYS } from "../../../src/config/trust/project-keys.ts";
import { DEFINITIONS, INSTRUCTIONS } from "../../../src/server/plan/base-definitions.ts";

test("every file of a project that has an effect comes from the base, except records", () => {
  const own = Object.keys(PROJECT_KEYS).filter((file) => !file.startsWith(".rnix/data/"));
  const taken = [...DEFINITIONS, ...INSTRUCTIONS];
  const left = own.filter((file) => !taken.some((path) => file === path || file.startsWith(`${path}/`)));
  expect(left).toEqual([]);
});
