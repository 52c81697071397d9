/** Reads the head of a replay script: how to run it, and how it should end. */

import { extname, resolve } from "node:path";
import { z } from "zod";
import { readText } from "../../config/files/file.ts";
import { parseYaml } from "../../config/files/yaml.ts";
import { usageError } from "../exit.ts";
import type { Io } from "../io.ts";
import { LARGEST_SCRIPT } from "./export.ts";

const Limit = z.union([z.number().int().positive(), z.literal("unlimited")]);
const Text = z.union([z.string().min(1), z.array(z.string().min(1)).min(1)]);
const Call = z.string().regex(/^\S+( (done|failed|denied|cancelled))?$/, {
  error: "is no call: write the tool's name, or its name and done, failed, denied or cancelled",
});
const Pattern = z.string().refine(isPattern, { error: "is no regular expression" });

/**
 * The part of a script that the command reads. The driver (plugins/replay/script.ts) reads the rest, and the CLI may
 * not import it. test/cli/replay.test.ts checks that both accept the same fields.
 */
export const Head = z.looseObject({
  intent: z.string().optional(),
  agent: z.string().optional(),
  input: z.string().optional(),
  checks: z.array(z.string()).optional(),
  check_attempts: z.number().int().positive().optional(),
  system_prompt: z.string().optional(),
  allow: z.array(z.string()).optional(),
  deny: z.array(z.string()).optional(),
  folders: z.array(z.string()).optional(),
  output_schema: z.record(z.string(), z.unknown()).optional(),
  limits: z
    .object({ max_steps: Limit.optional(), context_budget: Limit.optional(), timeout_ms: Limit.optional() })
    .optional(),
  outcome: z
    .looseObject({
      exit_code: z.number().int().optional(),
      exit_reason: z.string().optional(),
      result: z
        .union([
          z.string(),
          z.strictObject({
            equals: z.string().optional(),
            contains: Text.optional(),
            lacks: Text.optional(),
            matches: Pattern.optional(),
          }),
        ])
        .optional(),
      tool_calls: z.array(Call).optional(),
      absent: z.array(z.string().min(1)).optional(),
    })
    .optional(),
});
type Head = z.infer<typeof Head>;
export type ExpectedEnd = NonNullable<Head["outcome"]>;

export interface ScriptRun extends Head {
  /** Absolute. */
  file: string;
  intent: string;
}

const FORMS = [".yaml", ".yml", ".json", ".jsonl", ".ndjson"];

/** Reads how to run the script. Fails with INVALID if it has no intent. */
export async function scriptHead(io: Io, path: string): Promise<ScriptRun> {
  const file = resolve(io.cwd, path);
  const form = extname(file);
  if (!FORMS.includes(form)) throw usageError(`${path}: a script ends in ${FORMS.join(", ")}`);
  const text = readText(file, LARGEST_SCRIPT);
  if (text === null) throw usageError(`there is no script ${path}`);
  const lines = form === ".jsonl" || form === ".ndjson";
  // JSON is parsed as YAML, which gives the positions of errors. Of JSONL, the first line that is not blank.
  const { value } = await parseYaml(Head, lines ? (/^\s*.*/.exec(text)?.[0] ?? "") : text, file, {
    maxBytes: LARGEST_SCRIPT,
  });
  if (value.intent === undefined || value.intent.trim() === "") {
    throw usageError(
      `${path} has no intent: add one (intent: …), or play it with rnix spawn --provider replay --model ${path} "INTENT"`,
    );
  }
  return { ...value, file, intent: value.intent };
}

function isPattern(text: string): boolean {
  try {
    return new RegExp(text, "m") instanceof RegExp;
  } catch (error) {
    if (error instanceof SyntaxError) return false;
    throw error;
  }
}
