import { expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Attention } from "../../../src/cli/terminal/notify.ts";
import type { StreamEvent } from "../../../src/protocol/methods.ts";
import { complete, FakeIo, REF, SPAWNED, step } from "../support.ts";

const BELL = "<1 bytes>";
const ASK: StreamEvent = {
  type: "ask_user",
  payload: {
    ...REF,
    ...{ request_id: "1", kind: "permission" as const, agent: "default", depth: 0, intent: "do it", step: 1 },
    ...{ call_id: null, asked_at_ms: 0, until_ms: 0, call: null, questions: [] },
  },
};

/** What a terminal is sent, event by event; each comes this many ms after the one before. */
async function sent(config: string, ms: number, events: StreamEvent[], stderrTTY = true): Promise<string[]> {
  const home = mkdtempSync(join(tmpdir(), "rnix-attention-"));
  try {
    mkdirSync(join(home, "rnix"));
    writeFileSync(join(home, "rnix", "config.yaml"), config);
    const io = new FakeIo({ env: { HOME: home, XDG_CONFIG_HOME: home }, cwd: home, stderrTTY });
    let now = 0;
    const attention = new Attention(io, () => now);
    const found: string[] = [];
    for (const event of events) {
      now += ms;
      io.stderr.text = "";
      await attention.seen(event);
      found.push(io.stderr.text);
    }
    return found;
  } finally {
    rmSync(home, { recursive: true });
  }
}

test("nothing is sent unless a setting asks for it", async () => {
  expect(await sent("{}\n", 600_000, [SPAWNED, ASK, complete()])).toEqual(["", "", ""]);
});

test("the bell rings when a run has ended or asks after the time of the setting", async () => {
  const events = [SPAWNED, step(1), ASK, complete()];
  expect(await sent("bell: 10s\n", 30_000, events)).toEqual(["", "", BELL, BELL]);
  // The end comes 4 s after the question.
  expect(await sent("bell: 10s\n", 4_000, events)).toEqual(["", "", BELL, ""]);
  expect(await sent("bell: 10s\n", 2_000, events)).toEqual(["", "", "", ""]);
});

test("a notification is sent to a terminal only", async () => {
  const text = "]9;rnix: failed: do it".length + 2;
  const failed = complete({ exit_code: 1 });
  expect(await sent("desktop_notice: 1s\n", 5_000, [SPAWNED, failed])).toEqual(["", `<${text} bytes>`]);
  expect(await sent("desktop_notice: 1s\n", 5_000, [SPAWNED, failed], false)).toEqual(["", ""]);
});
