/** Formats one job for people. */

import { formatDuration, MAX_AGE_MS, parseDuration } from "../../lib/duration.ts";
import { localZone } from "../../lib/time-zone.ts";
import {
  type HookAddress,
  JOB_OPTIONS,
  type JobInfo,
  type JobOption,
  type JobTrigger,
} from "../../plugin/index.ts";
import { formatCost, formatCount, printable } from "../output/format.ts";
import type { Style } from "../output/style.ts";
import { distance, instantText, triggerText, zoneOf } from "./when.ts";

/** The schedule, and each of the next instants in the job's zone and in this machine's. */
export function nextLines({ trigger }: JobInfo, next: readonly string[], style: Style): string {
  const zone = zoneOf(trigger);
  const head = printable(scheduleText(trigger));
  if (next.length === 0) return `  ${head}\n`;
  const now = Date.now();
  const here = localZone();
  const lines = next.map((iso) => {
    const local = zone === here ? "" : `, here ${instantText(iso, here)}`;
    return `  ${instantText(iso, zone)}  ${style.dim(`${distance(iso, now)}${local}`)}`;
  });
  return `  ${head}\n${lines.join("\n")}\n`;
}

function scheduleText(trigger: JobTrigger): string {
  return `${triggerText(trigger)}${"tz" in trigger && trigger.tz ? ` (${trigger.tz})` : ""}`;
}

/** Its state, and why. */
export function stateText({ state, reason }: JobInfo): string {
  if (reason === null) return state;
  return reason.startsWith(state) ? printable(reason) : `${state}: ${printable(reason)}`;
}

/** Everything that was set, as "name value" pairs. */
export function jobFields(job: JobInfo): [string, string][] {
  const { creator, run, retry, deliver = [] } = job;
  const given = new Map<string, unknown>(Object.entries(job));
  const policies = [
    ...Object.entries<JobOption>(JOB_OPTIONS).map(
      ([name, { policy }]) => policy && given.has(name) && `${name.replaceAll("_", " ")} ${given.get(name)}`,
    ),
    retry && `retry ${retry.max}, ${short(retry.from)}..${short(retry.to)}${retry.safe ? ", safe" : ""}`,
    job.pause_after !== undefined && `pause after ${job.pause_after === 0 ? "never" : job.pause_after}`,
    job.continue && "one conversation",
  ];
  const day = [
    job.budget_per_day && `${formatCount(job.budget_per_day)} tokens`,
    job.max_cost_per_day && formatCost(job.max_cost_per_day),
    job.shared_budget && sharedText(job.shared_budget),
  ];
  const each = [
    typeof run.context_budget === "number" && `${formatCount(run.context_budget)} tokens`,
    typeof run.max_cost === "number" ? formatCost(run.max_cost) : run.max_cost,
    run.max_steps !== undefined && `${run.max_steps} steps`,
    typeof run.timeout_ms === "number" && formatDuration(run.timeout_ms),
  ];
  const pairs: [string, string | undefined][] = [
    ["intent", job.intent],
    ["schedule", scheduleText(job.trigger)],
    ["state", stateText(job)],
    ["project", job.project],
    ["made by", creator.kind === "user" ? undefined : `run ${creator.uuid} (${creator.agent})`],
    ["agent", text(run.agent)],
    ["model", [run.provider, run.model].map(text).filter(Boolean).join(" ") || undefined],
    ["folder", run.cwd === job.project ? undefined : text(run.cwd)],
    ["checks", Array.isArray(run.check) ? run.check.join("; ") : undefined],
    ["each run", joined(each)],
    ["each day", joined(day)],
    ["policies", joined(policies)],
    ["if", job.if && `${job.if}${job.if_input ? " (its output is the input)" : ""}`],
    ["deliver", deliver.map(({ to, when }) => `${to} (${when})`).join("\n") || undefined],
    ["on failure", job.on_failure],
    ["on silence", job.expect_every && `${job.on_silence ?? "-"} (expected every ${job.expect_every})`],
    ["hook", job.hook && hookText(job.hook)],
    ["expires", job.expires_at && instantText(job.expires_at, localZone())],
  ];
  return pairs.flatMap(([name, value]) => (value ? [[name, printable(value)] as [string, string]] : []));
}

/** The budget that a job shares with all others that runs made. */
export function sharedText({ tokens_used, tokens }: NonNullable<JobInfo["shared_budget"]>): string {
  const limit = tokens === null ? "" : ` of ${formatCount(tokens)}`;
  return `${formatCount(tokens_used)}${limit} tokens used today by all jobs that runs made here`;
}

/** How an event is sent to a hook. */
export function hookText({ fifo, url, secret }: HookAddress): string {
  const posted = url === null ? "" : `\ncurl -H "Authorization: Bearer ${secret}" --data-binary @- ${url}`;
  return `echo "…" > ${fifo}${posted}`;
}

function joined(parts: readonly unknown[]): string | undefined {
  return parts.filter((part) => typeof part === "string").join(", ") || undefined;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function short(duration: string): string {
  return formatDuration(parseDuration(duration, MAX_AGE_MS));
}
