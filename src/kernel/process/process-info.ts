/** The process record, as files and clients see it. */

import { limitsNamed, recordedOptions } from "../../options/option-list.ts";
import { RUN_OPTIONS } from "../../options/run-options.ts";
import { limitsText } from "../../os/program-group.ts";
import type { OpenAsk } from "../../run/ask-schema.ts";
import type { ChildResult, ProcInfo, ProviderFacts } from "../../store/runs/schema.ts";
import type { ProviderChoice, Suspension, Wake } from "../types.ts";
import type { Process } from "./process.ts";
import { isSuspended } from "./process-spec.ts";

/** The process as proc-info.json and the protocol show it. */
export function procInfoOf(proc: Process): ProcInfo {
  const { spec, exit } = proc;
  const given = new Set(spec.opts.envGiven ?? []);
  return {
    v: 1,
    pid: proc.pid,
    ppid: proc.family.ppid,
    uuid: proc.uuid,
    kind: spec.kind,
    parent_uuid: spec.parentUuid,
    origin_uuid: spec.originUuid,
    state: exit?.reason === "suspended" ? "suspended" : proc.state,
    intent: spec.intent,
    agent: spec.agent.name,
    skills: proc.conversation.skills.map((skill) => skill.name),
    provider: proc.model.provider.name,
    model: proc.model.provider.model,
    provider_by_flag: proc.model.provider.byFlag ?? false,
    fallback: proc.model.fallbacks.map(({ name, model }) => ({ provider: name, model })),
    switches: proc.model.switches,
    effort: spec.opts.effort ?? null,
    project: spec.opts.project.home ?? spec.opts.project.dir,
    worktree: spec.opts.project.home === undefined ? null : spec.opts.project.dir,
    cwd: spec.opts.cwd,
    base: spec.opts.base ?? null,
    ctx_id: proc.conversation.id,
    steps: proc.run.step,
    steps_used: spec.budget.steps,
    tokens_used: proc.tokensUsed,
    usage: { ...proc.run.usage },
    cost_usd: proc.costUsd,
    ...limitsNamed((name) => spec.budget.limits[RUN_OPTIONS[name].limits]),
    options: recordedOptions(spec.opts, "options"),
    allowed_devices: proc.permissions.allowedDevices(),
    allowed_tools: proc.permissions.allowedTools(),
    permissions: proc.permissions.record(),
    sandbox: spec.opts.sandbox ?? "none",
    program_limits: limitsText(),
    created_at_ms: proc.createdAtMs,
    ended_at_ms: proc.endedAtMs,
    elapsed_ms: Math.round(proc.elapsedMs),
    is_paused: proc.paused,
    paused_at_ms: proc.pausedAtMs,
    result: proc.result.text,
    output: proc.result.output,
    partial: proc.result.partial,
    exit_code: exit?.code ?? null,
    exit_reason: exit?.reason ?? null,
    chat: spec.opts.chat ?? false,
    attended: spec.opts.attended ?? false,
    suspended: exit?.suspended ? suspensionOf(exit.suspended, proc) : null,
    asks: [...proc.asks.values()],
    resume_on_restart: spec.opts.resume_on_restart ?? false,
    supervised: spec.opts.supervised ?? null,
    job: spec.opts.job ?? null,
    workflow: spec.opts.workflow ?? (spec.opts.script ? { name: spec.opts.script.name } : null),
    provider_facts: spec.kind === "agent" ? providerFacts(proc.model.provider) : null,
    groups: [...proc.groups],
    earlier_pids: earlierPids(spec.progress?.before),
    crashes: spec.progress?.before?.crashes ?? null,
    error: exit?.error ? { code: exit.error.code, message: exit.error.message } : null,
    // Also of earlier processes of the run; the latest if there are many.
    notices: [...new Set([...(proc.spec.progress?.before?.notices ?? []), ...proc.notices])].slice(
      -NOTICES_KEPT,
    ),
    checks: proc.result.checks,
    tool_calls: proc.run.toolCalls,
    acted: proc.run.acted,
    files_changed: [...proc.result.filesChanged].sort(),
    files_changed_complete: proc.result.filesChangedComplete,
    // Parallel children end in any order. A UUID begins with the time of the spawn.
    children: [...suspendedChildren(proc), ...proc.family.results].sort((a, b) => (a.uuid < b.uuid ? -1 : 1)),
    ...(proc.run.heldBy && { units_at_end: proc.run.heldBy }),
    versions: { rnix: spec.version, ...spec.opts.devices.versions },
    kernel: spec.kernelId,
    env: {
      names: [...new Set([...Object.keys(spec.opts.env), ...(spec.opts.envHad ?? [])])].sort(),
      values: Object.fromEntries(
        Object.entries(spec.opts.env).filter(
          ([name]) => RECORDED_VARIABLES.has(name) || name.startsWith("LC_") || given.has(name),
        ),
      ),
    },
  };
}

/** The facts of a process that never change. */
export type ProcessIdentity = Pick<ProcInfo, "pid" | "uuid" | "kind" | "agent" | "project" | "chat" | "job">;

export function identityOf({ pid, uuid, spec: { kind, agent, opts } }: Process): ProcessIdentity {
  const { project, chat = false, job = null } = opts;
  return { pid, uuid, kind, agent: agent.name, project: project.home ?? project.dir, chat, job };
}

const NOTICES_KEPT = 50;

/** A run that is suspended again and again gets a PID each time. */
const PIDS_KEPT = 100;

/** Former PIDs, oldest first. */
function earlierPids(before: ProcInfo | undefined): number[] {
  return before ? [...before.earlier_pids, before.pid].slice(-PIDS_KEPT) : [];
}

/** Children that were suspended with the run and are not resumed yet. */
function suspendedChildren({ spec, family }: Process): ChildResult[] {
  const ended = new Set(family.results.map(({ uuid }) => uuid));
  return (spec.progress?.counted ?? []).filter((child) => isSuspended(child) && !ended.has(child.uuid));
}

/** A run that is suspended for another reason while it asks a person waits for the answer, too. */
function suspensionOf(
  { reason, cause, wake: given }: Suspension,
  { asks, spec }: Process,
): ProcInfo["suspended"] {
  const [ask] = asks.values();
  const waits = given.on === "never" || (given.on === "message" && spec.opts.chat === true);
  const wake: Wake = waits && ask ? answerWake(ask) : given;
  const by_itself = spec.wakes === true && isWoken(wake, spec.opts.chat);
  return { reason, cause, wake, ...(by_itself && { by_itself }) };
}

/** What resumes a run that is suspended while it asks. */
export function answerWake({ id, kind, until_ms, questions }: OpenAsk): Wake {
  return {
    on: "answer",
    id,
    ...(until_ms !== null && { until_ms }),
    ...(kind === "question" && { questions: questions.length }),
  };
}

/** Whether a waker resumes a run by itself. A chat waits for its user, whose message resumes it, unless it has set a time. */
export function isWoken(wake: Wake, chat = false): boolean {
  return wake.on !== "never" && !(chat && wake.on === "message" && wake.until_ms === undefined);
}

/** Variables whose values are recorded (design §2, "Environment"). */
const RECORDED_VARIABLES: ReadonlySet<string> = new Set(
  // The last is its trace, which a resume continues.
  "PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TERM TMPDIR PWD TRACEPARENT".split(" "),
);

/** The recorded facts of a run's provider, so that a resume can report changes. They contain no key. */
export function providerFacts({ device, config, contextWindow, maxOutput }: ProviderChoice): ProviderFacts {
  return {
    driver: device.slice(device.lastIndexOf("/") + 1),
    base_url: config.base_url === undefined ? null : withoutSecrets(config.base_url),
    context_window: contextWindow ?? null,
    max_output: maxOutput ?? null,
  };
}

/** Without user, password and query, which may be secret; null for an invalid URL. */
function withoutSecrets(address: string): string | null {
  if (!URL.canParse(address)) return null;
  const { protocol, host, pathname } = new URL(address);
  return `${protocol}//${host}${pathname}`;
}
