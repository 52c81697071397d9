/** Calls of tools and paths that no model makes. */

import { mkdtempSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onceAborted } from "../../lib/clock.ts";
import { nearestName } from "../../lib/edit-distance.ts";
import { SIGTERM } from "../../lib/signals.ts";
import { type Data, SyscallError, type ToolCall } from "../../plugin/index.ts";
import { RecordSeal } from "../../store/runs/record-key.ts";
import { RunWriter } from "../../store/runs/run-store.ts";
import { TreeBudget } from "../budget/budget.ts";
import { namedError } from "../errors/kernel-errors.ts";
import type { FileSystem } from "../file-system.ts";
import { factsOf } from "../permission/coverage.ts";
import { Permissions } from "../permission/permissions.ts";
import { Process } from "../process/process.ts";
import { bareAgent, type ProcessTool } from "../process/process-spec.ts";
import { Secrets } from "../process/secrets.ts";
import { killed } from "../process/verdict.ts";
import type { Io } from "../tiers/io.ts";
import {
  type CallState,
  callDevice,
  checkToolInput,
  devicePath,
  exchange,
  stateOf,
} from "../tools/device-call.ts";
import type { AskedPart } from "../tools/plugin-hooks.ts";
import { toolNamed, usableTools } from "../tools/tool-catalog.ts";
import type { SpawnOpts } from "../types.ts";

/** A call that no model makes: of a tool, or of one path. */
export type DirectCall =
  | { tool: string; input: Record<string, unknown> }
  /** Without input, the path is only read. */
  | { path: string; input?: string };

/** What PID 0 makes a call with. */
export type DirectCallOpts = Pick<
  SpawnOpts,
  "project" | "devices" | "cwd" | "env" | "secrets" | "pluginKeys" | "mounts" | "limits" | "about"
>;

/** How a call ended. */
export interface DirectResult {
  /** The tool; null for a path. */
  name: string | null;
  path: string;
  state: CallState;
  result: Data | null;
  /** The path has more than the result holds. */
  truncated: boolean;
  error: SyscallError | null;
  startedAt: number;
  durationMs: number;
}

type DirectCallParts = Io & { processes: { readonly isClosing: boolean } };

/** Maximum calls of one run's programs at a time. */
const MAX_OPEN = 64;

/**
 * Calls that a command makes, by the four syscalls of a tool call (design §1). Outside of runs PID 0 makes them, with a
 * process that is in no table and has no record. Inside a run its process makes them, with its rights and in its record.
 */
export class DirectCalls {
  readonly #parts: DirectCallParts;
  readonly #open = new Map<Process, Promise<unknown>>();
  readonly #ofRuns = new Map<Process, number>();

  constructor(parts: DirectCallParts) {
    this.#parts = parts;
  }

  /** Calls under way that PID 0 makes. */
  get size(): number {
    return this.#open.size;
  }

  /** The lease of the devices is released with the call. `gone` ends it. */
  async call(call: DirectCall, opts: DirectCallOpts, gone: AbortSignal): Promise<DirectResult> {
    const { proc, folder } = this.#begin(opts);
    const running = this.#run(proc, call, opts, gone).finally(() => this.#end(proc, folder));
    this.#open.set(proc, running);
    try {
      return await running;
    } finally {
      this.#open.delete(proc);
    }
  }

  /** The parts that plugins would give to the prompt of a run here. The lease of the devices is released. */
  async promptParts(opts: DirectCallOpts): Promise<AskedPart[]> {
    if (!opts.devices.hooks?.length) {
      opts.devices.release();
      return [];
    }
    const { proc, folder } = this.#begin(opts);
    try {
      const { askPromptParts } = await import("../tools/plugin-hooks.ts");
      return (await askPromptParts(proc, this.#parts.makeContext)).parts;
    } finally {
      await this.#end(proc, folder);
    }
  }

  /**
   * The same by the live process of this UUID, a run's or that of another call, for one of its programs. Fails with
   * NOT_FOUND when it has ended.
   */
  async callBy(uuid: string, call: DirectCall, gone: AbortSignal): Promise<DirectResult> {
    const proc = this.#open.keys().find((one) => one.uuid === uuid) ?? this.#parts.table.getByUuid(uuid);
    const open = this.#ofRuns.get(proc) ?? 0;
    if (open >= MAX_OPEN) {
      const message = `${MAX_OPEN} calls of this run's programs are open. Wait for some of them.`;
      throw new SyscallError("EXHAUSTED", message);
    }
    this.#ofRuns.set(proc, open + 1);
    try {
      await proc.gate();
      return await this.#make(proc, call, AbortSignal.any([proc.signal, gone]));
    } finally {
      const left = (this.#ofRuns.get(proc) ?? 1) - 1;
      if (left === 0) this.#ofRuns.delete(proc);
      else this.#ofRuns.set(proc, left);
    }
  }

  /** Ends the calls of PID 0, and waits for them. */
  async close(): Promise<void> {
    for (const proc of this.#open.keys()) proc.stop(killed(SIGTERM, false));
    await Promise.allSettled(this.#open.values());
  }

  /** A process with a folder of its own; `#end` frees both. If there is none, the lease is released at once. */
  #begin(opts: DirectCallOpts): { proc: Process; folder: string } {
    try {
      if (this.#parts.processes.isClosing)
        throw new SyscallError("CLOSED", "The kernel is shutting down and makes no more calls.");
      const folder = mkdtempSync(join(tmpdir(), "rnix-call-"));
      return { proc: this.#process(opts, folder), folder };
    } catch (thrown) {
      opts.devices.release();
      throw thrown;
    }
  }

  async #run(
    proc: Process,
    call: DirectCall,
    { mounts = [] }: DirectCallOpts,
    gone: AbortSignal,
  ): Promise<DirectResult> {
    const ignore = onceAborted(gone, () => proc.stop(killed(SIGTERM, false)));
    try {
      gone.throwIfAborted();
      await this.#parts.mounts.mountAll(proc, mounts);
      proc.start();
      return await this.#make(proc, call, proc.signal);
    } finally {
      ignore();
    }
  }

  /** Makes the call. Throws for a call that can't be made; one that fails is a result. */
  async #make(proc: Process, call: DirectCall, signal: AbortSignal): Promise<DirectResult> {
    const { clock } = this.#parts;
    const startedAt = clock.now();
    const startedMono = clock.monotonic();
    const { name, path, run } = this.#prepare(proc, call, signal);
    const over = (): Pick<DirectResult, "name" | "path" | "startedAt" | "durationMs"> => ({
      name,
      path,
      startedAt,
      durationMs: Math.round(clock.monotonic() - startedMono),
    });
    try {
      return { state: "done", error: null, ...(await run()), ...over() };
    } catch (thrown) {
      const error = namedError(thrown, "Call", proc.pid);
      return { state: stateOf(error), result: null, truncated: false, error, ...over() };
    }
  }

  #prepare(proc: Process, call: DirectCall, signal: AbortSignal): Prepared {
    if ("path" in call) {
      const { path, input } = call;
      const run = async (): ReturnType<typeof callPath> => {
        refuseOwn(proc, path);
        return callPath(this.#parts, proc, path, input, signal);
      };
      return { name: null, path, run };
    }
    const { tool: name, input } = call;
    const target = toolNamed(proc, name);
    if (!target) throw noSuchTool(proc, name);
    if (target.entry.layer === "kernel") {
      const message = `${name} acts on the run whose model calls it: only a model can call it.`;
      throw new SyscallError("INVALID", message);
    }
    const made: ToolCall = { id: this.#parts.uuid(), name, input };
    const path = devicePath(target, made);
    return { name, path, run: () => this.#callTool(proc, made, target, path, signal) };
  }

  async #callTool(
    proc: Process,
    call: ToolCall,
    target: ProcessTool,
    path: string,
    signal: AbortSignal,
  ): Promise<Pick<DirectResult, "result" | "truncated">> {
    checkToolInput(target.tool, call);
    return { result: await callDevice(this.#parts, proc, call, target, path, signal), truncated: false };
  }

  /** A process of PID 0: all rights that need no rule, no model, and no record but a folder for large output. */
  #process(opts: DirectCallOpts, folder: string): Process {
    const { clock, devices, fetchedKeys, kernelId, mounts, version } = this.#parts;
    const { cwd, project } = opts;
    const namespace = mounts.addShared(project, opts.devices.namespace.over(devices));
    const uuid = this.#parts.uuid();
    const facts = { ...factsOf(namespace), projectDir: project.dir, cwd };
    return new Process({
      pid: 0,
      uuid,
      ppid: 0,
      tree: opts.about?.uuid ?? uuid,
      parentUuid: null,
      originUuid: null,
      depth: 0,
      intent: "",
      kind: "command",
      agent: bareAgent(""),
      opts: { ...opts, provider: null },
      namespace,
      permissions: Permissions.of({ allow: ["*"], deny: [], ...facts }),
      secrets: new Secrets({ keys: opts.secrets, shared: fetchedKeys }),
      record: new RunWriter({ uuid, dir: folder, seal: new RecordSeal(new Uint8Array()) }),
      budget: TreeBudget.forKernel(null),
      checks: [],
      kernelId,
      version,
      clock,
    });
  }

  /** Frees everything that the call held. A folder with output that its result names stays. */
  async #end(proc: Process, folder: string): Promise<void> {
    const { children, files, mounts, warn } = this.#parts;
    // From here on it starts no more programs.
    if (proc.state === "running") proc.terminate({ code: 0, reason: "completed" });
    proc.cancel();
    const parts = [
      () => files.closeAll(proc),
      () => mounts.clear(proc),
      () => children.endOwner(proc.uuid),
      () => proc.spec.opts.devices.release(),
      () => removeIfEmpty(folder),
    ];
    for (const part of parts) {
      try {
        await part();
      } catch (thrown) {
        warn("call", namedError(thrown, "Close", 0).message);
      }
    }
  }
}

interface Prepared {
  name: string | null;
  path: string;
  run(): Promise<Pick<DirectResult, "result" | "truncated">>;
}

/** Devices that act for a model: outside of its loop nothing counts their tokens or orders their effects. */
function refuseOwn(proc: Process, path: string): void {
  const { entry } = proc.spec.namespace.resolve(path);
  if (entry.device.provider) {
    const message = `${entry.path} is a model: a run calls it in its steps, and no program does. Ask it by a run of its own: rnix spawn "…".`;
    throw new SyscallError("INVALID", message);
  }
  if (entry.path.startsWith("/dev/kernel/")) {
    const message = `${entry.path} acts on the run whose model calls it: only a model can call it.`;
    throw new SyscallError("INVALID", message);
  }
}

function noSuchTool(proc: Process, name: string): SyscallError {
  const names = [...usableTools(proc).values()]
    .filter(({ entry }) => entry.layer !== "kernel")
    .map(({ tool }) => tool.name);
  const near = nearestName(name, names);
  const message = `There is no tool ${JSON.stringify(name)} here${near === undefined ? "." : `; did you mean ${near}?`} Tools: ${names.join(", ") || "none"}.`;
  return new SyscallError("NOT_FOUND", message);
}

function removeIfEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch (thrown) {
    if (thrown instanceof Error && "code" in thrown && thrown.code === "ENOTEMPTY") return;
    throw thrown;
  }
}

const READ_LENGTH = 256 * 1024;
/** Maximum bytes of an answer: it is sent as one line of the protocol. */
const MAX_BYTES = 4 * 1024 * 1024;

/**
 * Opens a path, writes the input if there is one, reads the answer and closes. The process's rights must cover the path
 * itself. Text stays text; keys are redacted.
 */
function callPath(
  { files }: { files: FileSystem },
  proc: Process,
  path: string,
  input: string | undefined,
  until: AbortSignal,
): Promise<{ result: Data; truncated: boolean }> {
  const ms = proc.spec.opts.limits.tool_timeout;
  const late = `${path} did not answer within ${ms} ms.`;
  return exchange(files, proc, { path, by: { kind: "process" }, input, ms, late }, until, (fd, signal) =>
    readAll(files, proc, fd, signal),
  );
}

async function readAll(
  files: FileSystem,
  proc: Process,
  fd: number,
  signal: AbortSignal,
): Promise<{ result: Data; truncated: boolean }> {
  const texts: string[] = [];
  const chunks: Uint8Array[] = [];
  const redacted = proc.secrets.byteStream();
  let length = 0;
  let truncated = false;
  while (!truncated) {
    const data = await files.read(proc, fd, READ_LENGTH, signal);
    if (data.length === 0) break;
    if (typeof data === "string") texts.push(data);
    else chunks.push(redacted.push(data));
    if (texts.length > 0 && chunks.length > 0) throw mixed(fd);
    length += data.length;
    truncated = length > MAX_BYTES;
  }
  if (texts.length > 0) return { result: proc.secrets.hide(texts.join("")), truncated };
  return { result: Buffer.concat([...chunks, redacted.end()]), truncated };
}

function mixed(fd: number): SyscallError {
  const message = `The driver of FD ${fd} answered with text and with bytes. Expected one of them.`;
  return new SyscallError("DRIVER", message);
}
