import { expect, test } from "bun:test";
import type { Sandbox } from "../../../src/sandbox/level.ts";
import { refuseUnconfined } from "../../../src/server/plan/choose-sandbox.ts";

const PARENT: Sandbox = { level: "project", mechanism: "bubblewrap", program: "/usr/bin/bwrap" };

test("a model whose program works outside is refused where a sandbox is required, and to a child of a confined run", () => {
  expect(refuseUnconfined({}, {}, undefined)).toBeUndefined();
  expect(refuseUnconfined({ sandbox: "auto" }, {}, undefined)).toBeUndefined();
  expect(() => refuseUnconfined({ sandbox: "required" }, {}, undefined)).toThrow("outside of it");
  expect(() => refuseUnconfined({}, { sandbox: "required" }, undefined)).toThrow("outside of it");
  expect(() => refuseUnconfined({ sandbox: "off" }, {}, PARENT)).toThrow("outside of it");
});
