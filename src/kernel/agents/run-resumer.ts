/** Resumes a run from its record. */

import { failedCheck } from "../../lib/check-attempts.ts";
import { type ImageRef, SyscallError } from "../../plugin/index.ts";
import { requireOwn } from "../../store/runs/own-run.ts";
import { recordedUnits } from "../../store/runs/recorded-units.ts";
import type { MessageKey } from "../chat/chat-control.ts";
import { storeImages } from "../conversation/conversations.ts";
import { namedError } from "../errors/kernel-errors.ts";
import type { Process } from "../process/process.ts";
import type { ProcessManager } from "../process-manager.ts";
import { orphanedRecord } from "../resume/orphaned-record.ts";
import { hasEnded, readFork, readSavedRun, type SavedRun, switchesWith } from "../resume/saved-run.ts";
import type { Claim, StoredRunPorts } from "../resume/suspended-runs.ts";
import type { Processes } from "../tiers/processes.ts";
import type { AgentInfo, AttachedImage, PID, ProcInfo, SpawnOpts } from "../types.ts";

type RunResumerParts = Processes & StoredRunPorts & { processes: ProcessManager };

export interface ResumeOptions {
  /** A message of the user, for the model. */
  input?: string;
  images?: readonly AttachedImage[];
  /** By it, its sender deduplicates it. */
  key?: MessageKey;
  /**
   * Makes a new run that begins with the steps of this one, up to `step` or all that are recorded; this one does not
   * change. `adopt`: this one is foreign, and only its conversation is taken over.
   */
  fork?: { step?: number; adopt?: boolean };
}

export interface Resumed {
  pid: PID;
  /** The UUID of the run; for a fork, of the new run. */
  uuid: string;
  /** The last complete step. */
  step: number;
  /** The number of the user's message in its inbox, if there is one. */
  seq?: number;
}

/** Makes new processes for runs that have ended, were suspended or were interrupted. */
export class RunResumer {
  readonly #parts: RunResumerParts;

  constructor(parts: RunResumerParts) {
    this.#parts = parts;
  }

  /** See LifecycleManager.resume. */
  async resume(
    uuid: string,
    agent: AgentInfo | null,
    opts: SpawnOpts,
    o: ResumeOptions = {},
  ): Promise<Resumed> {
    let handedOn = false;
    let claim: Claim | undefined;
    try {
      const known = await this.#require(uuid, opts);
      if (!o.fork?.adopt) requireOwn(known);
      if (!o.fork) claim = await this.#parts.claims().take(uuid, opts.project.dataDir, "resume");
      const saved = await (o.fork
        ? this.#readFork(uuid, agent, opts, o.fork)
        : this.#read(uuid, agent, opts));
      const news = resumeMessage(saved, o.input);
      handedOn = true;
      let made = uuid;
      let seq: number | undefined;
      const pid = await this.#parts.processes.resume(saved, agent, opts, async (proc) => {
        made = proc.uuid;
        if (!saved.fork) this.#parts.runner.pendingRecords.forget(uuid);
        const chosen = proc.model.switches.slice(saved.info.switches.length);
        for (const one of chosen) proc.record.journal({ t: "switch", ...one });
        if (saved.info.moved_from !== undefined && saved.progress.answered === null)
          await this.#notify(proc, movedNews(saved.info, saved.info.moved_from));
        if (!saved.fork) await this.#notifyUndos(proc, opts);
        const images = await storeImages(proc.record, o.images);
        if (news) seq = await this.#notify(proc, news, images, o.key);
        // Before its first step: otherwise it might end before its children are resumed.
        if (!saved.fork) await this.#parts.events.resumed(proc, saved);
      });
      return { pid, uuid: made, step: saved.history.step, seq };
    } catch (thrown) {
      if (!handedOn) opts.devices.release();
      throw namedError(thrown, "Resume", 0);
    } finally {
      claim?.release();
    }
  }

  /** Resolves when a process that has ended is reaped and its record says how it ended. */
  async gone(proc: Process): Promise<void> {
    await proc.done;
    await this.#parts.runner.reap(proc);
    this.#parts.runner.pendingRecords.retry();
  }

  async #require(uuid: string, opts: SpawnOpts): Promise<ProcInfo> {
    const info = await this.#parts.runs(opts.project.dataDir).info(uuid);
    if (info) return info;
    throw noRun(uuid);
  }

  async #read(uuid: string, agent: AgentInfo | null, opts: SpawnOpts): Promise<SavedRun> {
    const { clock, table, runner, kernelAlive, sweepPrograms } = this.#parts;
    const here = table.findByUuid(uuid);
    if (here && !here.exit) throw alive(here.pid);
    // The process has ended, but it holds resources of the run until it is reaped.
    if (here) await this.gone(here);
    else runner.pendingRecords.retry();
    const runs = this.#parts.runs(opts.project.dataDir);
    const left = await orphanedRecord(runs, uuid, kernelAlive);
    if (!left) throw noRun(uuid);
    const { info, held } = left;
    requireOwn(info);
    if (held) throw aliveElsewhere(info.pid);
    requireAgent(info);
    // The model is notified that the outcome of some calls is unknown: their programs must not run on.
    if (info.ended_at_ms === null) await sweepPrograms();
    const saved = await readSavedRun(runs, info, agent);
    const switches = switchesWith(info, opts.provider, saved.history.step, clock);
    return { ...saved, progress: { ...saved.progress, before: { ...info, switches } } };
  }

  async #readFork(
    uuid: string,
    agent: AgentInfo | null,
    opts: SpawnOpts,
    o: { step?: number; adopt?: boolean },
  ): Promise<SavedRun> {
    const { table, runner, runs } = this.#parts;
    runner.pendingRecords.retry();
    // The process knows more than its record.
    const live = o.adopt ? undefined : table.findByUuid(uuid);
    const info = live?.info() ?? (await this.#require(uuid, opts));
    requireAgent(info);
    return readFork(runs(opts.project.dataDir), info, agent, o);
  }

  async #notifyUndos(proc: Process, { project }: SpawnOpts): Promise<void> {
    const { clock, runs } = this.#parts;
    const { notifyUndos } = await import("../resume/undo-notice.ts");
    return notifyUndos(proc, runs(project.dataDir), clock.now(), async (text) => {
      await this.#notify(proc, { kind: "notice", source: "rnix", text });
    });
  }

  async #notify(proc: Process, news: ResumeNews, images: ImageRef[] = [], key?: MessageKey): Promise<number> {
    const ts = new Date(this.#parts.clock.now()).toISOString();
    const text = proc.secrets.hide(news.text);
    const more = { ...(images.length > 0 && { images }), ...key };
    const draft = news.kind === "input" ? { ...news, ...more } : news;
    const { seq } = await this.#parts.inboxes.put(proc, { ...draft, text, ts });
    return seq;
  }
}

/** The conversation names files below the project's former folder. */
function movedNews({ project }: ProcInfo, from: string): ResumeNews {
  const text = `This run was recorded in ${from} and continues in the project ${project}. Earlier paths below ${from} are no longer valid: look for these files below ${project}.`;
  return { kind: "notice", source: "rnix", text };
}

function requireAgent({ kind, uuid }: ProcInfo): void {
  if (kind === "agent") return;
  throw new SyscallError("INVALID", `Run ${uuid} belongs to a ${kind}. Only runs of agents can be resumed.`);
}

function alive(pid: PID): SyscallError {
  const message = `The run is alive as PID ${pid}. Only an ended or suspended run can be resumed. \`rnix attach ${pid}\` follows it.`;
  return new SyscallError("INVALID", message, { pid });
}

function noRun(uuid: string): SyscallError {
  return new SyscallError("NOT_FOUND", `There is no run ${uuid}. \`rnix ps -a\` lists all runs.`);
}

function aliveElsewhere(pid: PID): SyscallError {
  const why = `The run is alive as PID ${pid} of another rnix: a command with --no-daemon, or another daemon. Resume it after it has ended there, or fork it now (--fork).`;
  return new SyscallError("INVALID", why, { pid });
}

type ResumeNews = { kind: "input"; text: string } | { kind: "notice"; source: string; text: string };

/** The first message for the model of a resumed run. Fails with INVALID when the model has nothing to answer. */
function resumeMessage(saved: SavedRun, input: string | undefined): ResumeNews | undefined {
  const { info, history, fork } = saved;
  if (input !== undefined) return { kind: "input", text: input };
  if (fork ? !fork.ended : !hasEnded(info)) {
    // A chat waits for the user's next message.
    const waits = info.chat && !fork?.adopted;
    if (!waits && isAnswered(saved)) throw needsInput(saved);
    return undefined;
  }
  if (info.exit_reason === "completed") {
    const text = `Run ${info.uuid} has completed. Add a message: rnix resume ${info.uuid}${flagsOf(fork)} "and now …".`;
    throw new SyscallError("INVALID", text);
  }
  if (history.openStep || history.paused || history.messages.at(-1)?.role !== "assistant") return undefined;
  const why = info.error?.message ?? `It had ended: ${info.exit_reason}.`;
  const output = failedCheck(info.checks)?.output?.trim();
  const shown = output ? `\nThe end of the check's output:\n${output}` : "";
  return { kind: "notice", source: "rnix", text: `This run had ended and is resumed now. ${why}${shown}` };
}

/** The model has given its last answer, and the run has not ended by it. */
function isAnswered({ fork, history, unread, units, progress }: SavedRun): boolean {
  if (fork) return fork.answered;
  const said = !history.openStep && !history.paused && history.messages.at(-1)?.role === "assistant";
  const news = recordedUnits(units).some(({ announced }) => !announced);
  return said && !news && unread.length === 0 && progress.answered === null;
}

function needsInput({ info: { uuid }, history: { step }, fork }: SavedRun): SyscallError {
  const message = `Run ${uuid} has nothing left to answer after step ${step}. Add a message: rnix resume ${uuid}${flagsOf(fork)} "and now …".`;
  return new SyscallError("INVALID", message);
}

function flagsOf(fork: SavedRun["fork"]): string {
  if (!fork) return "";
  return fork.adopted ? " --adopt" : " --fork";
}
