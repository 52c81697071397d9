import { describe, expect, setDefaultTimeout, test } from "bun:test";
import tty from "../../plugins/tty.ts";
import { type AskReply, type Device, type Plugin, SyscallError } from "../../src/plugin/index.ts";
import type { AskAnswer } from "../../src/run/ask-schema.ts";
import type { LiveAsk } from "../../src/run/live-event.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { calls, KernelHarness, type Model, says } from "../support/kernel.ts";
import { until } from "../support/until.ts";

setDefaultTimeout(60_000);

const MIN = 60_000;
const TTY = (tty as Plugin).devices?.["/dev/tty"] as Device;

const DATABASE = {
  question: "Which database?",
  header: "Database",
  options: ["Postgres", { label: "SQLite", description: "a file" }],
  default: "SQLite",
};
const COLOURS = { question: "Which colours?", options: ["red", "green", "blue"], multi_select: true };
const NAME = { question: "Which name?" };

/** Asks in one step, then ends with what it heard. */
function asks(...questions: unknown[]): Model {
  return (request) => {
    const heard = request.messages.filter(({ role }) => role === "tool");
    return heard.length > 0
      ? says(heard.map(({ content }) => content).join("|"))
      : calls(["AskUser", { questions }]);
  };
}

function harness(model: Model, o: { clock?: FakeClock; device?: Device } = {}): KernelHarness {
  return new KernelHarness({
    model,
    clock: o.clock,
    devices: { "/dev/tty": o.device ?? TTY },
    needs: { "/dev/tty": ["ask"] },
  });
}

async function theAsk(h: KernelHarness): Promise<LiveAsk> {
  await until(() => h.kernel.asks.list().length > 0);
  const [ask] = h.kernel.asks.list();
  if (!ask) throw new Error("no question");
  return ask;
}

/** A client that can answer. */
function attend(h: KernelHarness, pid: number): void {
  const channel = h.kernel.attach(pid, { answers: true });
  void (async () => {
    for await (const _ of channel);
  })();
}

function replyOf(result: string | null): AskReply {
  return JSON.parse(result ?? "");
}

async function callOf(h: KernelHarness, uuid: string) {
  const { records } = await h.runs.steps(uuid);
  return records.flatMap((record) => record.tool_calls)[0];
}

async function answerOnDisk(h: KernelHarness, uuid: string, answers: AskAnswer[]): Promise<void> {
  await h.runs.amend(uuid, (now) => ({
    ...now,
    asks: now.asks.map((one) => ({ ...one, answers, answered_by: "rnix answer" })),
  }));
}

describe("questions of the model reach the user", () => {
  test("several at once: options, several choices, own words", async () => {
    await using h = harness(asks(DATABASE, COLOURS, NAME));
    const pid = await h.spawn("go");
    attend(h, pid);
    const { ask } = await theAsk(h);
    expect(ask).toMatchObject({ kind: "question", call: null });
    expect(ask.questions).toEqual([
      {
        question: "Which database?",
        header: "Database",
        options: [
          { id: "1", label: "Postgres" },
          { id: "2", label: "SQLite", about: "a file" },
        ],
        multi: false,
        text: true,
        default: ["2"],
      },
      {
        question: "Which colours?",
        options: ["red", "green", "blue"].map((label, i) => ({ id: String(i + 1), label })),
        multi: true,
        text: true,
      },
      { question: "Which name?", options: [], multi: false, text: true },
    ]);
    expect(h.kernel.doing(h.kernel.processes.info(pid))?.text).toBe(
      "waiting for your answer: Which database?",
    );
    h.kernel.asks.answer(
      ask.id,
      [{ choices: ["1"] }, { choices: ["1", "3"], text: "and pink" }, { choices: [], text: "shop" }],
      "test",
    );
    const { info } = await h.follow(pid);
    expect(replyOf(info.result)).toEqual({
      answers: [
        { question: "Which database?", answer: ["Postgres"] },
        { question: "Which colours?", answer: ["red", "blue", "and pink"] },
        { question: "Which name?", answer: ["shop"] },
      ],
      by: "user",
    });
    expect((await callOf(h, info.uuid))?.asked).toMatchObject([
      { verdict: "answered", by: "user", via: "test", text: "Postgres; red, blue, and pink; shop" },
    ]);
    expect(() => h.kernel.asks.answer(ask.id, [], "late")).toThrow(
      `Question ${ask.id} is over: it was answered "Postgres; red, blue, and pink; shop" (test), and the first answer counts.`,
    );
  });

  test("a skipped question has no answer, and a note for the model", async () => {
    await using h = harness(asks(DATABASE, NAME));
    const pid = await h.spawn("go");
    attend(h, pid);
    const { ask } = await theAsk(h);
    h.kernel.asks.answer(ask.id, [{ choices: ["1"] }, { choices: [] }], "test");
    const reply = replyOf((await h.follow(pid)).info.result);
    expect([reply.by, reply.answers[1]?.answer]).toEqual(["user", []]);
    expect(reply.note).toStartWith("The user skipped the questions without an answer.");
  });

  test("an answer that does not fit is refused, and the question stays open", async () => {
    await using h = harness(asks(DATABASE, COLOURS));
    const pid = await h.spawn("go");
    attend(h, pid);
    const { ask } = await theAsk(h);
    for (const answers of [
      [{ choices: ["1"] }],
      [{ choices: ["1", "2"] }, { choices: [] }],
      [{ choices: ["3"] }, { choices: [] }],
    ])
      expect(() => h.kernel.asks.answer(ask.id, answers, "test")).toThrow(SyscallError);
    h.kernel.asks.answer(ask.id, [{ choices: ["1"] }, { choices: ["2"] }], "test");
    expect(replyOf((await h.follow(pid)).info.result).by).toBe("user");
  });

  test("after five minutes the defaults count with --on-ask default, and the wait is not the call's time", async () => {
    const clock = new FakeClock();
    await using h = harness(asks(DATABASE, NAME), { clock });
    const pid = await h.spawn("go", { on_ask: "default" });
    attend(h, pid);
    const { ask } = await theAsk(h);
    expect(ask.until_ms).toBe(ask.asked_at_ms + 5 * MIN);
    await clock.advance(5 * MIN);
    const { info } = await h.follow(pid);
    const reply = replyOf(info.result);
    expect([reply.by, reply.answers.map(({ answer }) => answer)]).toEqual(["expiry", [["SQLite"], []]]);
    expect(reply.note).toContain("No answer came in time, so the defaults count.");
    const call = await callOf(h, info.uuid);
    expect([call?.duration_ms, call?.waited_ms, call?.state]).toEqual([0, 5 * MIN, "done"]);
  });

  test("of a sub-agent reach the clients of the root", async () => {
    const model: Model = (request) => {
      const heard = request.messages.findLast(({ role }) => role === "tool");
      if (heard) return says(heard.content);
      return request.intent === "parent"
        ? calls(["Agent", { intent: "child" }])
        : calls(["AskUser", { questions: [NAME] }]);
    };
    await using h = harness(model);
    const pid = await h.spawn("parent");
    attend(h, pid);
    const { ask, depth } = await theAsk(h);
    expect(depth).toBe(1);
    h.kernel.asks.answer(ask.id, [{ choices: [], text: "shop" }], "test");
    expect((await h.follow(pid)).info.result).toContain("shop");
  });
});

describe("without a client that can answer", () => {
  test.each([
    ["deny", "denied", [[], []]],
    [undefined, "denied", [[], []]],
    ["default", "default", [["SQLite"], []]],
  ] as const)("--on-ask %s: the model gets an answer at once", async (on_ask, by, answers) => {
    await using h = harness(asks(DATABASE, NAME));
    const { info } = await h.run("go", { on_ask });
    const reply = replyOf(info.result);
    expect([info.exit_code, reply.by, reply.answers.map(({ answer }) => answer)]).toEqual([
      0,
      by,
      answers,
    ] as never);
    expect(reply.note).toContain("decide by yourself if you can");
    expect((await callOf(h, info.uuid))?.state).toBe("done");
  });

  test("park: the run is suspended, and its answers resume it", async () => {
    await using h = harness(asks(DATABASE, NAME));
    const { info } = await h.run("go", { on_ask: "park" });
    const [ask] = info.asks;
    expect(info.suspended?.wake).toEqual({
      on: "answer",
      id: ask?.id ?? "",
      until_ms: ask?.until_ms ?? 0,
      questions: 2,
    });
    await answerOnDisk(h, info.uuid, [{ choices: ["1"] }, { choices: [], text: "shop" }]);
    const { info: ended } = await h.resumed(info.uuid);
    expect(replyOf(ended.result).answers.map(({ answer }) => answer)).toEqual([["Postgres"], ["shop"]]);
    const call = await callOf(h, info.uuid);
    expect(call?.asked).toMatchObject([{ verdict: "answered", via: "rnix answer" }]);
    expect(ended.tool_calls).toBe(1);
  });

  test("park: after a week the default counts", async () => {
    const clock = new FakeClock();
    await using h = harness(asks(DATABASE), { clock });
    const { info } = await h.run("go", { on_ask: "park" });
    await clock.advance(7 * 24 * 60 * MIN + 1);
    expect(replyOf((await h.resumed(info.uuid)).info.result)).toMatchObject({
      by: "expiry",
      answers: [{ answer: ["SQLite"] }],
    });
  });
});

describe("a driver that asks more than once in a call", () => {
  /** Asks three times, the last two the same, and says what it heard. */
  const device: Device = {
    tools: [{ name: "AskUser", description: "asks", input: { type: "object" } }],
    factory: (_subpath, _flags, { ask }) => {
      let text = "";
      return {
        async write() {
          for (const question of ["one?", "again?", "again?"]) {
            const reply = await ask?.ask([{ question }]);
            text += `${reply?.answers[0]?.answer[0]} `;
          }
        },
        async read() {
          const all = text;
          text = "";
          return all;
        },
        async close() {},
        async stat() {
          return { name: "tty", size: 0, isDevice: true, devicePath: "/dev/tty" };
        },
      };
    },
  };

  test("gets each answer once, also those from before a resume", async () => {
    await using h = harness(asks(), { device });
    let { info } = await h.run("go", { on_ask: "park" });
    for (const text of ["a", "b", "c"]) {
      expect(info.asks).toHaveLength(1);
      await answerOnDisk(h, info.uuid, [{ choices: [], text }]);
      info = (await h.resumed(info.uuid)).info;
    }
    expect([info.exit_reason, info.result]).toEqual(["completed", "a b c "]);
  });

  test("and whose call ends meanwhile leaves no question behind", async () => {
    const careless: Device = {
      ...device,
      factory: async (subpath, flags, context) => {
        const file = await device.factory(subpath, flags, context);
        let isRead = false;
        return {
          ...file,
          async write() {
            context.ask?.ask([{ question: "who?" }]).catch(() => undefined);
            await Bun.sleep(1);
          },
          async read() {
            if (isRead) return "";
            isRead = true;
            return "ok";
          },
        };
      },
    };
    await using h = harness(asks(), { device: careless });
    const pid = await h.spawn("go");
    attend(h, pid);
    expect((await h.follow(pid)).info.exit_code).toBe(0);
    expect(h.kernel.asks.size).toBe(0);
  });
});

test.each([
  [Array(11).fill(NAME), "1 to 10 questions"],
  [[{ question: " " }], '"question" as a text'],
  [[{ question: "x".repeat(4_001) }], "1 to 4000 characters"],
  [[{ question: "a", options: ["b", "b"] }], 'two options have the label "b"'],
  [[{ question: "a", options: ["b", "c"], default: "d" }], 'the default "d" is none of its options: b, c'],
  [[{ question: "a", options: ["b", "c"], default: ["b", "c"] }], "so it has one default"],
  [[{ question: "a", options: Array.from({ length: 21 }, (_, i) => `o${i}`) }], "at most 20 options"],
])("questions that do not fit are refused with the reason: %#", async (questions, why) => {
  await using h = harness(asks(...questions));
  const { info } = await h.run("go");
  expect(info.result).toContain("INVALID");
  expect(info.result).toContain(why);
});
