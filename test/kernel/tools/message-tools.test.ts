import { describe, expect, test } from "bun:test";
import { bareAgent } from "../../../src/kernel/process/process-spec.ts";
import type { AgentInfo, SkillInfo, SpawnOpts } from "../../../src/kernel/types.ts";
import type { LLMRequest } from "../../../src/plugin/index.ts";
import { calls, KernelHarness, type Model, says, script, silent, toolDevice } from "../../support/kernel.ts";
import { until } from "../../support/until.ts";

const BOTH = ["ReadMessages", "SendMessage"];
const names = (request: LLMRequest | undefined): string[] => (request?.tools ?? []).map(({ name }) => name);
const messaging = (request: LLMRequest | undefined): string[] =>
  names(request).filter((name) => BOTH.includes(name));

const agent = (more: Partial<AgentInfo> = {}): AgentInfo => ({ ...bareAgent("any"), ...more });
const skill = (allowedTools: string[] | null, body = "Do."): SkillInfo => ({
  name: "talk",
  description: "Talks",
  dir: "",
  allowedTools,
  body: async () => body,
});

/** The first request of a run. */
async function first(
  intent: string,
  more: Partial<SpawnOpts>,
  of: AgentInfo,
): Promise<LLMRequest | undefined> {
  await using h = new KernelHarness({ model: script(says("done")) });
  await h.run(intent, more, of);
  return h.requests[0];
}

describe("the first request shows the message tools", () => {
  const all = ["*"];
  test.each<[string, string, Partial<SpawnOpts>, Partial<AgentInfo>, string[]]>([
    ["not to a run that names none", "go", {}, { allowedTools: all }, []],
    ["not for a star in --allow", "go", { allow: all }, {}, []],
    ["for the agent's list, as far as it goes", "go", {}, { allowedTools: ["SendMessage"] }, ["SendMessage"]],
    ["for a star and a name", "go", {}, { allowedTools: ["*", "ReadMessages"] }, BOTH],
    ["for a device", "go", {}, { allowedTools: ["*", "/dev/kernel/send_message"] }, BOTH],
    ["for --allow", "go", { allow: ["*", "SendMessage"] }, { allowedTools: all }, BOTH],
    ["for the list of a loaded skill", "go", {}, { skills: [skill(["SendMessage"])] }, BOTH],
    ["for the text of a loaded skill", "go", {}, { skills: [skill(null, "Use SendMessage.")] }, BOTH],
    ["for the list of a skill to be loaded", "go", {}, { deferredSkills: [skill(["ReadMessages"])] }, BOTH],
    ["for the instructions", "go", {}, { instructions: "Wait with ReadMessages." }, BOTH],
    ["for --system-prompt", "go", { system_prompt: "Ask by SendMessage." }, {}, BOTH],
    ["for the intent", "SendMessage to 7: hello", {}, {}, BOTH],
    ["not where they are denied", "SendMessage", { deny: BOTH }, { allowedTools: all }, []],
    ["not for another word", "Read SendMessages and XReadMessages", {}, {}, []],
  ])("%s", async (_title, intent, more, of, expected) => {
    expect(messaging(await first(intent, more, agent(of)))).toEqual(expected);
  });

  test("to a child, which has a parent to write to", async () => {
    await using h = new KernelHarness({ model: byIntent({ child: script(says("done")), parent: silent }) });
    const parentPid = await h.spawn("parent");
    await h.run("child", { parentPid });
    expect(messaging(h.requests.find(({ intent }) => intent === "child"))).toEqual(BOTH);
  });
});

test("a run that is not shown them may still use them", async () => {
  await using h = new KernelHarness({
    model: byIntent({
      reader: silent,
      writer: script(
        calls(["SendMessage", { to: 1, message: "hello" }], ["ReadMessages", { wait_ms: 0 }]),
        says("done"),
      ),
    }),
  });
  await h.spawn("reader");
  const { info } = await h.run("writer");
  expect((await h.runs.steps(info.uuid)).records[0]?.tool_calls.map(({ state }) => state)).toEqual([
    "done",
    "done",
  ]);
});

describe("a later request appends them behind the others", () => {
  test("after a message of another run, and a resumed run still has them there", async () => {
    await using h = new KernelHarness({ model: stepping(3), devices: { "/dev/wait": waits() } });
    const receiver = await h.spawn("receiver");
    const { uuid } = h.kernel.processes.info(receiver);
    const sender = await h.spawn("sender");
    await h.kernel.ipc.send(sender, receiver, "hello");
    finish();
    await until(() => of(h, "receiver").length === 3);
    const [one, two, three] = of(h, "receiver").map(names);
    expect(one).not.toContain("SendMessage");
    expect(two).toEqual([...(one ?? []), ...BOTH]);
    expect(three).toEqual(two);
    await h.kernel.lifecycle.suspend(receiver);
    await h.kernel.lifecycle.resume(uuid, null, h.opts());
    await until(() => of(h, "receiver").length === 4);
    expect(of(h, "receiver").map(names).at(-1)).toEqual(two);
  });

  test("while a child of the run is live", async () => {
    await using h = new KernelHarness({ model: stepping(2), devices: { "/dev/wait": waits() } });
    const parentPid = await h.spawn("receiver");
    await h.spawn("sender", { parentPid });
    finish();
    await until(() => of(h, "receiver").length === 2);
    expect(of(h, "receiver").map(messaging)).toEqual([[], BOTH]);
  });

  test.each(["*", "Wait"])("when they are granted by name, also together with %s", async (allow) => {
    await using h = new KernelHarness({ model: stepping(2), devices: { "/dev/wait": waits() } });
    const pid = await h.spawn("receiver", { allow: [allow] });
    await h.kernel.capabilities.grant(pid, ["SendMessage"]);
    finish();
    await until(() => of(h, "receiver").length === 2);
    const [one = [], two = []] = of(h, "receiver").map(names);
    expect(one).not.toContain("SendMessage");
    expect(two.slice(0, one.length)).toEqual(one);
    expect(two).toContain("SendMessage");
  });

  test("not for an ended child, though it wrote, and not for the operator's message", async () => {
    const answers = { receiver: stepping(2), child: script(calls(["SendMessage", HELLO]), says("done")) };
    await using h = new KernelHarness({ model: byIntent(answers), devices: { "/dev/wait": waits() } });
    const parentPid = await h.spawn("receiver");
    await h.run("child", { parentPid });
    await until(() => h.kernel.processes.count === 1);
    await h.kernel.ipc.send(0, parentPid, "go on");
    finish();
    await until(() => of(h, "receiver").length === 2);
    const [, second] = of(h, "receiver");
    expect(second?.messages.at(-1)?.content).toContain("hello");
    expect(second?.messages.at(-1)?.content).toContain("go on");
    expect(messaging(second)).toEqual([]);
  });
});

const HELLO = { to: "parent", message: "hello" };

let finish: () => void = () => undefined;

/** The tool Wait, whose calls end with the next `finish`. */
function waits() {
  const gone = Promise.withResolvers<void>();
  finish = gone.resolve;
  return toolDevice("Wait", async () => {
    await gone.promise;
    return "waited";
  });
}

/** The receiver waits in each step before the last one, which hangs; every other run hangs at once. */
function stepping(steps: number): Model {
  let asked = 0;
  return (request, signal) => {
    if (request.intent !== "receiver") return silent(request, signal);
    return ++asked < steps ? calls(["Wait", { asked }]) : silent(request, signal);
  };
}

function byIntent(models: Record<string, Model>): Model {
  return (request, signal) => (models[request.intent] ?? silent)(request, signal);
}

function of(h: KernelHarness, intent: string): LLMRequest[] {
  return h.requests.filter((request) => request.intent === intent);
}
