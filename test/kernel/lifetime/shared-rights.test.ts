/** Which processes share their rights. */

import { expect, test } from "bun:test";
import { permissionsOf } from "../../../src/kernel/lifetime/spawn-limits.ts";
import type { Permissions } from "../../../src/kernel/permission/permissions.ts";
import { bareAgent } from "../../../src/kernel/process/process-spec.ts";
import type { SpawnOpts } from "../../../src/kernel/types.ts";
import { KernelHarness, says, script } from "../../support/kernel.ts";

test("equal processes without a parent share their rights, and others do not", async () => {
  await using h = new KernelHarness({ model: script(says("done")) });
  const opts = h.opts();
  const rights = (more: Partial<SpawnOpts> = {}): Permissions =>
    permissionsOf(bareAgent("none"), { ...opts, ...more }, opts.devices.namespace, undefined);
  expect(rights()).toBe(rights());
  expect(rights({ deny: ["*"] })).not.toBe(rights());
  expect(rights({ ask: ["*"] })).not.toBe(rights());
  expect(rights({ allow: [...bareAgent("none").allowedTools] })).not.toBe(rights());
  expect(rights({ cwd: "/elsewhere" })).not.toBe(rights());
  expect(rights({ askMode: "plan" }).askMode).toBe("plan");
  expect(rights().askMode).not.toBe("plan");
  // They open folders, whose real paths may change.
  expect(rights({ alwaysAllowed: ["*"] })).not.toBe(rights({ alwaysAllowed: ["*"] }));
  opts.devices.release();
});
