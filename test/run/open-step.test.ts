import { expect, test } from "bun:test";
import { isMixed, openStep } from "../../src/run/open-step.ts";
import type { JournalEntry } from "../../src/store/runs/schema.ts";

/** `c2` is a compaction before step 2, `a2` its answer, `s2` a call's start in it; what follows tells them apart. */
function entry(name: string): JournalEntry {
  const step = Number(name[1]);
  const ts = name;
  if (name.startsWith("s"))
    return { t: "call_start", step, ts, id: name, name: "Act", path: "/", input: {}, safe: false };
  const usage = { input_tokens: 0, output_tokens: 0, cached_tokens: 0 };
  const compaction = {
    ts,
    why: "tokens",
    tokens_before: 9,
    tokens_after: 3,
    cut: [],
    summary: null,
  } as const;
  if (name.startsWith("c")) return { t: "compact", step, ts, compaction: { ...compaction, cut: [], usage } };
  return { t: "answer", v: 1, step, ts, message: { role: "assistant", content: name }, usage };
}

const grid: [journal: string, recorded: number, open: string, mixed: boolean][] = [
  ["", 0, "", false],
  ["a1 s1", 0, "a1 s1", false],
  ["a1 s1", 1, "", false],
  ["a1 s1 a2 s2", 1, "a2 s2", false],
  // The record of step 2 was lost with the power, and what came after it was not.
  ["a2 s2 a3 s3", 1, "a2 s2", true],
  // After a resume, its model was asked for step 3 again.
  ["a2 s2 a3old s3old a3 s3", 2, "a3 s3", true],
  // It has been compacted, and was asked or not; the answer to the first time was lost.
  ["a2 s2 c3", 2, "c3", false],
  ["a2 s2 c3 a3 s3", 2, "c3 a3 s3", false],
  ["a2 s2 c3 c3again a3 s3", 2, "c3 c3again a3 s3", false],
  ["a2 s2 c3 a3", 1, "a2 s2", true],
  // The answer itself was lost: what was asked for on its word was not begun, or it would be durable.
  ["a3 s3", 1, "", true],
];

for (const [journal, recorded, open, mixed] of grid) {
  test(`of [${journal}] after step ${recorded} is open: [${open}]`, () => {
    const entries = journal.split(" ").filter(Boolean).map(entry);
    expect(
      openStep(entries, recorded)
        .map(({ ts }) => ts)
        .join(" "),
    ).toBe(open);
    expect(isMixed(entries, recorded)).toBe(mixed);
  });
}
