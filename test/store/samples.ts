import type { JournalEntry, StepRecord, SyscallEventWire } from "../../src/store/runs/schema.ts";

const USAGE = { input_tokens: 1, output_tokens: 2, cached_tokens: 0 };
const TS = "2026-11-20T00:00:00.000Z";

export function answer(step: number, text = "hällo") {
  const message = { role: "assistant", content: text } as const;
  return { t: "answer", v: 1, step, ts: TS, message, usage: USAGE } satisfies JournalEntry;
}

export function callStart(step: number): JournalEntry {
  return {
    t: "call_start",
    step,
    ts: TS,
    id: `c${step}`,
    name: "Bash",
    path: "/dev/shell",
    input: { command: "true" },
    safe: false,
  };
}

export function callEnd(step: number) {
  return {
    t: "call_end",
    step,
    ts: TS,
    call: {
      id: `c${step}`,
      name: "ReadMessages",
      path: "/dev/kernel/read_messages",
      input: {},
      result: "",
      error: null,
      error_code: null,
      started_at: TS,
      duration_ms: 1,
      state: "done",
    },
  } satisfies JournalEntry;
}

export function stepRecord(step: number, text = "hällo"): StepRecord {
  return {
    v: 1,
    step,
    ts: TS,
    messages: [{ role: "assistant", content: text }],
    raw_response: text,
    action: "text",
    summary: text,
    tool_calls: [],
    usage: USAGE,
    tokens_used: 3,
  };
}

export function event(syscall: string, at = 1): SyscallEventWire {
  return { timestamp_ms: at, pid: 7, syscall, args: { fd: 3 }, result: 1, duration_ms: 0.1 };
}
