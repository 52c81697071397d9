import type { JournalEntry, ProcInfo, StepRecord, SyscallEventWire } from "../../src/store/schema.ts";

export const USAGE = { input_tokens: 1, output_tokens: 2, cached_tokens: 0 };
export const TS = "2026-11-20T00:00:00.000Z";

export function answer(step: number, text = "hällo"): JournalEntry {
  return { t: "answer", v: 1, step, ts: TS, message: { role: "assistant", content: text }, usage: USAGE };
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

export function procInfo(uuid: string, more: Partial<ProcInfo> = {}): ProcInfo {
  return {
    v: 1,
    pid: 7,
    ppid: 0,
    uuid,
    parent_uuid: null,
    origin_uuid: null,
    state: "running",
    intent: "test",
    agent: "default",
    skills: [],
    provider: "replay",
    model: "m",
    project: "/p",
    cwd: "/p",
    ctx_id: 1,
    steps: 0,
    max_steps: null,
    tokens_used: 0,
    usage: USAGE,
    cost_usd: null,
    context_budget: null,
    max_cost: null,
    timeout_ms: null,
    allowed_devices: [],
    allowed_tools: [],
    permissions: { allow: [["*"]], deny: [] },
    sandbox: "none",
    created_at_ms: 1,
    ended_at_ms: null,
    elapsed_ms: 0,
    is_paused: false,
    paused_at_ms: 0,
    result: null,
    partial: false,
    exit_code: null,
    exit_reason: null,
    error: null,
    checks: [],
    tool_calls: 0,
    files_changed: [],
    files_changed_complete: true,
    children: [],
    versions: {},
    kernel: "k",
    env: { names: [], values: {} },
    ...more,
  };
}
