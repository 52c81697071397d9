/** Converts a recorded run to a replay script. */

import { defaultSettings } from "../../config/settings/settings.ts";
import type { ProcInfo } from "../../kernel/types.ts";
import { attemptsOf } from "../../lib/check-attempts.ts";
import type { ScriptEntry, ScriptHead } from "../../protocol/methods.ts";
import type { StepRecord, ToolCallRecord } from "../../store/runs/schema.ts";
import type { PlayedSteps } from "./played-steps.ts";
import type { Run } from "./recorded-run.ts";

/** Characters of a result that a script holds whole; of a longer one it holds the beginning and the end. */
const WHOLE = 2_000;
const PART = 600;

/** The head of the script (docs/replay.md). It contains nothing of the run's environment. */
export async function scriptHead(
  { info, records }: Run,
  { end, hasResult }: PlayedSteps,
): Promise<ScriptHead> {
  const spawned = (await records.meta(info.uuid))?.spawned;
  const attempts = attemptsOf(info.checks);
  return {
    intent: info.intent,
    agent: info.agent,
    ...(spawned?.input && { input: spawned.input }),
    ...(spawned && spawned.checks.length > 0 && { checks: [...spawned.checks] }),
    ...(attempts > 1 && { check_attempts: attempts }),
    ...(spawned?.system_prompt && { system_prompt: spawned.system_prompt }),
    ...(info.permissions.fixed && { allow: info.permissions.allow[0] ?? [] }),
    ...(info.permissions.deny.length > 0 && { deny: info.permissions.deny }),
    ...(spawned && spawned.folders.length > 0 && { folders: spawned.folders }),
    ...(spawned?.output_schema && { output_schema: spawned.output_schema }),
    ...limits(info),
    recorded: {
      uuid: info.uuid,
      at: new Date(info.created_at_ms).toISOString(),
      cwd: info.cwd,
      project: info.project,
    },
    outcome: {
      ...(end.exit_code !== null && { exit_code: end.exit_code }),
      ...(end.exit_reason !== null && { exit_reason: end.exit_reason }),
      ...(hasResult && end.result && end.result.length <= WHOLE && { result: { equals: end.result } }),
    },
  };
}

/** Values that differ from the defaults. */
function limits(info: ProcInfo): Pick<ScriptHead, "limits"> {
  const defaults = defaultSettings().values;
  const own = (["max_steps", "context_budget", "timeout_ms"] as const)
    .map((name) => [name, info[name]] as const)
    .filter(([name, limit]) => limit !== defaults[name === "timeout_ms" ? "timeout" : name]);
  if (own.length === 0) return {};
  return { limits: Object.fromEntries(own.map(([name, limit]) => [name, limit ?? "unlimited"])) };
}

/** The script's entry for a step: the model's answer and the expected results of its calls. */
export function scriptEntry({
  messages,
  tool_calls,
  usage,
  reasoning,
  stop_reason,
  stop_word,
}: StepRecord): ScriptEntry {
  const said = messages.findLast(({ role }) => role === "assistant");
  const results = new Map(tool_calls.map((call) => [call.id, call]));
  const calls = (said?.tool_calls ?? []).map(({ opaque: _, ...call }) => {
    const expect = expected(results.get(call.id));
    return { ...call, ...(expect && { expect }) };
  });
  return {
    ...(reasoning && { reasoning }),
    ...((said?.content || calls.length === 0) && { text: said?.content ?? "" }),
    ...(calls.length > 0 && { tool_calls: calls }),
    ...(stop_reason && { stop_reason }),
    ...(stop_word && { stop_word }),
    usage,
  };
}

type Expected = NonNullable<NonNullable<ScriptEntry["tool_calls"]>[number]["expect"]>;

/** The result as the model saw it. A call that was cut off has none: its result is unknown. */
function expected(call: ToolCallRecord | undefined): Expected | undefined {
  if (call === undefined || !["done", "failed", "denied"].includes(call.state)) return undefined;
  const more = call.result ? `\n${call.result}` : "";
  const text = call.error === null ? (call.result ?? "") : `Error ${call.error_code}: ${call.error}${more}`;
  if (text.length <= WHOLE) return { equals: text };
  const parts = [beginning(text), ending(text)].filter((part) => part !== "");
  return { ...(call.error_code !== null && { error: call.error_code }), contains: parts };
}

/** Returns the first characters of the text, cut at the end of a line if possible. */
function beginning(text: string): string {
  const part = text.slice(0, PART);
  const end = part.lastIndexOf("\n");
  return end > 0 ? part.slice(0, end) : part;
}

function ending(text: string): string {
  const part = text.slice(-PART);
  const start = part.indexOf("\n");
  return start >= 0 && start < part.length - 1 ? part.slice(start + 1).trimEnd() : part;
}
