import { describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Channel } from "../../src/lib/channel.ts";
import { type Device, type OpenContext, SyscallError } from "../../src/plugin/index.ts";
import type { LiveAsk, LiveEvent } from "../../src/run/live-event.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { calls, KernelHarness, type Model, says, toolDevice } from "../support/kernel.ts";
import { seeded } from "../support/seeded.ts";
import { until } from "../support/until.ts";

setDefaultTimeout(60_000);

const MIN = 60_000;

/** A pattern covers what is in the folders that this tool may change. */
const FILES = toolDevice("Write", () => "", { subject: "path" });

/** A shell that only notes what it was given. */
function shell(ran: string[]) {
  return toolDevice(
    "Bash",
    (input) => {
      ran.push(String(input.command));
      return `ran ${input.command}`;
    },
    { subject: "command", annotations: { destructiveHint: true, openWorldHint: true } },
  );
}

/** Runs these commands in one step, then ends with what it heard. */
function runs(...commands: string[]): Model {
  return (request) => {
    const heard = request.messages.filter(({ role }) => role === "tool");
    return heard.length > 0
      ? says(heard.map(({ content }) => content).join(" | "))
      : calls(...commands.map((command): [string, Record<string, unknown>] => ["Bash", { command }]));
  };
}

interface Setup {
  model: Model;
  clock?: FakeClock;
}

function harness({ model, clock }: Setup): { h: KernelHarness; ran: string[] } {
  const ran: string[] = [];
  return {
    ran,
    h: new KernelHarness({ model, clock, devices: { "/dev/shell": shell(ran), "/dev/file": FILES } }),
  };
}

/** A client with a person in front of it. */
class Person {
  readonly events: LiveEvent[] = [];
  readonly #channel: Channel<LiveEvent>;
  readonly #read: Promise<void>;

  constructor(h: KernelHarness, pid: number, answers = true) {
    const channel = h.kernel.attach(pid, { answers });
    this.#channel = channel;
    this.#read = this.#readAll(channel);
  }

  async #readAll(channel: Channel<LiveEvent>): Promise<void> {
    for await (const event of channel) this.events.push(event);
  }

  get asked(): LiveAsk[] {
    return this.events.flatMap((event) => (event.event === "ask" ? [event.ask] : []));
  }

  get closed(): { id: string; verdict: string | null; by: string | null }[] {
    return this.events.flatMap((event) =>
      event.event === "ask_closed"
        ? [{ id: event.ask.ask.id, verdict: event.verdict?.verdict ?? null, by: event.verdict?.by ?? null }]
        : [],
    );
  }

  get ended(): { id: string; parked: boolean | undefined }[] {
    return this.events.flatMap((event) =>
      event.event === "ask_closed" ? [{ id: event.ask.ask.id, parked: event.parked }] : [],
    );
  }

  async question(n = 1): Promise<LiveAsk> {
    await until(() => this.asked.length >= n);
    const ask = this.asked[n - 1];
    if (!ask) throw new Error("no question");
    return ask;
  }

  async leave(): Promise<void> {
    this.#channel.end();
    await this.#read;
  }
}

async function callsOf(h: KernelHarness, uuid: string) {
  const { records } = await h.runs.steps(uuid);
  return records.flatMap((record) => record.tool_calls);
}

describe("a call that an ask rule matches waits for a person", () => {
  test("who says yes, with an instruction that the model reads", async () => {
    const { h, ran } = harness({ model: runs("make") });
    await using _ = h;
    const pid = await h.spawn("go", { ask: ["Bash"] });
    const person = new Person(h, pid);
    const { ask, agent, pid: asking } = await person.question();
    expect([agent, asking, ask.kind]).toEqual(["none", pid, "permission"]);
    expect(ask.call).toMatchObject({
      tool: "Bash",
      subject: "make",
      rules: ["Bash"],
      always: ["Bash(make *)"],
    });
    expect(ask.questions[0]?.options.map(({ id }) => id)).toEqual(["yes", "always", "no"]);
    expect(ran).toEqual([]);
    expect(h.kernel.doing(h.kernel.processes.info(pid))).toEqual({
      kind: "ask",
      text: "waiting for your answer: Bash make",
      since_ms: ask.asked_at_ms,
      until_ms: ask.until_ms,
    });
    h.kernel.asks.answer(ask.id, [{ choices: ["yes"], text: "then stop" }], "test");
    const { info } = await h.follow(pid);
    expect(info.result).toBe("ran make\n\n[The user allowed this call and added: then stop]");
    expect(info.asks).toEqual([]);
    const [made] = await callsOf(h, info.uuid);
    expect(made).toMatchObject({
      state: "done",
      asked: [{ verdict: "yes", by: "user", via: "test", what: "make", rules: ["Bash"], text: "then stop" }],
    });
    expect(person.closed).toEqual([{ id: ask.id, verdict: "yes", by: "user" }]);
    const doing = person.events.flatMap((event) => (event.event === "activity" ? [event.activity.text] : []));
    const at = doing.indexOf("waiting for your answer: Bash make");
    expect(doing.slice(at, at + 2)).toEqual(["waiting for your answer: Bash make", "Bash make"]);
  });

  test("who says no, with a reason for the model", async () => {
    const { h, ran } = harness({ model: runs("make") });
    await using _ = h;
    const pid = await h.spawn("go", { ask: ["Bash"] });
    const { ask } = await new Person(h, pid).question();
    h.kernel.asks.answer(ask.id, [{ choices: ["no"], text: "use ninja" }], "test");
    const { info } = await h.follow(pid);
    expect(info.result).toBe("Error PERMISSION: The user said no to Bash(make): use ninja");
    expect(ran).toEqual([]);
    expect(await callsOf(h, info.uuid)).toMatchObject([
      {
        state: "denied",
        error_code: "PERMISSION",
        asked: [{ verdict: "no", by: "user", text: "use ninja" }],
      },
    ]);
  });

  test("the first answer counts, and the second fails", async () => {
    const { h } = harness({ model: runs("make") });
    await using _ = h;
    const pid = await h.spawn("go", { ask: ["Bash"] });
    const { ask } = await new Person(h, pid).question();
    h.kernel.asks.answer(ask.id, [{ choices: ["yes"] }], "first");
    expect(() => h.kernel.asks.answer(ask.id, [{ choices: ["no"] }], "second")).toThrow(
      `Question ${ask.id} is over: it was answered "yes" (first), and the first answer counts.`,
    );
    expect((await h.follow(pid)).info.result).toBe("ran make");
    expect(h.kernel.asks.answer("nothing", [{ choices: ["no"] }], "x")).toBeNull();
  });

  test("an answer that does not fit leaves the question open", async () => {
    const { h } = harness({ model: runs("make") });
    await using _ = h;
    const pid = await h.spawn("go", { ask: ["Bash"] });
    const { ask } = await new Person(h, pid).question();
    for (const answers of [[], [{ choices: ["maybe"] }], [{ choices: [] }], [{ choices: ["yes", "no"] }]])
      expect(() => h.kernel.asks.answer(ask.id, answers, "x")).toThrow(SyscallError);
    h.kernel.asks.answer(ask.id, [{ choices: ["yes"] }], "x");
    expect((await h.follow(pid)).info.exit_code).toBe(0);
  });

  test("for so long and no longer, and no running time passes meanwhile", async () => {
    const clock = new FakeClock();
    const { h, ran } = harness({ model: runs("make"), clock });
    await using _ = h;
    const pid = await h.spawn("go", { ask: ["Bash"], timeout_ms: MIN });
    const person = new Person(h, pid);
    const { ask } = await person.question();
    await clock.advance(5 * MIN - 1);
    expect(person.closed).toEqual([]);
    await clock.advance(1);
    const { info } = await h.follow(pid);
    expect(info.result).toContain("no answer came in time");
    expect(person.closed).toEqual([{ id: ask.id, verdict: "no", by: "expiry" }]);
    expect(info.elapsed_ms).toBeLessThan(MIN);
    expect(ran).toEqual([]);
  });

  test("in a run that a person started at a terminal it is parked then, and the answer of the next day counts", async () => {
    const clock = new FakeClock();
    const { h, ran } = harness({ model: runs("make"), clock });
    await using _ = h;
    const pid = await h.spawn("go", { ask: ["Bash"], attended: true });
    const person = new Person(h, pid);
    const { ask } = await person.question();
    await clock.advance(5 * MIN);
    const { info } = await h.follow(pid);
    expect([info.exit_reason, info.asks.map(({ id }) => id)]).toEqual(["suspended", [ask.id]]);
    expect(person.ended).toEqual([{ id: ask.id, parked: true }]);
    expect(info.suspended?.wake).toMatchObject({ on: "answer", id: ask.id });
    await clock.advance(24 * 60 * MIN);
    const again = await h.kernel.lifecycle.resume(info.uuid, null, h.opts({ attended: true }));
    const back = new Person(h, again.pid);
    // One who attaches before the call asks again sees the parked question first.
    await until(() => back.asked.at(-1)?.ask.until_ms === clock.now() + 5 * MIN);
    expect(back.asked.map(({ ask: { id } }) => id)).toContain(ask.id);
    h.kernel.asks.answer(ask.id, [{ choices: ["yes"] }], "x");
    expect((await h.follow(again.pid)).info.result).toBe("ran make");
    expect(ran).toEqual(["make"]);
  });

  test("in a conversation as long as a client is attached, and is parked when the last one leaves", async () => {
    const clock = new FakeClock();
    const { h, ran } = harness({ model: runs("make"), clock });
    await using _ = h;
    const pid = await h.spawn("go", { ask: ["Bash"], attended: true, chat: true });
    const person = new Person(h, pid);
    const { ask } = await person.question();
    expect(ask.until_ms).toBeNull();
    await clock.advance(30 * 24 * 60 * MIN);
    expect([person.ended, h.kernel.asks.list().length]).toEqual([[], 1]);
    await person.leave();
    const { info } = await h.follow(pid);
    expect([info.exit_reason, info.asks.map(({ until_ms }) => until_ms)]).toEqual([
      "suspended",
      [clock.now() + 7 * 24 * 60 * MIN],
    ]);
    expect(ran).toEqual([]);
  });

  test("and ends with its run", async () => {
    const { h } = harness({ model: runs("make") });
    await using _ = h;
    const pid = await h.spawn("go", { ask: ["Bash"] });
    const person = new Person(h, pid);
    const { ask } = await person.question();
    h.kernel.processes.kill(pid, 1);
    const { info } = await h.follow(pid);
    expect([info.exit_reason, info.asks]).toEqual(["terminated", []]);
    expect(person.closed).toEqual([{ id: ask.id, verdict: null, by: null }]);
    expect(() => h.kernel.asks.answer(ask.id, [{ choices: ["yes"] }], "x")).toThrow("it was withdrawn");
  });

  test("one that attaches later sees the question, too", async () => {
    const { h } = harness({ model: runs("make") });
    await using _ = h;
    const pid = await h.spawn("go", { ask: ["Bash"] });
    const first = new Person(h, pid);
    await first.question();
    const second = new Person(h, pid, false);
    const { ask } = await second.question();
    h.kernel.asks.answer(ask.id, [{ choices: ["yes"] }], "second");
    await h.follow(pid);
    await until(() => second.closed.length === 1 && first.closed.length === 1);
  });
});

describe("always", () => {
  test("in this run: the same commands are not asked for again, others are", async () => {
    const { h, ran } = harness({ model: runs("git push a", "git push b", "git pull") });
    await using _ = h;
    const pid = await h.spawn("go", { ask: ["Bash"] });
    const person = new Person(h, pid);
    const { ask } = await person.question();
    expect(ask.call?.always).toEqual(["Bash(git push *)"]);
    h.kernel.asks.answer(ask.id, [{ choices: ["always"] }], "x");
    const second = await person.question(2);
    expect(second.ask.call?.subject).toBe("git pull");
    expect(ran).toEqual(["git push a", "git push b"]);
    h.kernel.asks.answer(second.ask.id, [{ choices: ["no"] }], "x");
    const { info } = await h.follow(pid);
    expect(info.permissions.always).toEqual(["Bash(git push *)"]);
    expect((await callsOf(h, info.uuid))[0]?.asked).toMatchObject([
      { verdict: "always", allowed: ["Bash(git push *)"] },
    ]);
  });

  test("by a rule that the person has written, if it exists and covers the call", async () => {
    const { h, ran } = harness({ model: runs("git push a", "git pull") });
    await using _ = h;
    const pid = await h.spawn("go", { ask: ["Bash"] });
    const { ask } = await new Person(h, pid).question();
    const answer =
      (choice: string, ...rules: string[]) =>
      () =>
        h.kernel.asks.answer(ask.id, [{ choices: [choice], rules }], "x");
    expect(answer("always", "Bash(git pull *)")).toThrow("does not cover this call");
    expect(answer("always", "Nothing")).toThrow('There is no tool "Nothing"');
    expect(answer("always", "Bash(")).toThrow("expected a pattern");
    expect(answer("yes", "Bash")).toThrow("only always takes rules");
    answer("always", "Bash(git *)")();
    const { info } = await h.follow(pid);
    expect([ran, info.permissions.always]).toEqual([["git push a", "git pull"], ["Bash(git *)"]]);
  });

  test("reaches parallel agents that ask the same", async () => {
    const model: Model = (request) => {
      const heard = request.messages.filter(({ role }) => role === "tool");
      if (heard.length > 0) return says(heard.map(({ content }) => content).join(" | "));
      return request.intent === "parent"
        ? calls(["Agent", { intent: "one" }], ["Agent", { intent: "two" }])
        : calls(["Bash", { command: "make" }]);
    };
    const { h, ran } = harness({ model });
    await using _ = h;
    const pid = await h.spawn("parent", { ask: ["Bash"] });
    const person = new Person(h, pid);
    const [one, two] = [await person.question(1), await person.question(2)];
    expect([one.depth, two.depth]).toEqual([1, 1]);
    h.kernel.asks.answer(one.ask.id, [{ choices: ["always"] }], "x");
    const { info } = await h.follow(pid);
    expect(info.exit_code).toBe(0);
    expect(ran).toEqual(["make", "make"]);
    expect(person.closed.map(({ verdict, by }) => [verdict, by]).sort()).toEqual([
      ["always", "user"],
      ["yes", "rule"],
    ]);
  });
});

describe("without a client that can answer", () => {
  test("no counts at once, and the model can use the message", async () => {
    for (const on_ask of ["deny", "default", undefined] as const) {
      const { h, ran } = harness({ model: runs("make") });
      await using _ = h;
      const { info } = await h.run("go", { ask: ["Bash"], on_ask });
      expect(info.exit_code).toBe(0);
      expect(info.result).toContain(
        "Bash(make) needs a person's yes (ask rule Bash), and there is no person to ask",
      );
      expect(ran).toEqual([]);
      expect((await callsOf(h, info.uuid))[0]?.asked).toMatchObject([{ verdict: "no", by: "on_ask" }]);
    }
  });

  test("park: the run is suspended, and takes the answer when it resumes", async () => {
    const { h, ran } = harness({ model: runs("ls", "make") });
    await using _ = h;
    const { info } = await h.run("go", { ask: ["Bash(make)"], on_ask: "park" });
    const [ask] = info.asks;
    expect(info).toMatchObject({
      state: "suspended",
      exit_code: 75,
      suspended: { wake: { on: "answer", id: ask?.id, until_ms: ask?.until_ms } },
    });
    await h.runs.amend(info.uuid, (now) => ({
      ...now,
      asks: now.asks.map((one) => ({ ...one, answers: [{ choices: ["yes"] }], answered_by: "rnix answer" })),
    }));
    const { info: ended } = await h.resumed(info.uuid);
    expect(ended.result).toBe("ran ls | ran make");
    expect(ran).toEqual(["ls", "make"]);
    expect((await callsOf(h, info.uuid))[1]?.asked).toMatchObject([{ verdict: "yes", via: "rnix answer" }]);
  });

  test("park: resumed without an answer it asks again under the same id, and expires", async () => {
    const clock = new FakeClock();
    const { h, ran } = harness({ model: runs("make"), clock });
    await using _ = h;
    const { info } = await h.run("go", { ask: ["Bash"], on_ask: "park" });
    const { info: parked } = await h.resumed(info.uuid);
    expect(parked.asks.map(({ id }) => id)).toEqual(info.asks.map(({ id }) => id));
    await clock.advance(8 * 24 * 60 * MIN);
    const { info: ended } = await h.resumed(info.uuid);
    expect(ended.result).toContain("no answer came in time");
    expect(ran).toEqual([]);
  });

  test("the last one who could answer leaves: a run that a person started is parked", async () => {
    const { h } = harness({ model: runs("make") });
    await using _ = h;
    for (const [attended, reason] of [
      [true, "suspended"],
      [false, "completed"],
    ] as const) {
      const pid = await h.spawn("go", { ask: ["Bash"], attended });
      const person = new Person(h, pid);
      await person.question();
      await person.leave();
      expect((await h.follow(pid)).info.exit_reason).toBe(reason);
    }
  });

  test("a child that parks suspends its parent, and both resume with the answer", async () => {
    const model: Model = (request) => {
      const heard = request.messages.findLast(({ role }) => role === "tool");
      if (heard) return says(`heard ${heard.content}`);
      return request.intent === "parent"
        ? calls(["Agent", { intent: "child" }])
        : calls(["Bash", { command: "make" }]);
    };
    const { h, ran } = harness({ model });
    await using _ = h;
    const { info } = await h.run("parent", { ask: ["Bash"], on_ask: "park" });
    expect(info.exit_reason).toBe("suspended");
    const childUuid = info.children[0]?.uuid ?? "";
    expect(info.suspended?.wake).toEqual({ on: "child", uuid: childUuid });
    await h.runs.amend(childUuid, (now) => ({
      ...now,
      asks: now.asks.map((one) => ({ ...one, answers: [{ choices: ["yes"] }] })),
    }));
    const { info: ended } = await h.resumed(info.uuid);
    expect([ended.exit_code, ran]).toEqual([0, ["make"]]);
    expect(ended.result).toContain("ran make");
  });
});

test("a run that is suspended while it asks waits for the answer", async () => {
  const { h, ran } = harness({ model: runs("make") });
  await using _ = h;
  const pid = await h.spawn("go", { ask: ["Bash"] });
  const { ask } = await new Person(h, pid).question();
  await h.kernel.lifecycle.suspend(pid, { reason: "rnix was stopped" });
  const { info } = await h.follow(pid);
  expect(info.suspended?.wake).toMatchObject({ on: "answer", id: ask.id });
  expect(info.asks.map(({ id }) => id)).toEqual([ask.id]);
  const again = await h.kernel.lifecycle.resume(info.uuid, null, h.opts());
  const person = new Person(h, again.pid);
  const second = await person.question();
  expect(second.ask.id).toBe(ask.id);
  h.kernel.asks.answer(ask.id, [{ choices: ["yes"] }], "x");
  expect((await h.follow(again.pid)).info.result).toBe("ran make");
  expect(ran).toEqual(["make"]);
});

test("a program of the run is asked for, too, and a deny given meanwhile counts", async () => {
  const { h, ran } = harness({ model: runs("make") });
  await using _ = h;
  const pid = await h.spawn("go", { ask: ["Bash"] });
  const { ask } = await new Person(h, pid).question();
  await h.kernel.capabilities.revoke(pid, ["Bash"]);
  h.kernel.asks.answer(ask.id, [{ choices: ["yes"] }], "x");
  const { info } = await h.follow(pid);
  expect(info.result).toContain("It was withdrawn by the operator");
  expect(ran).toEqual([]);
});

describe("whatever comes first, the call is made once or never, as the one verdict says", () => {
  for (let seed = 1; seed <= 40; seed++) {
    test(`seed ${seed}`, async () => {
      const random = seeded(seed);
      const clock = new FakeClock();
      const { h, ran } = harness({ model: runs("make"), clock });
      await using _ = h;
      const pid = await h.spawn("go", { ask: ["Bash"], attended: true });
      const person = new Person(h, pid);
      const { ask } = await person.question();
      const begun = h.kernel.processes.info(pid);
      const accepted: string[] = [];
      const answer = (choice: string) => (): void => {
        try {
          if (h.kernel.asks.answer(ask.id, [{ choices: [choice] }], choice)) accepted.push(choice);
        } catch (thrown) {
          if (!(thrown instanceof SyscallError)) throw thrown;
        }
      };
      // The run may have ended by an earlier move.
      const unlessOver = (move: () => unknown): unknown =>
        h.kernel.processes.findPid(begun.uuid) === undefined ? undefined : move();
      const moves: (() => unknown)[] = [
        answer("yes"),
        answer("no"),
        () => clock.advance(5 * MIN),
        () => unlessOver(() => h.kernel.processes.kill(pid, 1)),
        () => unlessOver(() => void h.kernel.lifecycle.suspend(pid)),
        () => void person.leave(),
      ];
      for (let i = 0; i < 4; i++) {
        const move = moves[Math.floor(random() * moves.length)];
        const done = move?.();
        if (random() < 0.5) await done;
      }
      if (h.kernel.asks.list().length > 0 && accepted.length === 0) h.kernel.processes.kill(pid, 1);
      const { info } = await h.follow(pid);
      expect(accepted.length).toBeLessThanOrEqual(1);
      const verdicts = (await callsOf(h, info.uuid)).flatMap(({ asked = [] }) => asked);
      expect(verdicts.length).toBeLessThanOrEqual(1);
      // A yes may come too late for its run.
      if (verdicts[0]?.verdict === "yes") expect([[], ["make"]]).toContainEqual(ran);
      else expect(ran).toEqual([]);
      if (info.exit_reason !== "suspended") {
        expect(info.asks).toEqual([]);
        return;
      }
      // What was accepted is never lost: the resumed run acts on it.
      const { info: ended } = await h.resumed(info.uuid);
      expect(ended.asks.length).toBe(ended.exit_reason === "suspended" ? 1 : 0);
      if (accepted.length > 0) expect(ended.exit_reason).toBe("completed");
      if (accepted[0] === "yes" && verdicts.length === 0) expect(ran).toEqual(["make"]);
      if (accepted[0] !== "yes") expect(ran).toEqual([]);
    });
  }
});

describe("what a driver opens", () => {
  /** A device that opens the file of its input, wherever a link leads, and one that searches these files. */
  function fs(opened: string, searched: string[] = []) {
    const tool = (name: string, use: (context: OpenContext) => Promise<string>, more: object = {}) =>
      toolDevice(name, (_input, _signal, context) => use(context), { subject: "path", ...more });
    const readOnly = { annotations: { readOnlyHint: true } };
    return {
      "/dev/fs": tool("Write", async (context) => String(await context.access([opened]))),
      "/dev/search": tool(
        "Grep",
        async (context) => JSON.stringify(await context.access(searched, ["Read"])),
        { filters: true, ...readOnly },
      ),
      "/dev/read": tool("Read", async () => "", readOnly),
    };
  }

  test("is asked for when it is another file than the one that was named", async () => {
    let dir = "";
    const model: Model = (request) => {
      const heard = request.messages.findLast(({ role }) => role === "tool");
      return heard ? says(heard.content) : calls(["Write", { path: "src/a" }]);
    };
    const devices: Record<string, Device> = {};
    await using h = new KernelHarness({ model, devices });
    dir = h.project;
    Object.assign(devices, fs(`${dir}/.github/x`));
    const pid = await h.spawn("go", { ask: ["Write(.github/**)"] });
    const { ask } = await new Person(h, pid).question();
    expect(ask.call).toMatchObject({ subject: "src/a", opened: `${dir}/.github/x` });
    h.kernel.asks.answer(ask.id, [{ choices: ["no"] }], "x");
    expect((await h.follow(pid)).info.result).toContain("The user said no to Write(");
  });

  test("by a search is left out, and asks no one", async () => {
    const model: Model = (request) => {
      const heard = request.messages.findLast(({ role }) => role === "tool");
      return heard ? says(heard.content) : calls(["Grep", { path: "." }]);
    };
    const devices: Record<string, Device> = {};
    await using h = new KernelHarness({ model, devices });
    Object.assign(devices, fs("", [`${h.project}/secret/key`, `${h.project}/src/a`]));
    const { info } = await h.run("go", { ask: ["Read(secret/**)"] });
    expect(JSON.parse(info.result ?? "")).toEqual([
      "A person has to allow it, because of the ask rule Read(secret/**).",
      null,
    ]);
  });
});
