import { expect, setDefaultTimeout, test } from "bun:test";
import { calls, KernelHarness, type Model, says, toolDevice } from "../support/kernel.ts";
import { until } from "../support/until.ts";

setDefaultTimeout(60_000);

/** A shell that notes what it was given, and waits where a test says so. */
function shell(ran: string[], held = Promise.resolve()) {
  return toolDevice(
    "Bash",
    async (input) => {
      ran.push(String(input.command));
      await held;
      return `ran ${input.command}`;
    },
    { subject: "command", annotations: { destructiveHint: true, openWorldHint: true } },
  );
}

/** Makes these calls one after the other, then ends with what it heard. */
function runs(...commands: string[]): Model {
  return ({ messages }) => {
    const heard = messages.filter(({ role }) => role === "tool");
    const next = commands[heard.length];
    return next === undefined
      ? says(heard.map(({ content }) => content).join(" | "))
      : calls(["Bash", { command: next }]);
  };
}

/** A pattern covers what is in the folders that this tool may change. */
const FILES = toolDevice("Write", () => "", { subject: "path" });

test("plan: what changes something is refused without a question, and the model is notified", async () => {
  const ran: string[] = [];
  await using h = new KernelHarness({ model: runs("make", "pwd"), devices: { "/dev/shell": shell(ran) } });
  const { info } = await h.run("go", { askMode: "plan" });
  expect(info.result).toContain("Bash(make) may change something, and the run is in the mode plan");
  expect([info.exit_code, ran, info.permissions.ask_mode]).toEqual([0, ["pwd"], "plan"]);
  expect(JSON.stringify(h.requests[0]?.messages)).toContain("The mode is plan: only look.");
});

test("a mode is changed while the run works, by the operator, for its children too; a resume has it", async () => {
  const ran: string[] = [];
  const go = Promise.withResolvers<void>();
  await using h = new KernelHarness({
    model: runs("pwd", "make"),
    devices: { "/dev/shell": shell(ran, go.promise) },
  });
  const pid = await h.spawn("go", { askMode: "off", on_ask: "park" });
  const channel = h.kernel.attach(pid);
  await until(() => ran.length === 1);
  expect(await h.kernel.capabilities.setMode(pid, "plan")).toBe("plan");
  expect(await h.kernel.capabilities.setMode(pid, "outside")).toBe("outside");
  go.resolve();
  const { info } = await h.follow(pid);
  expect([info.exit_reason, ran]).toEqual(["suspended", ["pwd"]]);
  expect(info.asks[0]?.call?.rules).toEqual(["the mode outside"]);
  const modes: string[] = [];
  for await (const event of channel) if (event.event === "mode") modes.push(event.mode);
  expect(modes).toEqual(["plan", "outside"]);
  // Two changes that the model has read nothing of are none.
  expect(JSON.stringify(h.requests)).not.toMatch(/The mode is/);
  const { info: again } = await h.resumed(info.uuid);
  expect([again.exit_reason, again.permissions.ask_mode]).toEqual(["suspended", "outside"]);
  const { info: free } = await h.resumed(info.uuid, {}, { askMode: "off" });
  expect([free.exit_reason, free.asks, ran]).toEqual(["completed", [], ["pwd", "make"]]);
});

test("outside: a command that can't leave its sandbox is not asked for, unless a rule names it", async () => {
  const ran: string[] = [];
  const model = runs("make", "curl example.com");
  await using h = new KernelHarness({ model, devices: { "/dev/shell": shell(ran) } });
  const confinement = { level: "project", mechanism: "bubblewrap", program: "/usr/bin/bwrap" } as const;
  const given = { askMode: "outside", on_ask: "park", confinement } as const;
  const free = await h.run("go", { ...given, network: ["off"] });
  expect([free.info.exit_reason, ran]).toEqual(["completed", ["make", "curl example.com"]]);
  for (const opts of [
    given,
    { ...given, network: ["off"], ask: ["Bash(make *)", "Bash(make)"] },
    { on_ask: given.on_ask, askMode: given.askMode },
  ])
    expect((await h.run("go", opts)).info.exit_reason).toBe("suspended");
});

test("a laxer mode answers the question that is open", async () => {
  const ran: string[] = [];
  await using h = new KernelHarness({ model: runs("make"), devices: { "/dev/shell": shell(ran) } });
  const pid = await h.spawn("go", { askMode: "outside" });
  h.kernel.attach(pid, { answers: true });
  await until(() => h.kernel.asks.size === 1);
  await h.kernel.capabilities.setMode(pid, "off");
  expect((await h.follow(pid)).info.result).toBe("ran make");
});

test("a child has the mode of its parent at least, and what a user allows needs no question", async () => {
  const ran: string[] = [];
  const model: Model = (request) => {
    const heard = request.messages.findLast(({ role }) => role === "tool");
    if (heard) return says(heard.content);
    return request.intent === "parent"
      ? calls(["Agent", { intent: "child" }])
      : calls(["Bash", { command: "make" }]);
  };
  await using h = new KernelHarness({ model, devices: { "/dev/shell": shell(ran), "/dev/file": FILES } });
  expect((await h.run("parent", { askMode: "plan" })).info.result).toContain("the mode plan");
  const pid = await h.spawn("parent", { askMode: "outside", unasked: ["Bash(make *)"] });
  expect((await h.follow(pid)).info.result).toContain("ran make");
});
