import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { placedSpawn } from "../../../src/server/plan/request-defaults.ts";
import { TempDir } from "../support/fixture.ts";

const PARENT = { cwd: "/parent", env: { PATH: "/parent/bin", RNIX_UNIT: "p" } };
const OWN = { PATH: "/daemon/bin" };

function placed(dataDir: string, request: { cwd?: string; env?: Record<string, string> }, unit?: string) {
  return placedSpawn({ intent: "x", ...request }, unit, {
    dataDir,
    environment: OWN,
    parent: (uuid) => (uuid === "p" ? PARENT : undefined),
  });
}

test("a request's own values are used", () => {
  using dir = new TempDir();
  const given = { cwd: "/here", env: { A: "1" } };
  for (const unit of [undefined, "p"]) {
    expect(placed(dir.path, given, unit)).toEqual({ request: { intent: "x", ...given }, notices: [] });
  }
  expect(existsSync(join(dir.path, "workspace"))).toBe(false);
});

test("without a folder it runs in the daemon's and the answer has a notice; without an environment it has the daemon's", () => {
  using dir = new TempDir();
  const folder = join(dir.path, "workspace");
  const { request, notices } = placed(dir.path, {});
  expect(request).toEqual({ intent: "x", cwd: folder, env: OWN });
  expect(existsSync(folder)).toBe(true);
  expect(notices).toEqual([expect.stringContaining(folder)]);
  expect(placed(dir.path, { cwd: "/here" })).toMatchObject({
    request: { cwd: "/here", env: OWN },
    notices: [],
  });
});

test("a child has its parent's folder and environment, however the parent is identified", () => {
  using dir = new TempDir();
  expect(placed(dir.path, {}, "p")).toEqual({ request: { intent: "x", ...PARENT }, notices: [] });
  const byVariable = placed(dir.path, { env: { RNIX_UNIT: "p" } });
  expect(byVariable.request).toMatchObject({ cwd: "/parent", env: { RNIX_UNIT: "p" } });
  expect(placed(dir.path, { cwd: "/here" }, "p").request).toMatchObject({ cwd: "/here", env: PARENT.env });
});
