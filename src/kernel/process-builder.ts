import { realpathSync } from "node:fs";
import { relative } from "node:path";
import type { ContextManager } from "../context/manager.ts";
import { assembleHead } from "../context/prompt.ts";
import { O_RDWR, SyscallError } from "../plugin/index.ts";
import type { RunStore } from "../store/runs.ts";
import type { Namespace } from "../vfs/namespace.ts";
import type { DeviceRegistry } from "../vfs/registry.ts";
import { Account } from "./account.ts";
import type { Clock } from "./clock.ts";
import type { ContextSyscalls } from "./context-syscalls.ts";
import type { FileSystem } from "./file-system.ts";
import { factsOf } from "./permission/facts.ts";
import { Permissions } from "./permission/permissions.ts";
import { Process } from "./process.ts";
import type { ProcessTable } from "./process-table.ts";
import { shownTools, writeMeta } from "./tool-list.ts";
import type { AgentInfo, Limit, PID, ProcessKind, SpawnOpts } from "./types.ts";

interface BuilderPorts {
  version: string;
  /** Names the lock this kernel holds for its life. */
  kernelId: string;
  platform: string;
  clock: Clock;
  uuid(): string;
  pids: { next(): PID };
  /** The records of one data folder; the same object for the same folder. */
  runs(dataDir: string): RunStore;
  table: ProcessTable;
  /** The kernel's own devices, behind all others. */
  devices: DeviceRegistry;
  contexts: ContextManager;
  ctx: ContextSyscalls;
  files: FileSystem;
  warn(source: string, text: string): void;
}

/** An agent that nobody named: no instructions, every tool. */
const GENERIC: AgentInfo = {
  name: "none",
  description: "",
  instructions: "",
  skills: [],
  deferredSkills: [],
  allowedTools: ["*"],
  checks: [],
  source: "kernel",
};

/**
 * The one constructor of processes: whoever wants one comes through here, so that none is without its
 * project, environment, rights and limits. What it builds stands in the table, has its files on disk and
 * its model open; `start` sets it going. If anything of that fails, nothing of it is left.
 */
export class ProcessBuilder {
  readonly #ports: BuilderPorts;

  constructor(ports: BuilderPorts) {
    this.#ports = ports;
  }

  async build(
    kind: ProcessKind,
    intent: string,
    agent: AgentInfo | null,
    opts: SpawnOpts,
    start: (proc: Process) => Promise<void>,
  ): Promise<Process> {
    const undo: (() => unknown)[] = [() => opts.devices.release()];
    try {
      const proc = await this.#construct(kind, intent, agent ?? GENERIC, opts, undo);
      await this.#open(proc, undo);
      await start(proc);
      return proc;
    } catch (thrown) {
      await this.#undo(undo);
      throw thrown;
    }
  }

  /** Every step, also when one fails: the spawn's own error is the one to be thrown. */
  async #undo(steps: (() => unknown)[]): Promise<void> {
    for (const step of steps.reverse()) {
      try {
        await step();
      } catch (thrown) {
        this.#ports.warn("spawn", `taking it back: ${String(thrown)}`);
      }
    }
  }

  async #construct(
    kind: ProcessKind,
    intent: string,
    agent: AgentInfo,
    given: SpawnOpts,
    undo: (() => unknown)[],
  ): Promise<Process> {
    const { table } = this.#ports;
    const parent = this.#parentOf(given);
    const opts = parent ? withinParent(given, parent) : given;
    const namespace = opts.devices.namespace.over(this.#ports.devices);
    const permissions = permissionsOf(agent, opts, namespace, parent);
    const uuid = this.#ports.uuid();
    const runs = this.#ports.runs(opts.project.dataDir);
    const record = runs.create(uuid, { eventsPerRun: opts.limits.eventsPerRun });
    undo.push(() => runs.remove(uuid));
    const proc = new Process({
      pid: this.#ports.pids.next(),
      uuid,
      ppid: parent?.pid ?? 0,
      parentUuid: parent?.uuid ?? null,
      depth: parent ? parent.spec.depth + 1 : 0,
      intent,
      kind,
      agent,
      opts,
      namespace,
      tools: shownTools(namespace, permissions, agent),
      permissions,
      record,
      ...limitsOf(agent, opts, parent),
      checks: [...agent.checks, ...(opts.checks ?? [])],
      kernelId: this.#ports.kernelId,
      version: this.#ports.version,
      clock: this.#ports.clock,
    });
    table.add(proc);
    parent?.children.push(proc.pid);
    undo.push(() => {
      table.remove(proc);
      parent?.children.splice(parent.children.indexOf(proc.pid), 1);
      proc.abandon();
    });
    return proc;
  }

  /** Its conversation, its model, its first files on disk. */
  async #open(proc: Process, undo: (() => unknown)[]): Promise<void> {
    const { contexts, ctx, files } = this.#ports;
    const { intent, agent, opts } = proc.spec;
    const head = await this.#head(agent, opts);
    proc.ctxId = await ctx.alloc(proc, Number.POSITIVE_INFINITY);
    undo.push(() => contexts.ctxFree(proc.ctxId));
    contexts.setSystemPrompt(proc.ctxId, head);
    const content = opts.input === undefined ? intent : `${intent}\n\n<input>\n${opts.input}\n</input>`;
    await ctx.append(proc, { role: "user", content });
    proc.unrecorded.push({ role: "user", content });
    writeMeta(proc, contexts);
    undo.push(() => files.closeAll(proc));
    if (opts.provider) proc.llmFd = await files.open(proc, opts.provider.device, O_RDWR, { kind: "kernel" });
  }

  #parentOf(opts: SpawnOpts): Process | undefined {
    if (!opts.parentPid) return undefined;
    const { table } = this.#ports;
    const parent = table.find(opts.parentPid);
    if (parent?.state !== "running" || parent.stopped || parent.ending) {
      throw new SyscallError(
        "NOT_FOUND",
        `The parent process ${opts.parentPid} does not exist or has ended.`,
      );
    }
    const { spawnDepth, liveChildren } = parent.spec.opts.limits;
    if (parent.spec.depth + 1 > spawnDepth) {
      throw new SyscallError(
        "EXHAUSTED",
        `Process ${parent.pid} stands at the spawn depth of ${spawnDepth} and may spawn no deeper.`,
      );
    }
    const live = parent.children.filter((pid) => table.find(pid) !== undefined).length;
    if (live >= liveChildren) {
      throw new SyscallError(
        "EXHAUSTED",
        `Process ${parent.pid} has ${live} live children and may have no more at once.`,
      );
    }
    return parent;
  }

  async #head(agent: AgentInfo, opts: SpawnOpts): Promise<string> {
    const skills = await Promise.all(
      agent.skills.map(async (skill) => ({ name: skill.name, dir: skill.dir, body: await skill.body() })),
    );
    return assembleHead({
      instructions: agent.instructions,
      skills,
      deferredSkills: agent.deferredSkills,
      systemPrompt: opts.systemPrompt,
      projectDoc: opts.projectDoc,
      environment: {
        project: opts.project.dir,
        cwd: opts.cwd,
        date: new Date(this.#ports.clock.now()).toISOString().slice(0, 10),
        platform: this.#ports.platform,
      },
    });
  }
}

/**
 * What a child was given, cut to what its parent has. Its settings were read anew, and a parent may have
 * written them. PERMISSION for a folder that the parent may not touch.
 */
function withinParent(given: SpawnOpts, parent: Process): SpawnOpts {
  const { opts } = parent.spec;
  const folders = foldersOf(opts).map(realOrSame);
  const outside = foldersOf(given).find(
    (dir) => !folders.some((folder) => isInside(folder, realOrSame(dir))),
  );
  if (outside !== undefined) {
    throw new SyscallError(
      "PERMISSION",
      `${outside} is outside of what process ${parent.pid} may touch (${foldersOf(opts).join(", ")}), and its child gets no more than that.`,
    );
  }
  const spawnDepth = Math.min(given.limits.spawnDepth, opts.limits.spawnDepth);
  const liveChildren = Math.min(given.limits.liveChildren, opts.limits.liveChildren);
  return { ...given, limits: { ...given.limits, spawnDepth, liveChildren } };
}

function foldersOf({ project, folders = [] }: SpawnOpts): string[] {
  return [project.dir, ...folders];
}

function isInside(folder: string, path: string): boolean {
  const inner = relative(folder, path);
  return inner !== ".." && !inner.startsWith("../");
}

function realOrSame(dir: string): string {
  try {
    return realpathSync(dir);
  } catch {
    return dir; // Not there: whoever opens something in it will say so.
  }
}

/** The spawner's list, or else the agent's; a child's is always within its parent's. */
function permissionsOf(
  agent: AgentInfo,
  opts: SpawnOpts,
  namespace: Namespace,
  parent: Process | undefined,
): Permissions {
  const allow = opts.allow ?? agent.allowedTools;
  const deny = opts.deny ?? [];
  if (parent) return parent.permissions.child(allow, deny, opts.cwd);
  return Permissions.of({
    allow,
    deny,
    ...factsOf(namespace),
    projectDir: opts.project.dir,
    cwd: opts.cwd,
  });
}

function limitsOf(
  agent: AgentInfo,
  opts: SpawnOpts,
  parent: Process | undefined,
): { maxSteps: Limit; account: Account; timeoutMs: Limit } {
  const { limits } = opts;
  return {
    maxSteps: within(first(opts.maxSteps, agent.maxSteps, limits.maxSteps), parent?.spec.maxSteps ?? null),
    account: new Account(
      within(
        first(opts.contextBudget, agent.contextBudget, limits.contextBudget),
        parent?.spec.account.left ?? null,
      ),
      parent?.spec.account,
    ),
    timeoutMs: within(
      first(opts.timeoutMs, agent.timeoutMs, limits.timeoutMs),
      parent ? left(parent.spec.timeoutMs, parent.elapsedMs) : null,
    ),
  };
}

/** The first that somebody spoke of; null is a word too: no limit. */
function first(...limits: (Limit | undefined)[]): Limit {
  return limits.find((limit) => limit !== undefined) ?? null;
}

/** No child's limit is wider than what its parent has. */
function within(limit: Limit, bound: Limit): Limit {
  if (bound === null) return limit;
  return limit === null ? bound : Math.min(limit, bound);
}

function left(limit: Limit, used: number): Limit {
  return limit === null ? null : Math.max(0, limit - used);
}
