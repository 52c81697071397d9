import { describe, expect, test } from "bun:test";
import { kernelTools } from "../../../src/kernel/devices/kernel-tools.ts";
import { searchTools } from "../../../src/kernel/devices/tool-search.ts";
import { bareAgent } from "../../../src/kernel/process/process-spec.ts";
import type { AgentInfo } from "../../../src/kernel/types.ts";
import type { Device, LLMRequest } from "../../../src/plugin/index.ts";
import { calls, KernelHarness, says, script, toolDevice } from "../../support/kernel.ts";

const ALL: AgentInfo = { ...bareAgent("any"), allowedTools: ["*"] };
/** Denies the kernel's own deferred tools, so that a test sees only those of its devices. */
const unused = (): never => expect.unreachable();
const KERNEL_DEFERRED = Object.values(
  kernelTools({
    lookup: unused,
    tools: { deferred: unused, ready: unused, load: unused },
    ipc: unused,
    agents: unused,
    wakes: unused,
    worktrees: unused,
  }),
).flatMap(({ tools = [] }) => tools.filter(({ defer }) => defer).map(({ name }) => name));
const OWN_ONLY = { deny: KERNEL_DEFERRED };
const names = (request: LLMRequest | undefined): string[] => (request?.tools ?? []).map(({ name }) => name);
const result = (request: LLMRequest | undefined): string => request?.messages.at(-1)?.content ?? "";
const search = (request: LLMRequest | undefined): string =>
  request?.tools?.find(({ name }) => name === "ToolSearch")?.description ?? "";

const DEVICES: Record<string, Device> = {
  "/dev/now": toolDevice("Now", () => "noon"),
  "/dev/wait": toolDevice("WaitUntil", ({ hour }) => `waited until ${hour}`, {
    defer: true,
    description: "Wait for an hour of the day.",
    input: { type: "object", properties: { hour: { type: "integer" } }, required: ["hour"] },
  }),
  "/dev/bell": toolDevice("Bell", () => "ding", { defer: true, description: "Ring at the door." }),
};

describe("a deferred tool", () => {
  test("is a name in the description of ToolSearch until it is loaded, and then the last tool", async () => {
    await using h = new KernelHarness({
      devices: DEVICES,
      model: script(
        calls(["ToolSearch", { query: "WaitUntil" }]),
        calls(["WaitUntil", { hour: 7 }]),
        calls(["ToolSearch", { query: "ring a bell" }]),
        says("done"),
      ),
    });
    const { info } = await h.run("go", OWN_ONLY, ALL);
    expect(info.exit_code).toBe(0);
    const [first, second, third, last] = h.requests;
    expect(names(first)).toContain("Now");
    expect(names(first)).toContain("ToolSearch");
    expect(names(first)).not.toContain("WaitUntil");
    expect(search(first)).toEndWith(": Bell WaitUntil");
    // The tools before it are the same, byte for byte: a provider's cache holds.
    expect(second?.tools?.slice(0, -1)).toEqual(first?.tools ?? []);
    expect(names(second).at(-1)).toBe("WaitUntil");
    expect(result(second)).toBe("Loaded: WaitUntil. You can call them now.");
    expect(result(third)).toBe("waited until 7");
    expect(last?.tools?.slice(0, -1)).toEqual(third?.tools ?? []);
    expect(names(last).slice(-2)).toEqual(["WaitUntil", "Bell"]);
  });

  test("works when it is called at once, and an error names the way to its schema", async () => {
    await using h = new KernelHarness({
      devices: DEVICES,
      model: script(
        calls(["WaitUntil", { hour: "7" }]),
        calls(["WaitUntil", { hour: 7 }]),
        calls(["ToolSearch", { query: "nothing of the kind" }]),
        calls(["ToolSearch", { query: "Now" }]),
        calls(["Nothing", {}]),
        says("done"),
      ),
    });
    await h.run("go", OWN_ONLY, ALL);
    const [, wrong, right, none, known, unknown] = h.requests.map(result);
    expect(wrong).toContain("Load the tool with ToolSearch to see its schema.");
    expect(right).toBe("waited until 7");
    expect(none).toStartWith("Error NOT_FOUND");
    expect(none).toContain("There are: Bell, WaitUntil.");
    expect(known).toBe("You have already: Now.");
    expect(unknown).toContain("Bell, WaitUntil");
    expect(new Set(h.requests.map(({ tools }) => JSON.stringify(tools))).size).toBe(1);
  });

  test("is shown in full without the right to ToolSearch, and is denied as others are", async () => {
    const listed: AgentInfo = { ...ALL, allowedTools: ["Now", "Bell"] };
    await using h = new KernelHarness({ devices: DEVICES, model: script(says("done")) });
    await h.run("go", OWN_ONLY, listed);
    expect(names(h.requests[0])).toEqual(["Bell", "Now"]);

    await using denied = new KernelHarness({
      devices: DEVICES,
      model: script(calls(["ToolSearch", { query: "Bell" }]), calls(["Bell", {}]), says("done")),
    });
    await denied.run("go", { deny: ["Bell", ...KERNEL_DEFERRED] }, ALL);
    expect(search(denied.requests[0])).toEndWith(": WaitUntil");
    expect(result(denied.requests[1])).toStartWith("Error NOT_FOUND");
    expect(result(denied.requests[2])).toStartWith("Error NOT_FOUND");
  });

  test("stays loaded when the run is resumed, and in a fork", async () => {
    await using h = new KernelHarness({
      devices: DEVICES,
      model: script(calls(["ToolSearch", { query: "Bell" }]), says("done"), says("again"), says("fork")),
    });
    const { info } = await h.run("go", OWN_ONLY, ALL);
    for (const fork of [undefined, {}]) {
      const { pid } = await h.kernel.lifecycle.resume(info.uuid, ALL, h.opts(), { input: "go on", fork });
      await h.follow(pid);
    }
    const [, before, resumed, forked] = h.requests;
    expect(names(before)).toContain("Bell");
    expect(resumed?.tools).toEqual(before?.tools ?? []);
    expect(names(forked)).toContain("Bell");
    expect(search(forked)).toEndWith(": WaitUntil");
  });

  test("is each MCP tool beyond tools_shown, and no other; more that come later are deferred, too", async () => {
    const mcp = (name: string) => toolDevice(`mcp__s__${name}`, () => name);
    const devices = {
      "/dev/now": toolDevice("Zebra", () => "noon"),
      "/mnt/mcp/1-s/tools/a": mcp("a"),
      "/mnt/mcp/1-s/tools/b": mcp("b"),
      "/mnt/mcp/1-s/tools/c": mcp("c"),
    };
    await using h = new KernelHarness({
      devices,
      // Agent, Complete and Zebra are no MCP tools.
      limits: { tools_shown: 4 },
      model: script(calls(["mcp__s__c", {}]), calls(["ToolSearch", { query: "mcp__s__*" }]), says("done")),
    });
    await h.run("go", OWN_ONLY, ALL);
    expect(names(h.requests[0])).toEqual(["Agent", "Complete", "ToolSearch", "Zebra", "mcp__s__a"]);
    expect(search(h.requests[0])).toEndWith(": mcp__s__b mcp__s__c");
    expect(result(h.requests[1])).toBe("c");
    expect(names(h.requests[2]).slice(-3)).toEqual(["mcp__s__a", "mcp__s__b", "mcp__s__c"]);

    await using low = new KernelHarness({ devices, limits: { tools_shown: 1 }, model: script(says("done")) });
    await low.run("go", OWN_ONLY, ALL);
    expect(names(low.requests[0])).toEqual(["Agent", "Complete", "ToolSearch", "Zebra"]);
  });

  test("no ToolSearch is offered when nothing is deferred", async () => {
    await using h = new KernelHarness({
      devices: { "/dev/now": DEVICES["/dev/now"] as Device },
      model: script(says("done")),
    });
    await h.run("go", OWN_ONLY, ALL);
    expect(names(h.requests[0])).not.toContain("ToolSearch");
  });
});

describe("a search", () => {
  const tools = [
    "CronAdd",
    "CronList",
    "MemorySearch",
    "mcp__github__issues",
    "mcp__github__pulls",
    "mcp__shop__item_4",
    "mcp__shop__item_42",
  ].map((name) => ({
    tool: { name, description: name === "MemorySearch" ? "Find notes of past runs" : `About ${name}` },
  }));
  const found = (query: string): string[] => searchTools(query, tools).map(({ tool }) => tool.name);

  test.each<[string, string[]]>([
    ["CronAdd", ["CronAdd"]],
    ["cronlist, CronAdd", ["CronAdd", "CronList"]],
    ["mcp__github__*", ["mcp__github__issues", "mcp__github__pulls"]],
    ["select:CronAdd", ["CronAdd"]],
    ["notes", ["MemorySearch"]],
    ["cron", ["CronAdd", "CronList"]],
    ["search the memory", ["MemorySearch"]],
    ["open an issue on github", ["mcp__github__issues", "mcp__github__pulls"]],
    ["stock of item 42", ["mcp__shop__item_42", "mcp__shop__item_4"]],
    ["*", []],
    ["", []],
    ["nothing", []],
  ])("for %p finds %p", (query, expected) => expect(found(query)).toEqual(expected));
});
