import type { ListedProc } from "../../src/protocol/methods.ts";
import { statusOf } from "../../src/server/methods/shared/listed-proc.ts";
import type { ProcInfo } from "../../src/store/runs/schema.ts";

/** A process that has just begun; `more` is what a test is about. */
export function procInfo(more: Partial<ProcInfo> = {}): ProcInfo {
  return {
    v: 1,
    pid: 1,
    ppid: 0,
    uuid: "u1",
    kind: "agent",
    parent_uuid: null,
    origin_uuid: null,
    state: "running",
    intent: "do it",
    agent: "default",
    skills: [],
    provider: "openai",
    model: "m",
    project: "/project",
    cwd: "/project",
    base: null,
    ctx_id: 1,
    steps: 0,
    max_steps: 100,
    tokens_used: 0,
    usage: { input_tokens: 0, output_tokens: 0, cached_tokens: 0 },
    cost_usd: null,
    context_budget: null,
    max_cost: null,
    timeout_ms: 3_600_000,
    allowed_devices: [],
    allowed_tools: ["*"],
    permissions: { allow: [["*"]], deny: [] },
    sandbox: "none",
    created_at_ms: 1_767_225_600_000,
    ended_at_ms: null,
    elapsed_ms: 0,
    is_paused: false,
    paused_at_ms: 0,
    result: null,
    partial: false,
    exit_code: null,
    exit_reason: null,
    suspended: null,
    chat: false,
    asks: [],
    resume_on_restart: false,
    supervised: null,
    job: null,
    provider_by_flag: false,
    fallback: [],
    switches: [],
    provider_facts: null,
    groups: [],
    earlier_pids: [],
    crashes: null,
    effort: null,
    output: null,
    error: null,
    notices: [],
    checks: [],
    tool_calls: 0,
    files_changed: [],
    files_changed_complete: true,
    children: [],
    versions: { rnix: "0.1.0" },
    kernel: "k",
    env: { names: [], values: {} },
    ...more,
  };
}

/** As the server lists it. */
export function listedProc(more: Partial<ListedProc> = {}): ListedProc {
  const info = procInfo(more);
  return { ...info, status: statusOf(info), doing: null, ...more };
}
