/** Questions of runs, as `rnix asks` lists them and a terminal shows them. */

import { z } from "zod";
import type { TerminalSession } from "../../support/terminal.ts";
import { until } from "../../support/until.ts";
import type { Machine } from "./machine.ts";

const Question = z.looseObject({
  request_id: z.string(),
  pid: z.number(),
  uuid: z.string(),
  depth: z.number(),
  state: z.string(),
  /** Of a permission. */
  call: z.object({ tool: z.string(), subject: z.string(), rules: z.array(z.string()) }).nullable(),
  until_ms: z.number().nullable(),
  asked_at_ms: z.number(),
});
type Question = z.infer<typeof Question>;

/** What is typed sooner than this after a question appears answers nothing. */
const DEAF_MS = 1_100;

export async function questions(machine: Machine): Promise<Question[]> {
  return z.array(Question).parse(await machine.json(["asks", "--json"]));
}

/** Waits for a question, other than `before`. */
export async function theQuestion(machine: Machine, before = ""): Promise<Question> {
  let found: Question | undefined;
  await until(async () => {
    found = (await questions(machine)).find(({ request_id }) => request_id !== before);
    return found !== undefined;
  }, "a question");
  if (found === undefined) throw new Error("no question");
  return found;
}

/** Waits until a question that is shown takes what is typed. */
export async function takesKeys(terminal: TerminalSession, shown = /answer \(/): Promise<string> {
  const text = await terminal.until(shown);
  await Bun.sleep(DEAF_MS);
  return text;
}

/** A command at a terminal that prints plain lines. */
export function plainTerminal(machine: Machine, args: string[]): TerminalSession {
  return machine.terminal(args, { columns: 100, rows: 40, env: { NO_COLOR: "1", CI: undefined } });
}
