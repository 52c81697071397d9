/** Starts the mounts of a process before its first step. */

import { onceAborted } from "../../lib/clock.ts";
import { formatDuration } from "../../lib/duration.ts";
import { SyscallError } from "../../plugin/index.ts";
import { namedError } from "../errors/kernel-errors.ts";
import { mountPath, toolPrefix } from "../mount/mount-tables.ts";
import type { Process } from "../process/process.ts";
import type { Preparation } from "../process/process-spec.ts";
import { type RunOutcome, suspendedFor } from "../process/verdict.ts";
import type { Io } from "../tiers/io.ts";
import { maySearchTools } from "../tools/tool-catalog.ts";
import type { ExitReason, MountRequest } from "../types.ts";

/** A start is announced on the screen when it takes longer than this. */
const ANNOUNCE_MS = 1_000;

interface Begun {
  request: MountRequest;
  prefix: string;
  /** Resolves with the error of a mount that failed; never rejects. */
  ended: Promise<SyscallError | undefined>;
  state: "pending" | "ready" | "failed";
}

/**
 * Makes the mounts of a process before its first step: a server that is installed first may need a minute. The first
 * step waits for the required ones only, if the model can load the tools of the others with ToolSearch when it wants
 * them. If it can't, the first step waits for the others at most their `waitMs`; what is ready later is added to the run.
 */
export class StartMounts {
  readonly #parts: Io;

  constructor(parts: Io) {
    this.#parts = parts;
  }

  /** Returns an outcome if the process can't begin. */
  async prepare(proc: Process): Promise<RunOutcome | undefined> {
    const { preparation } = proc.toolset;
    if (!preparation) return undefined;
    let reason: ExitReason = "unavailable";
    try {
      const begun = preparation.mounts
        .filter((request) => isUseful(proc, request))
        .map((request) => this.#begin(proc, request));
      const notices = await this.#mount(proc, begun);
      reason = "usage";
      await this.#offer(proc, preparation, begun, notices);
      return undefined;
    } catch (thrown) {
      if (proc.stopped) return { kind: "stopped", status: proc.stopped };
      const error = namedError(thrown, "Mount", proc.pid);
      if (!preparation.resumes)
        return { kind: "broken", reason: error.code === "INVALID" ? "usage" : reason, error };
      const status = suspendedFor(error.message);
      proc.stop(status);
      return { kind: "stopped", status };
    }
  }

  /** Waits for the mounts, as long as the first step must. Returns notices for the user. */
  async #mount(proc: Process, begun: readonly Begun[]): Promise<string[]> {
    const { clock, mounts, watchers } = this.#parts;
    if (begun.length > 0) watchers.doing(proc, "start", `starting ${namesOf(begun)}`);
    const announced = new Set<Begun>();
    const startedAt = clock.monotonic();
    const announcing = clock.timer(ANNOUNCE_MS, () => {
      for (const one of begun.filter(({ state }) => state === "pending")) announced.add(one);
      if (announced.size > 0) watchers.notice(proc, `starting ${namesOf([...announced])} …`);
    });
    proc.toolset.starting = new Map(
      begun.map((one) => [
        one.prefix,
        { ended: one.ended, isPromised: !isLoadedLater(proc, one.request, one.prefix) },
      ]),
    );
    for (const { prefix, ended } of begun) {
      // A search for its tools names why it failed.
      void ended.then((error) =>
        error && isLater(proc, prefix) ? undefined : proc.toolset.starting.delete(prefix),
      );
    }
    try {
      await this.#wait(proc, begun);
      proc.signal.throwIfAborted();
    } catch (thrown) {
      await mounts.clear(proc);
      throw thrown;
    } finally {
      announcing.cancel();
    }
    const ready = [...announced].filter(({ state }) => state === "ready");
    const notices = await failuresOf(begun);
    if (ready.length === 0) return notices;
    const seconds = Math.round((clock.monotonic() - startedAt) / 1_000);
    return [...notices, `${namesOf(ready)} ready after ${formatDuration(seconds * 1_000)}`];
  }

  /** Shows the model the tools that are there. */
  async #offer(
    proc: Process,
    { mounts, finish }: Preparation,
    begun: readonly Begun[],
    notices: readonly string[],
  ): Promise<void> {
    const dropped = await this.#parts.mounts.dropUnusable(proc);
    const late = begun.filter(({ state }) => state === "pending");
    const ready = begun.filter(({ state }) => state === "ready").map(({ prefix }) => prefix);
    const missing = finish(mounts.map(toolPrefix).filter((prefix) => !ready.includes(prefix)));
    proc.toolset.preparation = undefined;
    for (const text of [...notices, ...dropped, ...missing]) this.#addNotice(proc, text);
    for (const one of late) void this.#announceEnd(proc, one);
    const promised = late.filter(({ prefix }) => proc.toolset.starting.get(prefix)?.isPromised);
    if (promised.length > 0) await this.#continueWithout(proc, promised);
  }

  #begin(proc: Process, request: MountRequest): Begun {
    const mounting = this.#parts.mounts.mount(proc.pid, request);
    const begun: Begun = {
      request,
      prefix: toolPrefix(request),
      state: "pending",
      ended: mounting.then(
        () => {
          begun.state = "ready";
          return undefined;
        },
        (thrown) => {
          begun.state = "failed";
          return namedError(thrown, "Mount", proc.pid);
        },
      ),
    };
    return begun;
  }

  /** Throws the error of the first required mount that fails. */
  async #wait(proc: Process, begun: readonly Begun[]): Promise<void> {
    const isOptional = ({ request }: Begun): boolean => request.required === false;
    const needed = begun.filter((one) => !isOptional(one));
    await Promise.all(
      needed.map(async ({ ended }) => {
        const error = await ended;
        if (error) throw error;
      }),
    );
    await Promise.all(begun.filter(isOptional).map((one) => this.#waitAWhile(one, proc)));
  }

  async #waitAWhile({ request, prefix, ended }: Begun, proc: Process): Promise<void> {
    const isShown = isLater(proc, prefix) && this.#parts.mounts.isOpen(proc, mountPath(request, proc.pid));
    if (isLater(proc, prefix) && !isShown) return;
    if (isShown || request.waitMs === undefined) return void (await ended);
    const over = Promise.withResolvers<undefined>();
    const timer = this.#parts.clock.timer(request.waitMs, () => over.resolve(undefined));
    const ignore = onceAborted(proc.signal, () => over.resolve(undefined));
    await Promise.race([ended, over.promise]);
    ignore();
    timer.cancel();
  }

  /** The run begins; these mounts are still being made. */
  async #continueWithout(proc: Process, late: readonly Begun[]): Promise<void> {
    this.#parts.watchers.notice(proc, `${namesOf(late)} will be ready later; the run begins without waiting`);
    const tools = late.map(({ prefix }) => `${prefix}*`).join(", ");
    await this.#notify(
      proc,
      `Still starting: ${namesOf(late)}. You are notified when the tools ${tools} are there. A call of one waits for its start.`,
    );
  }

  async #announceEnd(proc: Process, { request, prefix, ended }: Begun): Promise<void> {
    const isPromised = proc.toolset.starting.get(prefix)?.isPromised;
    const error = await ended;
    if (proc.stopped || proc.ending || proc.exit) return;
    if (!error) {
      if (isPromised) this.#parts.watchers.notice(proc, `${request.name} is ready`);
      return;
    }
    // The model is not notified: a message would make it answer again.
    this.#addNotice(proc, failureOf(request, error));
  }

  async #notify(proc: Process, text: string): Promise<void> {
    try {
      await this.#parts.notifyAsKernel(proc, text);
    } catch (thrown) {
      // A run that is about to end has closed its inbox.
      if (!(thrown instanceof SyscallError) || thrown.code !== "CLOSED") throw thrown;
    }
  }

  /** To clients that are attached, and to those that attach later. */
  #addNotice(proc: Process, text: string): void {
    proc.notices.push(text);
    this.#parts.watchers.notice(proc, text);
  }
}

function isLater({ toolset }: Process, prefix: string): boolean {
  return toolset.starting.get(prefix)?.isPromised === false;
}

/** Whether the first step does not wait for the mount, and the model loads its tools with ToolSearch. */
function isLoadedLater(proc: Process, { required, waitMs }: MountRequest, prefix: string): boolean {
  if (required !== false || !maySearchTools(proc)) return false;
  const { resumes, shown = [] } = proc.toolset.preparation ?? {};
  // A resumed run continues with the tools that its model was shown.
  if (resumes ? shown.some((name) => name.startsWith(prefix)) : waitMs === undefined) return false;
  const { namespace, opts } = proc.spec;
  // A program that acts as the model reads its list of tools once, at its start.
  return !opts.provider || !namespace.resolve(opts.provider.device).entry.needs.includes("tools");
}

/** A mount that is only offered is not made for a process that could use none of its tools. */
function isUseful(proc: Process, request: MountRequest): boolean {
  return (
    request.offered !== true ||
    proc.permissions.mayUseMount(toolPrefix(request), mountPath(request, proc.pid))
  );
}

async function failuresOf(begun: readonly Begun[]): Promise<string[]> {
  const failed = begun.filter(({ state }) => state === "failed");
  const errors = await Promise.all(
    failed.map(async ({ request, ended }) => ({ request, error: await ended })),
  );
  return errors.flatMap(({ request, error }) => (error ? [failureOf(request, error)] : []));
}

function failureOf({ type, name }: MountRequest, { message }: SyscallError): string {
  return `${type} ${name}: ${message}`;
}

function namesOf(begun: readonly Begun[]): string {
  return begun.map(({ request }) => request.name).join(", ");
}
