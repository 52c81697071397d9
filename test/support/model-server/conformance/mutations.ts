import { expect, test } from "bun:test";
import { SyscallError } from "../../../../src/plugin/index.ts";
import { seeded } from "../../seeded.ts";
import { ask } from "../device.ts";
import { dialects } from "../dialects/index.ts";
import { type HttpDriver, openDriver } from "./driver.ts";
import type { Findings } from "./findings.ts";

export const MUTATIONS =
  "200 streams, each damaged in another way: an answer or a typed error, and nothing else";

const TURN = {
  reasoning: "hm, 42",
  text: "Let me look at ä and 🎉",
  tool_calls: [
    { id: "call_a", name: "Bash", input: { command: "ls" } },
    { id: "call_b", name: "Bash", input: { command: "pwd" } },
  ],
};

/** A damaged stream never hangs, never throws anything but a SyscallError, and cut short never is an answer. */
export function describeMutations(driver: HttpDriver, findings: Findings): void {
  test(MUTATIONS, async () => {
    let next = { text: "", isCut: false };
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: () => new Response(next.text, { headers: { "content-type": "text/event-stream" } }),
    });
    const unhandled: unknown[] = [];
    const note = (error: unknown) => unhandled.push(error);
    process.on("unhandledRejection", note);
    try {
      const file = await openDriver(driver, `http://127.0.0.1:${server.port}`);
      let answers = 0;
      for (let seed = 1; seed <= 200; seed++) {
        next = damaged(driver, seeded(seed));
        const outcome = await ask(file, { stream: true }).catch((error: unknown) => error);
        if (outcome instanceof SyscallError) continue;
        expect(outcome, `seed ${seed}: ${next.text}`).toMatchObject({
          answer: { content: expect.any(String) },
        });
        expect(next.isCut, `seed ${seed}: an answer without its end is none: ${next.text}`).toBe(false);
        answers++;
      }
      await file.close();
      expect([answers > 20, answers < 180], `${answers} of them were answers`).toEqual([true, true]);
      expect(unhandled).toEqual([]);
    } finally {
      process.off("unhandledRejection", note);
      await server.stop(true);
    }
    findings.note(MUTATIONS, driver.title, "streamed");
  });
}

function damaged(driver: HttpDriver, random: () => number): { text: string; isCut: boolean } {
  const frames = framesOf(driver);
  const at = Math.floor(random() * frames.length);
  const other = Math.floor(random() * frames.length);
  const kind = Math.floor(random() * 7);
  const text = frames.join("");
  const place = Math.floor(random() * text.length);
  switch (kind) {
    case 0:
      return { text: frames.toSpliced(at, 1).join(""), isCut: false };
    case 1:
      return { text: frames.toSpliced(other, 0, frames[at] ?? "").join(""), isCut: false };
    case 2:
      return {
        text: frames
          .toSpliced(at, 1)
          .toSpliced(other, 0, frames[at] ?? "")
          .join(""),
        isCut: false,
      };
    case 3:
      // Before anything that could be its end.
      return { text: text.slice(0, Math.floor(place / 2)), isCut: true };
    case 4:
      return { text: text.slice(0, place) + JUNK[at % JUNK.length] + text.slice(place + 1), isCut: false };
    case 5:
      return { text: `${text.slice(0, place)}${text.slice(place + Math.ceil(random() * 40))}`, isCut: false };
    default:
      return {
        text: frames.toSpliced(at, 0, `data: ${JUNK[other % JUNK.length]}\n\n`).join(""),
        isCut: false,
      };
  }
}

const JUNK = [
  "\u0000",
  '"',
  "{",
  "}",
  "null",
  "[]",
  "1e999",
  '{"a":',
  "\n",
  "\n\n",
  "data: ",
  '{"type":"x"}',
];

function framesOf({ path }: HttpDriver): string[] {
  const asked = path.endsWith(":") ? `${path}streamGenerateContent` : path;
  const dialect = dialects.find((one) => one.asked(asked) !== undefined);
  if (dialect === undefined) throw new Error(`no protocol has the path ${asked}`);
  return dialect.stream(TURN, { index: 0, model: "scripted" }).frames;
}
