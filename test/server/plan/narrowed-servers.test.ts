import { expect, test } from "bun:test";
import { narrowedServers } from "../../../src/server/plan/request-defaults.ts";

const mounts = ["github", "jira"].map((name) => ({ type: "mcp", name }));

function kept(rules: { allow?: string[]; deny?: string[] }): string[] {
  return narrowedServers(rules, mounts).mounts.map(({ name }) => name);
}

test.each([
  [["*"], ["github", "jira"]],
  [
    ["Bash", "mcp__*"],
    ["github", "jira"],
  ],
  [
    ["mcp__github__search", "mcp__jira__*"],
    ["github", "jira"],
  ],
  [["*search*"], ["github", "jira"]],
  [["/mnt/mcp"], ["github", "jira"]],
  [["Bash", "mcp__github__*"], ["github"]],
  [["Bash(git *)", "/dev/fs", "Re*"], []],
  [[], []],
])("--allow %p leaves the servers %p, and the notice names the rules of the others", (allow, servers) => {
  expect(kept({ allow })).toEqual(servers);
  const { notices } = narrowedServers({ allow }, mounts);
  expect(notices.length).toBe(servers.length < mounts.length ? 1 : 0);
  for (const { name } of mounts) if (!servers.includes(name)) expect(notices[0]).toContain(`mcp__${name}__*`);
});

test.each([
  [["mcp__jira__*"], ["github"]],
  [["mcp__*"], []],
  [["*"], []],
  [
    ["mcp__jira__delete", "Bash", "mcp__j?ra__*"],
    ["github", "jira"],
  ],
])("--deny %p leaves the servers %p", (deny, servers) => {
  expect(kept({ deny })).toEqual(servers);
  expect(narrowedServers({ deny }, mounts).notices.length).toBe(servers.length < mounts.length ? 1 : 0);
});

test("without rules, and for another type of mount, nothing is left out", () => {
  expect(narrowedServers({}, mounts)).toEqual({ mounts, notices: [] });
  const other = [{ type: "other", name: "x" }];
  expect(narrowedServers({ allow: ["Bash"], deny: ["*"] }, other)).toEqual({ mounts: other, notices: [] });
});
