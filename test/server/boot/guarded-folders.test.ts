import { expect, test } from "bun:test";
import { userPaths } from "../../../src/config/environment/paths.ts";
import { guardedFolders } from "../../../src/server/boot/kernel.ts";

// Jobs outside of projects have their ledger there: with a row of its own, a run could hide an instant.
test.each(["steps", "spending", "memory", "cron", "base"])(
  "no run writes to %s of the user's data",
  (name) => {
    const paths = userPaths({ HOME: "/home/me", XDG_DATA_HOME: "/home/me/data" });
    expect(guardedFolders(paths)).toContainEqual({ dir: `${paths.dataDir}/${name}`, readable: true });
  },
);

test("no run reads what MCP servers have printed", () => {
  const paths = userPaths({ HOME: "/home/me", XDG_DATA_HOME: "/home/me/data" });
  expect(guardedFolders(paths)).toContainEqual({ dir: `${paths.dataDir}/mounts`, readable: false });
});
