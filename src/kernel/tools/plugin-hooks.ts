/** The hooks of plugins that a process has: the parts of its prompt, and what they say about changed files. */

import { orAborted, withDeadline } from "../../lib/clock.ts";
import { messageOf } from "../../lib/error-detail.ts";
import { type OpenContext, type PromptPart, SyscallError } from "../../plugin/index.ts";
import type { DeviceEntry } from "../../vfs/namespace.ts";
import { namedError } from "../errors/kernel-errors.ts";
import type { Process } from "../process/process.ts";
import type { HookSource } from "../types.ts";
import { usableTools } from "./tool-catalog.ts";

export type MakeContext = (
  proc: Process,
  entry: DeviceEntry,
  as: { kind: "kernel" },
  access: OpenContext["access"],
) => OpenContext;

/** The plugins with this hook and a tool that the process may use, in the order of their names. */
export function hooksOf(proc: Process, hook: "prompt" | "filesChanged"): HookSource[] {
  const sources = (proc.spec.opts.devices.hooks ?? []).filter((source) => source[hook]);
  if (sources.length === 0) return [];
  const entries = [...usableTools(proc).values()].map(({ entry }) => entry);
  return sources
    .filter(({ plugin, layer }) => entries.some((one) => one.plugin === plugin && one.layer === layer))
    .toSorted((a, b) => (a.plugin < b.plugin ? -1 : 1));
}

/** The context of a hook is that of an open file, and this is no device. */
export function hookContext(proc: Process, source: HookSource, make: MakeContext): OpenContext {
  const { plugin, isStock, layer, needs, secrets, config } = source;
  const factory = (): never => {
    throw new SyscallError("INTERNAL", "A hook of a plugin was opened.");
  };
  const of = { plugin, isStock, layer, needs, secrets, config };
  const entry = { ...of, path: `hook of ${plugin}`, device: { factory } };
  return make(proc, entry, { kind: "kernel" }, noAccess);
}

/** Refuses every file: no rule of the process applies to a hook. */
async function noAccess(paths: readonly string[]): Promise<string[]> {
  return paths.map(() => "a hook of a plugin has no right to files of the process");
}

const DEADLINE_MS = 2_000;
const MAX_TITLE = 100;
const MAX_TEXT = 16_384;

/** The part of a plugin in a prompt head. */
export interface AskedPart extends PromptPart {
  plugin: string;
}

/**
 * The parts of the plugins with a tool that the process may use, in the order of the plugins' names. All are asked at the
 * same time. A part that can't be had is left out, with a notice for the user.
 */
export async function askPromptParts(
  proc: Process,
  makeContext: MakeContext,
): Promise<{ parts: AskedPart[]; notices: string[] }> {
  // A call of PID 0 gets the parts that a run in this project would have.
  const sources = proc.spec.kind === "agent" || proc.pid === 0 ? hooksOf(proc, "prompt") : [];
  const asked = await Promise.allSettled(sources.map((source) => ask(proc, source, makeContext)));
  const notices = asked.flatMap((one, at) =>
    one.status === "rejected" ? [leftOut(sources[at], namedError(one.reason, "prompt", proc.pid))] : [],
  );
  return { parts: asked.flatMap((one) => (one.status === "fulfilled" ? one.value : [])), notices };
}

async function ask(proc: Process, source: HookSource, makeContext: MakeContext): Promise<AskedPart[]> {
  const late = `it took more than ${DEADLINE_MS} ms`;
  const context = hookContext(proc, source, makeContext);
  const part = await withDeadline(proc.clock, proc.cancellation, DEADLINE_MS, late, (signal) =>
    orAborted(Promise.resolve(source.prompt?.(context, signal) ?? null), signal),
  );
  return part === null || part.text.trim() === "" ? [] : [checked(proc, source.plugin, part)];
}

function checked(proc: Process, plugin: string, { title, text }: PromptPart): AskedPart {
  if (title.trim() === "" || title.length > MAX_TITLE || /[\p{Cc}\p{Zl}\p{Zp}]/u.test(title))
    throw new SyscallError("INVALID", `its title must be one line of at most ${MAX_TITLE} characters`);
  if (text.length > MAX_TEXT)
    throw new SyscallError(
      "INVALID",
      `it has ${text.length} characters, and at most ${MAX_TEXT} are allowed`,
    );
  return { plugin, title: proc.secrets.hide(title), text: proc.secrets.hide(text) };
}

function leftOut(source: HookSource | undefined, { message }: SyscallError): string {
  return `The part of the plugin ${source?.plugin} in the prompt is left out: ${message.replace(/\.$/, "")}.`;
}

const CHANGES_MS = 5_000;
const MAX_NEWS = 8_192;

/**
 * Notifies plugins of the files that a step has changed, all at the same time, and gives the model their texts. What
 * fails or is late is logged: the changes were made.
 */
export async function notifyOfChanges(proc: Process, makeContext: MakeContext): Promise<void> {
  const files = [...proc.run.filesChanged];
  proc.run.filesChanged.clear();
  if (files.length === 0 || proc.stopped || proc.work.interrupted) return;
  await Promise.all(
    hooksOf(proc, "filesChanged").map(async (source) => {
      const context = hookContext(proc, source, makeContext);
      const late = `filesChanged took more than ${CHANGES_MS} ms`;
      try {
        const text = await withDeadline(proc.clock, proc.work.signal, CHANGES_MS, late, (signal) =>
          orAborted(Promise.resolve(source.filesChanged?.(files, context, signal) ?? null), signal),
        );
        if (text) await context.inbox(text.slice(0, MAX_NEWS));
      } catch (thrown) {
        context.log("info", messageOf(thrown));
      }
    }),
  );
}
