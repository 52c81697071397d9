import { expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { SyscallError } from "../../../src/plugin/index.ts";
import { calls, KernelHarness, type Model, says, toolDevice } from "../../support/kernel.ts";
import { type Loss, MemoryDisk, ROOT } from "../../support/memory-disk.ts";
import { memoryFolder } from "../../support/memory-folder.ts";
import { seeded } from "../../support/seeded.ts";
import { soak } from "../../support/soak.ts";
import { until } from "../../support/until.ts";
import { requireWhole } from "../../support/whole.ts";

setDefaultTimeout(120_000);

const FOLDER = join(memoryFolder, `rnix-kernel-chat-${process.pid}`);

/** What is outside of the machine that dies: the user at his client, and what the agent has done. */
class Outside {
  readonly acts: string[] = [];
  /** Messages that the user knows to be sent, and those that he knows to be taken back. */
  readonly sent: string[] = [];
  readonly takenBack: string[] = [];
  /** He has asked for it back: it may be, even if he got no answer. */
  readonly askedBack: string[] = [];
  /** Every message that was tried. */
  readonly tried: string[] = [];
  uuid: string | undefined;
  #count = 0;

  next(): string {
    const text = `<m${++this.#count}>`;
    this.tried.push(text);
    return text;
  }

  /** It acts once for each message, and then answers. */
  readonly model: Model = ({ messages }) => {
    requireWhole(messages);
    const last = messages.at(-1);
    return last?.role === "user" ? calls(["Act", { for: last.content }]) : says("ok");
  };
}

function machine(disk: MemoryDisk, outside: Outside): KernelHarness {
  return new KernelHarness({
    model: outside.model,
    fs: disk,
    dir: FOLDER,
    devices: {
      "/dev/act": toolDevice("Act", (input) => {
        disk.tick();
        outside.acts.push(String(input.for));
        disk.tick();
        return "done";
      }),
    },
  });
}

async function waits(h: KernelHarness, pid: number): Promise<void> {
  await until(() => {
    if (h.kernel.processes.info(pid).exit_code !== null) throw new Error("the machine is dead");
    return h.kernel.chats.waits(pid);
  });
}

/** One life of the machine, in which the user continues his plan: three messages, one of them taken back. */
async function live(h: KernelHarness, outside: Outside): Promise<void> {
  const { chats, lifecycle } = h.kernel;
  let pid: number;
  if (outside.uuid === undefined) {
    const first = outside.next();
    pid = await h.spawn(first, { chat: true });
    outside.uuid = h.kernel.processes.info(pid).uuid;
    outside.sent.push(first);
  } else {
    const info = await h.runs.info(outside.uuid);
    if (info?.exit_reason === "completed") return;
    // The spawn was not durable yet, nor anything after it.
    if (info === null && outside.sent.length === 1) {
      outside.uuid = undefined;
      outside.sent.length = 0;
      return live(h, outside);
    }
    ({ pid } = await lifecycle.resume(outside.uuid, null, h.opts()));
  }
  await waits(h, pid);
  while (outside.sent.length < 4) {
    const text = outside.next();
    await chats.send(pid, { text, when: "next_step" });
    outside.sent.push(text);
    const later = outside.next();
    const { seq } = await chats.send(pid, { text: later, when: "after_answer" });
    outside.sent.push(later);
    const wrong = outside.next();
    const other = await chats.send(pid, { text: wrong, when: "after_answer" });
    if (other.seq <= seq) throw new Error("a number was assigned twice");
    outside.sent.push(wrong);
    outside.askedBack.push(wrong);
    const back = await chats.takeBack(pid, other.seq).catch((thrown: unknown) => {
      if (thrown instanceof SyscallError && thrown.code === "NOT_FOUND") return "read" as const;
      throw thrown;
    });
    if (back !== "read") outside.takenBack.push(wrong);
  }
  await waits(h, pid);
  await chats.end(pid);
}

async function requireRight(h: KernelHarness, outside: Outside): Promise<void> {
  const uuid = outside.uuid ?? "";
  expect(await h.runs.info(uuid)).toMatchObject({ exit_reason: "completed", chat: true });
  const { records } = await h.runs.steps(uuid);
  expect(records.map(({ step }) => step)).toEqual(records.map((_, at) => at + 1));
  const heard = records
    .flatMap(({ messages }) => messages.filter(({ role }) => role === "user"))
    .map(({ content }) => content)
    .join("\n");
  for (const text of outside.tried) {
    const times = heard.split(text).length - 1;
    const least = outside.sent.includes(text) && !outside.askedBack.includes(text) ? 1 : 0;
    const most = outside.takenBack.includes(text) ? 0 : 1;
    expect({ text, times, right: times >= least && times <= most }).toMatchObject({ right: true });
    expect(outside.acts.filter((act) => act.includes(text)).length).toBeLessThanOrEqual(1);
  }
  const { unread } = await h.runs.inbox(uuid);
  const left = unread.flatMap((entry) => (entry.kind === "input" ? [entry.text] : []));
  expect(left.filter((text) => !outside.askedBack.includes(text))).toEqual([]);
}

async function cutOff(disk: MemoryDisk, outside: Outside): Promise<void> {
  await using h = machine(disk, outside);
  await live(h, outside).catch(() => undefined);
}

async function through(
  crashes: readonly { at: number; loss: Loss }[],
  random: () => number,
): Promise<number> {
  const outside = new Outside();
  let disk = new MemoryDisk((path) => path.replace(/^.*\/project(?=\/|$)/, ROOT));
  for (const { at, loss } of crashes) {
    disk.diesAt = at;
    await cutOff(disk, outside);
    disk = disk.after(loss, random);
  }
  await using h = machine(disk, outside);
  await live(h, outside);
  await requireRight(h, outside);
  return disk.operations;
}

const never = (): number => 0;

test.each<Loss>(["nothing", "unsynced"])(
  "a chat on a machine that dies at any disk operation and loses %s: each message is read once",
  async (loss) => {
    const operations = await through([], never);
    expect(operations).toBeGreaterThan(40);
    for (let at = 1; at <= operations; at += soak(3, 1)) await through([{ at, loss }], never);
  },
);

test("a chat through several kills and power losses in a row", async () => {
  const operations = await through([], never);
  const losses: Loss[] = ["nothing", "unsynced", "some", "some"];
  for (let seed = 1; seed <= soak(6, 20); seed++) {
    const random = seeded(seed);
    const crashes = losses.map((loss) => ({ at: 1 + Math.floor(random() * operations), loss }));
    await through(crashes, random);
  }
});
