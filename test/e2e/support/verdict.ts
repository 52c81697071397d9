import { expect } from "bun:test";
import { join } from "node:path";
import { z } from "zod";
import { TaintRecord } from "../../../src/run/process-schema.ts";
import { CheckResult, ChildResult, ProcInfo, Usage } from "../../../src/store/runs/schema.ts";
import { textOf } from "./leftovers.ts";
import type { Machine, RunOptions } from "./machine.ts";
import type { Running } from "./running.ts";

/** What `--output json` prints, to the letter (interfaces §1): a field more or less is a breaking change. */
export const Receipt = z.strictObject({
  pid: z.int(),
  uuid: z.string(),
  agent: z.string(),
  provider: z.string(),
  model: z.string(),
  exit_code: z.int(),
  exit_reason: z.string(),
  /** Not in the table either: the time at which a suspended run resumes (design §2, "Waiting"). */
  suspended: ProcInfo.unwrap().shape.suspended.unwrap(),
  result: z.string().nullable(),
  /** Not in the table, but asked for by "partial text is kept and marked as partial" (design §2). */
  partial: z.boolean(),
  output: z.null(),
  steps: z.int(),
  tool_calls: z.int(),
  tokens_used: z.int(),
  usage: Usage.strict(),
  cost_usd: z.number().nullable(),
  elapsed_ms: z.number(),
  /** What was left out at the start, such as parts of an untrusted project. */
  notices: z.array(z.string()),
  checks: z.array(CheckResult.strict()),
  sandbox: z.string(),
  program_limits: z.string(),
  taint: TaintRecord.nullable(),
  base: z.strictObject({ ref: z.string(), commit: z.string() }).nullable(),
  files_changed: z.array(z.string()),
  files_changed_complete: z.boolean(),
  units_at_end: z.object({ on_units: z.enum(["wait", "park", "kill"]), ids: z.array(z.string()) }).optional(),
  children: z.array(ChildResult.strict()),
  error: z.strictObject({ code: z.string(), message: z.string() }).nullable(),
});
export type Receipt = z.infer<typeof Receipt>;

/** The receipt that a command with `--output json` has printed. */
export function receiptOf({ stdout }: { stdout: string }): Receipt {
  return Receipt.parse(JSON.parse(stdout));
}

interface Verdict {
  receipt: Receipt;
  /** The record on disk. */
  info: ProcInfo;
  stderr: string;
  ms: number;
}

/**
 * Spawns with `--output json` and expects what holds for every run: stdout is one receipt and nothing else, the exit
 * code, the receipt and the record on disk agree, and no process of the run is left.
 */
export async function verdict(machine: Machine, args: string[], options?: RunOptions): Promise<Verdict> {
  const { stdout, stderr, code, ms } = await machine.run(["spawn", "--output", "json", ...args], options);
  const receipt = Receipt.parse(JSON.parse(stdout));
  expect(stdout.trimEnd()).not.toContain("\n");
  expect(receipt.exit_code).toBe(code);
  const info = recordOf(machine, receipt.uuid);
  expect(pick(info)).toEqual(pick(receipt));
  expect(machine.strays()).toEqual([]);
  return { receipt, info, stderr, ms };
}

/** `rnix spawn --output json` that ends before there is a run: no PID, nothing spent, nothing on disk. */
export async function refusal(
  machine: Machine,
  args: string[],
  options?: RunOptions,
): Promise<{ receipt: Receipt; stderr: string }> {
  const { stdout, stderr, code } = await machine.run(["spawn", "--output", "json", ...args], options);
  const receipt = Receipt.parse(JSON.parse(stdout));
  expect(receipt).toMatchObject({
    exit_code: code,
    pid: 0,
    uuid: "",
    steps: 0,
    tokens_used: 0,
    result: null,
  });
  expect(machine.has(".rnix/data/steps")).toBe(false);
  expect(machine.strays()).toEqual([]);
  return { receipt, stderr };
}

/** The UUID of a followed run, as its command prints it, which may be later than the run's first effects. */
export async function uuidOf({ stderr }: Running): Promise<string> {
  return (await stderr.has(/process \d+ {2}\S+(?=\s)/)).replace(/.* /, "");
}

/** Reads a document that its writer may be replacing: the older version may disappear during the read. */
export function recordOf(machine: Machine, uuid: string): ProcInfo {
  const path = join(".rnix/data/steps", uuid, "proc-info.json");
  for (let look = 0; look < LOOKS; look++) {
    for (const file of [path, `${path}.before`]) {
      const text = textOf(join(machine.project, file));
      if (text !== undefined) return ProcInfo.parse(JSON.parse(text));
    }
  }
  throw new Error(`run ${uuid} has no ${path}`);
}

const LOOKS = 20;

function pick({
  pid,
  exit_code,
  exit_reason,
  result,
  partial,
  error,
  checks,
  tokens_used,
}: Receipt | ProcInfo) {
  return { pid, exit_code, exit_reason, result, partial, error, checks, tokens_used };
}
