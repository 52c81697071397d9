import { describe, expect, test } from "bun:test";
import { failure } from "../../support/failure.ts";
import { run, Stage, step } from "./stage.ts";

const UUID = "0199e0a0-0000-7000-8000-000000000001";
const OTHER = "0199e0a0-0000-7000-8000-000000000002";
const TEST = { command: "npm test" };

function recorded(...steps: object[]): Stage {
  const stage = new Stage();
  stage.runs.push(run(UUID));
  stage.steps.set(UUID, steps);
  return stage;
}

describe("a recorded run", () => {
  test("is replayed by its UUID or a prefix of it: the answers, the calls' ids, the usage", async () => {
    using stage = recorded(step(1, "looking", ["Bash", TEST, "3 pass [5ms]"]), step(2, "done"));
    for (const model of [UUID, UUID.slice(0, 8), UUID.toUpperCase()]) {
      const player = await stage.open(model);
      const first = await player.next(() => "3 pass [9ms]");
      expect(first).toMatchObject({
        content: "looking",
        tool_calls: [{ id: "t1_1", name: "Bash", input: TEST }],
        usage: { input_tokens: 5, output_tokens: 6, cached_tokens: 1 },
      });
      expect(await player.next()).toMatchObject({ content: "done", stop_reason: "end_turn" });
      expect((await failure(player.next())).message).toContain("has 2 responses");
    }
  });

  test("of more steps than one page is replayed to its end", async () => {
    const steps = Array.from({ length: 250 }, (_, n) => step(n + 1, `say ${n + 1}`, ["Bash", TEST, `${n}`]));
    using stage = recorded(...steps, step(251, "done"));
    const player = await stage.open(UUID);
    let n = 0;
    const said = await player.play(() => `${n++}`);
    expect(said).toHaveLength(251);
    expect(said.at(-1)).toBe("done");
  });

  const grid: [string, string, string | { error: string; code: string }, string, boolean][] = [
    ["another result", UUID, "3 pass", "2 pass", false],
    ["another time only", UUID, "3 pass [1ms]", "3 pass [2ms]", true],
    ["another time, to the byte", `${UUID}:exact`, "3 pass [1ms]", "3 pass [2ms]", false],
    ["another result, by how it went", `${UUID}:state`, "3 pass", "2 pass", true],
    [
      "a call that is refused by now, by how it went",
      `${UUID}:state`,
      "3 pass",
      "Error PERMISSION: no",
      false,
    ],
    [
      "a call that fails as it did",
      UUID,
      { error: "no file", code: "NOT_FOUND" },
      "Error NOT_FOUND: no file",
      true,
    ],
    ["a call that fails no more", UUID, { error: "no file", code: "NOT_FOUND" }, "found", false],
  ];
  for (const [title, model, then, now, same] of grid) {
    test(`${same ? "agrees with" : "diverges with"} ${title}`, async () => {
      using stage = recorded(step(1, "", ["Bash", TEST, then]), step(2, "done"));
      const played = (await stage.open(model)).play(() => now);
      if (same) expect(await played).toEqual(["", "done"]);
      else {
        const error = await failure(played);
        expect(error).toMatchObject({ code: "INVALID", retryable: false });
        expect(error.message).toContain(`run ${UUID} diverges at turn 1`);
        expect(error.message).toContain(`  ${now}`);
      }
    });
  }

  test("expects nothing of a call that was cut off", async () => {
    const cut = step(1, "", ["Bash", TEST, "never shown"]);
    using stage = recorded(JSON.parse(JSON.stringify(cut).replace('"done"', '"unknown"')), step(2, "done"));
    expect(await (await stage.open(UUID)).play(() => "anything")).toEqual(["", "done"]);
  });

  test("works in today's folder with what it did in its own", async () => {
    using stage = recorded(
      step(1, "", ["Read", { path: "/then/a.ts", deep: [{ at: "/then" }] }, "/then/a.ts:1"]),
      step(2, "done"),
    );
    const player = await stage.open(UUID);
    const { tool_calls } = await player.next(() => `${stage.dir}/a.ts:1`);
    expect(tool_calls[0]?.input).toEqual({ path: `${stage.dir}/a.ts`, deep: [{ at: stage.dir }] });
    expect((await player.next()).content).toBe("done");
  });
});

describe("a run that can't be replayed fails, and is not retried", () => {
  const grid: [string, (stage: Stage) => void, string, string, RegExp][] = [
    ["a run that is not there", () => {}, "0199ffff", "NOT_FOUND", /no run 0199ffff/],
    [
      "a run that is running",
      (stage) => stage.runs.push(run(OTHER, { ended_at_ms: null })),
      OTHER,
      "INVALID",
      /still running/,
    ],
    [
      "a supervisor",
      (stage) => stage.runs.push(run(OTHER, { kind: "supervisor" })),
      OTHER,
      "INVALID",
      /not an agent's run/,
    ],
    [
      "a prefix of two",
      (stage) => stage.runs.push(run(OTHER)),
      "0199e0a0",
      "INVALID",
      /several runs.*Write more/,
    ],
    [
      "a record with a step missing",
      (stage) => stage.steps.set(UUID, [step(1, "a"), step(3, "c")]),
      UUID,
      "INVALID",
      /its step 2 cannot be read/,
    ],
    [
      "a step of another form",
      (stage) => stage.steps.set(UUID, [{ step: 1, messages: "none" }]),
      UUID,
      "INVALID",
      /its step 1 cannot be read/,
    ],
  ];
  for (const [title, arrange, model, code, says] of grid) {
    test(title, async () => {
      using stage = recorded(step(1, "a"));
      arrange(stage);
      const error = await failure((await stage.open(model)).next());
      expect(error).toMatchObject({ code, retryable: false });
      expect(error.message).toMatch(says);
    });
  }

  test("a run does not replay itself, although its UUID has the prefix", async () => {
    using stage = recorded(step(1, "a"));
    stage.runs.push(run(OTHER, { ended_at_ms: null }));
    expect((await (await stage.open("0199e0a0", { uuid: OTHER })).next()).content).toBe("a");
  });
});

describe("a child of a replayed run", () => {
  const NOW = "0199e0a0-0000-7000-8000-0000000000";
  /** A recorded run with two children of one intent and one of another, and the run that plays it. */
  function family(model: string): Stage {
    const stage = recorded(step(1, "parent"));
    for (const [n, intent] of [
      ["a1", "look"],
      ["a2", "look"],
      ["a3", "write"],
    ] as const) {
      const uuid = `0199e0a0-0000-7000-8000-00000000${n}00`;
      stage.runs.push(run(uuid, { parent_uuid: UUID, agent: "helper", intent }));
      stage.steps.set(uuid, [step(1, `as ${n}`)]);
    }
    stage.runs.push(run(`${NOW}b0`, { provider: "replay", model, ended_at_ms: null }));
    return stage;
  }
  const child = (stage: Stage, n: string, intent: string, model: string) => {
    const self = run(`${NOW}${n}`, {
      parent_uuid: `${NOW}b0`,
      agent: "helper",
      intent,
      provider: "replay",
      model,
    });
    stage.runs.push(self);
    return stage.open(model, { uuid: self.uuid, depth: 1 });
  };

  test("replays the matching child of the recorded run, by agent, intent and order", async () => {
    using stage = family(UUID);
    const first = await child(stage, "b1", "look", UUID);
    const other = await child(stage, "b2", "write", UUID);
    const second = await child(stage, "b3", "look", UUID);
    expect((await second.next()).content).toBe("as a2");
    expect((await other.next()).content).toBe("as a3");
    expect((await first.next()).content).toBe("as a1");
    const third = await child(stage, "b4", "look", UUID);
    const error = await failure(third.next());
    expect(error.message).toContain("number 3 of it");
    const unknown = await child(stage, "b5", "sing", UUID);
    expect((await failure(unknown.next())).message).toMatch(
      /helper: "write"[\s\S]*actual\n {2}helper: "sing"/,
    );
  });

  test("replays its sub-script, or the whole of a script without sub-scripts", async () => {
    using stage = family("s.json");
    stage.write("s.json", {
      responses: [{ text: "parent" }],
      children: [{ agent: "helper", intent: "look", responses: [{ text: "child" }] }],
    });
    expect((await (await child(stage, "b1", "look", "s.json")).next()).content).toBe("child");
    stage.write("s.json", { responses: [{ text: "parent" }] });
    expect((await (await child(stage, "b2", "look", "s.json")).next()).content).toBe("parent");
  });

  test("of a run that replays another recording starts at the beginning", async () => {
    using stage = family("else.json");
    expect((await (await child(stage, "b1", "look", UUID)).next()).content).toBe("parent");
  });
});
