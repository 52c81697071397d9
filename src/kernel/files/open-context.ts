/** The context and services that a driver gets at Open. */

import { dirname, join } from "node:path";
import { type Cancellation, signalOf } from "../../lib/clock.ts";
import { innerPath } from "../../lib/inner-path.ts";
import type { Redactor } from "../../os/output.ts";
import {
  type ChecklistItem,
  type Child,
  type ExecRequest,
  type GuardedFolder,
  type LlmReply,
  type LlmRequest,
  type OpenContext,
  type ProgramGrants,
  type Services,
  SyscallError,
} from "../../plugin/index.ts";
import { isLimited } from "../../proxy/host-rules.ts";
import { hasNamespaces } from "../../sandbox/policy.ts";
import { PluginStore, pluginFolders, recoveredText } from "../../store/plugin-store.ts";
import type { DeviceEntry } from "../../vfs/namespace.ts";
import type { Asks } from "../asks/asks.ts";
import type { KernelPorts } from "../kernel-ports.ts";
import type { OpenAs } from "../permission/file-grant.ts";
import type { ServedTools } from "../process/live-state.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTable } from "../process/process-table.ts";
import { programLimits, programPolicy, withQuietGit } from "../process/program-policy.ts";
import { tracedEnv } from "../process/traced-env.ts";
import type { Calls } from "../tiers/calls.ts";
import { callKey } from "../tools/open-calls.ts";
import type { Units } from "../units/units.ts";
import type { SharedSpace, Starters } from "./confine.ts";
import type { ChangedFiles } from "./effect-windows.ts";

/** Maximum items of a list that is shown, and characters of an item. */
const MAX_ITEMS = 200;
const MAX_ITEM = 200;

interface OpenContextParts extends Calls {
  units: Units;
  asks: Asks;
  /** Keeps the files that tools change, for undo. */
  changes: ChangedFiles;
  /** A model request of a driver, for a call or a raw open, until `signal` fires. */
  llm(proc: Process, callId: string | undefined, request: LlmRequest, signal: AbortSignal): Promise<LlmReply>;
}

interface Confinement {
  joins?: boolean;
  isShared?: boolean;
  grants?: ProgramGrants | undefined;
}

/** A context names the process that opened the device and has the services that the plugin needs. */
export class OpenContexts {
  readonly #parts: OpenContextParts;
  /** Made for the first program in a sandbox. */
  #starters: Starters | undefined;

  constructor(parts: OpenContextParts) {
    this.#parts = parts;
  }

  /** `signal` ends what the driver waits for. */
  make(
    proc: Process,
    entry: DeviceEntry,
    as: OpenAs,
    access: OpenContext["access"],
    signal: Cancellation,
  ): OpenContext {
    const { opts } = proc.spec;
    const call = as.kind === "tool" ? callOf(proc, as) : undefined;
    const env = this.#parts.traces ? tracedEnv(proc, call?.key) : opts.env;
    return {
      process: {
        pid: proc.pid,
        uuid: proc.uuid,
        tree: proc.spec.tree,
        agent: proc.spec.agent.name,
        depth: proc.spec.depth,
        attended: opts.attended ?? false,
        operator: proc.pid === 0,
      },
      project: { id: opts.project.id, dir: opts.project.dir, trusted: opts.project.trusted },
      cwd: opts.cwd,
      folders: [...(opts.folders ?? []), ...proc.permissions.opened.map(({ dir }) => dir)],
      guarded: this.guarded(proc),
      env,
      ...(isLimited(opts.network) && { network: opts.network }),
      policy: programPolicy(proc),
      call,
      config: entry.path === proc.model.provider.device ? proc.model.provider.config : entry.config,
      progress: (text) =>
        this.#parts.watchers.notice(proc, `${call?.tool ?? entry.path}: ${proc.secrets.hide(text)}`),
      output: (text, skipped = 0) => {
        if (call) this.#parts.watchers.output(proc, call.id, text, skipped);
      },
      checklist: (items) => this.#parts.watchers.checklist(proc, entry.plugin, checkedList(proc, items)),
      changing: (file) => this.#parts.changes.writing(proc, file),
      changed: (file) => {
        // Relative to the project, so that a receipt is the same on every machine.
        proc.result.filesChanged.add(innerPath(opts.project.dir, file) ?? file);
        proc.run.filesChanged.add(file);
        this.#parts.changes.written(proc, file);
      },
      log: (level, text) => this.#parts.log(level, sourceOf(proc, entry), proc.secrets.hide(text)),
      spill: async (name, data) => {
        const redacted = typeof data === "string" ? proc.secrets.hide(data) : data;
        return (await proc.record.storeBlob(name, redacted)).path;
      },
      inbox: async (text) => {
        if (proc.pid === 0)
          throw new SyscallError("UNAVAILABLE", "No run has made this call: it has no inbox.");
        await this.#parts.notify(proc, entry.plugin, proc.secrets.hide(text));
      },
      access,
      connect: (url) => this.#parts.networks().connect(proc, url),
      ...this.#services(proc, entry, as, call, signal),
    };
  }

  /** What the sandbox refused to the programs of a call, for the model; the user gets a notice. */
  async refusals(proc: Process, result: string): Promise<string> {
    if (!proc.spec.opts.confinement) return "";
    const { sandboxRefusals } = await import("./confine.ts");
    return sandboxRefusals(proc, result, (text) => this.#parts.watchers.notice(proc, text));
  }

  /** The folders that its tools must not write to, or not even read. */
  guarded({ spec }: Process): readonly GuardedFolder[] {
    return [{ dir: spec.opts.project.dataDir, readable: true }, ...this.#parts.guarded];
  }

  #services(
    proc: Process,
    entry: DeviceEntry,
    as: OpenAs,
    call: OpenContext["call"],
    signal: Cancellation,
  ): Partial<Services> {
    const services: Partial<Services> = {};
    const source = sourceOf(proc, entry);
    const quiet = <R extends { env?: Record<string, string> }>(request: R): R =>
      withQuietGit(proc, entry.path, as, request);
    if (entry.needs.includes("exec"))
      services.exec = async (request) => {
        if (request.grants) requireModelDriver(proc, entry);
        return this.exec(proc, quiet(request), call?.id, call?.key);
      };
    if (entry.needs.includes("history")) services.history = this.#parts.history;
    if (entry.needs.includes("search"))
      services.search = this.#parts.search(entry.plugin, proc.spec.opts.project);
    if (entry.needs.includes("schedule")) {
      const { project, cwd, env } = proc.spec.opts;
      const run = proc.pid === 0 ? null : proc.info();
      const jobId =
        this.#parts.table.ancestry(proc).find(({ spec }) => spec.opts.job)?.spec.opts.job?.id ?? null;
      services.schedule = this.#parts.schedule?.({ project, cwd, env, run, jobId });
    }
    if (entry.needs.includes("units") && proc.pid !== 0) {
      const units = this.#parts.units.service(proc, call?.tool);
      services.units = {
        ...units,
        start: async (request) => {
          const env = { ...(this.#parts.traces && tracedEnv(proc, call?.key)), ...request.env };
          return units.start((await this.#confined(proc, quiet({ ...request, env }))).request);
        },
      };
    }
    if (entry.needs.includes("ask"))
      services.ask = this.#parts.asks.service(proc, call?.id, signalOf(signal));
    if (entry.needs.includes("llm"))
      services.llm = { ask: (request) => this.#parts.llm(proc, call?.id, request, signalOf(signal)) };
    if (entry.needs.includes("store")) {
      const folders = {
        run: proc.record.dir,
        tree: treeDir(this.#parts.table, proc),
        project: proc.spec.opts.project,
        user: this.#parts.userDataDir,
      };
      const warn = (text: string): void => this.#parts.log("warn", source, text);
      services.store = pluginStore(entry, folders, warn, { isTreeReadOnly: proc.pid === 0 });
    }
    if (entry.needs.includes("secret")) {
      services.secret = async (name) => {
        if (name !== undefined) return pluginKey(proc, entry, name);
        if (proc.model.provider.device === entry.path) {
          const key = await proc.model.provider.secret();
          proc.secrets.add(key);
          return key;
        }
        const message = `Plugin ${entry.plugin} asked for a key, but ${entry.path} is not the process's model.`;
        throw new SyscallError("PERMISSION", message);
      };
    }
    if (entry.needs.includes("tools")) {
      const served = (): ServedTools => servedTo(proc, entry);
      services.tools = {
        list: async () => served().list(),
        call: async (name, input) => served().call(name, input),
      };
    }
    return services;
  }

  /** Starts a program for the process: in its folder, with its environment, and ended with it. */
  async exec(
    proc: Process,
    request: ExecRequest,
    call: string | undefined,
    callKey?: string,
  ): Promise<Child> {
    const own = this.#parts.traces ? tracedEnv(proc, callKey) : proc.spec.opts.env;
    const env = { ...own, ...request.env };
    const effects = this.#parts.windows.begin(proc, "program");
    let over = effects;
    try {
      const redactor = (): Redactor => proc.secrets.byteStream();
      const { life, grants } = request;
      const isShared = typeof life !== "string";
      const whole = { ...request, env, life: isShared ? keyedByPolicy(proc, life) : life };
      const made = await this.#confined(proc, whole, { joins: !isShared, isShared, grants });
      const { request: confined, space, closeDoor } = made;
      over = () => {
        effects();
        closeDoor?.();
      };
      const child = await this.#start(proc, confined, {
        call,
        callKey,
        redactor,
        confined: hasNamespaces(proc.spec.opts.confinement) ? { argv: request.argv, ...space } : undefined,
      });
      void child.exited().then(over, over);
      return child;
    } catch (thrown) {
      over();
      throw thrown;
    }
  }

  /** The request for a program that all processes with the policy of this one may use. */
  async confinedShared<R extends Pick<ExecRequest, "argv" | "cwd" | "env">>(
    proc: Process,
    request: R,
  ): Promise<R> {
    return (await this.#confined(proc, request, { isShared: true })).request;
  }

  /**
   * The request within the sandbox and the network of the process. `joins`: the program may share namespaces. `isShared`:
   * processes share the program.
   */
  async #confined<R extends Pick<ExecRequest, "argv" | "cwd" | "env">>(
    proc: Process,
    request: R,
    { joins = false, isShared = false, grants }: Confinement = {},
  ): Promise<{ request: R; space?: SharedSpace; closeDoor?: (() => void) | undefined }> {
    const beside = (bridge: ExecRequest): Promise<Child> => this.#start(proc, bridge, {});
    proc.run.startedPrograms = true;
    const { networks } = this.#parts;
    const door = isLimited(proc.spec.opts.network)
      ? await networks().doorOf(proc, beside, grants?.hosts)
      : null;
    const closeDoor = door && grants ? () => door.close() : undefined;
    try {
      if (!proc.spec.opts.confinement) return { request: door?.confined(request) ?? request, closeDoor };
      const start = (argv: string[], isHolder: boolean): Promise<Child> => {
        const env = request.env ?? {};
        const holder: ExecRequest = { argv, env, cwd: "/", stdin: "pipe", life: "process" };
        return this.#start(proc, (isHolder && door?.confined(holder)) || holder, { last: true });
      };
      // Loaded for the first program of a process that has a sandbox. It is made now: it shows files of the door.
      const { confined, Starters } = await import("./confine.ts");
      this.#starters ??= new Starters();
      const { request: made, space } = await confined(proc, request, this.#parts, {
        start: joins && !closeDoor ? start : undefined,
        isShared,
        grants,
        isBehindDoor: door !== null,
        starters: this.#starters,
        notice: (text) => this.#parts.watchers.notice(proc, text),
      });
      const joined = space === undefined ? door?.confined(made) : door?.within(made);
      return { request: joined ?? made, space, closeDoor };
    } catch (thrown) {
      closeDoor?.();
      throw thrown;
    }
  }

  /**
   * Like `exec`, with `request.env` as the whole environment, for the kernel itself: it changes no files, and its output
   * is not redacted.
   */
  execAlone(proc: Process, request: ExecRequest, call: string): Promise<Child> {
    return this.#start(proc, request, { call });
  }

  async #start(
    proc: Process,
    request: ExecRequest,
    owner: Pick<
      Parameters<KernelPorts["children"]["exec"]>[0],
      "call" | "callKey" | "redactor" | "confined" | "last"
    >,
  ): Promise<Child> {
    if (proc.state !== "running") {
      throw new SyscallError("CLOSED", `Process ${proc.pid} has ended and starts no more programs.`);
    }
    const { opts } = proc.spec;
    return this.#parts.children.exec(
      {
        uuid: proc.uuid,
        ...owner,
        spillDir: proc.record.spillDir,
        graceMs: opts.limits.grace,
        limits: programLimits(opts.limits),
        clock: proc.clock,
      },
      { ...request, cwd: request.cwd ?? opts.cwd },
    );
  }
}

function requireModelDriver(proc: Process, { plugin, path, isStock }: DeviceEntry): void {
  if (isStock && proc.model.provider.device === path) return;
  const message = `Plugin ${plugin} asked for grants to a program, but is not the stock driver of the process's model.`;
  throw new SyscallError("PERMISSION", message);
}

/** A shared program is one of processes with the same policy. */
function keyedByPolicy<Life extends { shared: string }>(proc: Process, life: Life): Life {
  return { ...life, shared: `${life.shared} ${programPolicy(proc) ?? ""}` };
}

/** The service `store`: what the plugin keeps in these folders. */
export function pluginStore(
  { plugin, isStock }: Pick<DeviceEntry, "plugin" | "isStock">,
  folders: Parameters<typeof pluginFolders>[1],
  warn: (text: string) => void,
  { isTreeReadOnly = false }: { isTreeReadOnly?: boolean } = {},
): PluginStore {
  return new PluginStore({
    plugin,
    ...pluginFolders(isStock === true, folders),
    isTreeReadOnly,
    onRecovered: (file) => warn(recoveredText(file)),
    onDamaged: (log, damaged, lines) => {
      const more = damaged > lines.length ? ", …" : "";
      warn(`${log}: damaged lines left out: ${lines.join(", ")}${more}`);
    },
  });
}

function checkedList({ secrets }: Process, items: readonly ChecklistItem[]): ChecklistItem[] {
  const short = (text: string): string => secrets.hide(text).slice(0, MAX_ITEM);
  return items.slice(0, MAX_ITEMS).map(({ text, state, note }) => ({
    text: short(text),
    state,
    ...(note && { note: short(note) }),
  }));
}

function pluginKey(proc: Process, { plugin, secrets = [] }: DeviceEntry, name: string): string {
  if (!secrets.includes(name)) {
    const message = `Plugin ${plugin} may read ${secrets.join(", ") || "no keys"}, but not ${JSON.stringify(name)}. List it in the plugin's secrets.`;
    throw new SyscallError("PERMISSION", message);
  }
  const key = proc.spec.opts.pluginKeys?.[name];
  if (key !== undefined) return key;
  const message = `${name} is not set. Write ${name}=… into ~/.config/rnix/env (chmod 600), then try again.`;
  throw new SyscallError("UNAVAILABLE", message);
}

/** Returns the process's tools, for the driver that is answering as its model. */
function servedTo(proc: Process, entry: DeviceEntry): ServedTools {
  if (proc.model.provider.device !== entry.path) {
    const message = `Plugin ${entry.plugin} asked for the process's tools, but ${entry.path} is not the process's model.`;
    throw new SyscallError("PERMISSION", message);
  }
  if (proc.model.served) return proc.model.served;
  const message = `The model of process ${proc.pid} is not answering a request, so it can call no tools.`;
  throw new SyscallError("CLOSED", message);
}

function callOf(proc: Process, as: Extract<OpenAs, { kind: "tool" }>): NonNullable<OpenContext["call"]> {
  const { callId: id, tool, deadlineMs } = as;
  return { id, tool, deadlineMs, key: callKey(proc.uuid, proc.run.step, id) };
}

/** Returns the source of a line in the daemon's log. */
function sourceOf(proc: Process, entry: DeviceEntry): string {
  return `plugin ${entry.plugin}, PID ${proc.pid}`;
}

/** The record's folder of the root run of the process's tree. */
function treeDir(table: ProcessTable, proc: Process): string | undefined {
  if (proc.pid === 0) return proc.spec.opts.about?.dir;
  const { tree } = proc.spec;
  const root = table.ancestry(proc).find(({ uuid }) => uuid === tree);
  // A root that has ended is not in the table.
  return root?.record.dir ?? join(dirname(proc.record.dir), tree);
}
