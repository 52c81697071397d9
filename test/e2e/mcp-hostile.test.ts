import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { Machine } from "./support/machine.ts";
import { hostileServer, mcpJson } from "./support/mcp.ts";
import { toolResults } from "./support/requests.ts";
import { calls, says } from "./support/scenes.ts";

/** Of one call. */
const TIMEOUT_S = 2;
/** More than a daemon needs that holds none of what the server sends. */
const MAX_GROWTH_MIB = 200;

const FAULTS: { how: string; timeout: number; result: RegExp }[] = [
  { how: "hang", timeout: TIMEOUT_S, result: /TIMEOUT|timed out/i },
  { how: "die", timeout: TIMEOUT_S, result: /ended with exit code 9\. It said: [\s\S]*out of memory/ },
  { how: "flood", timeout: TIMEOUT_S, result: /TIMEOUT|timed out/i },
  { how: "huge", timeout: 40, result: /answered with 10\d{8} bytes or more; at most 1048576 are taken/ },
  { how: "storm", timeout: TIMEOUT_S, result: /it rains/ },
  { how: "ask", timeout: 20, result: /^asked\nThe MCP server asked the user "Who are you\?"[^\n]*$/ },
];

function memoryMib(pid: number): number {
  return Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
}

describe("an MCP server that misbehaves during a call", () => {
  for (const { how, timeout, result } of FAULTS) {
    test(`(${how}) ends the call within its time, and the run goes on`, async () => {
      await using machine = new Machine();
      const entry = { ...hostileServer(how), request_timeout: `${timeout}s` };
      mcpJson(machine, { bad: entry });
      machine.write("a.txt", "still here");
      await machine.ok(["trust", "--yes"]);
      const model = await machine.play({
        "use it": [calls(["mcp__bad__go", {}]), calls(["Read", { path: "a.txt" }]), says("done")],
      });
      await machine.ok(["ps"]);
      const before = memoryMib(machine.daemonPid ?? 0);
      const run = await machine.run([
        "spawn",
        "use it",
        "--mcp",
        "bad",
        "--allow",
        "Read",
        "--allow",
        "mcp__bad__go",
      ]);
      expect([run.code, run.stdout]).toEqual([0, "done\n"]);
      expect(run.ms).toBeLessThan((timeout + 15) * 1000);
      expect(toolResults(model.requests[1] ?? model.last)[0]).toMatch(result);
      expect(toolResults(model.last).join()).toContain("still here");
      expect(memoryMib(machine.daemonPid ?? 0) - before).toBeLessThan(MAX_GROWTH_MIB);
      const log = (await machine.run(["mcp", "logs", "bad", "-n", "100000"])).stdout;
      // Read again at most once a second; asked at most 50 times a second in the log.
      expect(log.split("listed\n").length - 2).toBeLessThanOrEqual(run.ms / 1000 + 1);
      expect(log.split("\n").length).toBeLessThan(100 + (60 * run.ms) / 1000);
    }, 60_000);
  }
});
