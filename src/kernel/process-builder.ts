import { realpathSync } from "node:fs";
import { relative } from "node:path";
import type { ContextManager } from "../context/manager.ts";
import { assembleHead } from "../context/prompt.ts";
import { O_RDWR, SyscallError } from "../plugin/index.ts";
import type { RunStore } from "../store/runs.ts";
import type { Namespace } from "../vfs/namespace.ts";
import type { DeviceRegistry } from "../vfs/registry.ts";
import type { Clock } from "./clock.ts";
import type { ContextSyscalls } from "./context-syscalls.ts";
import type { Envelope, EnvelopeLimits } from "./envelope.ts";
import type { FileSystem } from "./file-system.ts";
import { toolPrefix } from "./mount/mount-point.ts";
import type { MountManager } from "./mount-manager.ts";
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
  /** What all processes draw from. */
  envelope: Envelope;
  files: FileSystem;
  mounts: MountManager;
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
    const opts = given;
    if (parent) requireWithinParent(opts, parent);
    const namespace = this.#namespace(opts);
    // The tools of what it is to mount are not there yet.
    const permissions = permissionsOf(agent, opts, namespace, parent, opts.mounts?.map(toolPrefix));
    const limits = limitsOf(kind, agent, opts);
    requirePrice(limits, opts, parent);
    const envelope = (parent?.spec.envelope ?? this.#ports.envelope).child(limits, parent?.elapsedMs ?? 0);
    undo.push(() => envelope.close());
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
      tools: shownTools(namespace, permissions, agent, envelope),
      permissions,
      record,
      envelope,
      maxSteps: envelope.limits.steps,
      timeoutMs: envelope.limits.timeMs,
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
    undo.push(() => this.#ports.mounts.clear(proc));
    await this.#mount(proc);
    writeMeta(proc, contexts);
    undo.push(() => files.closeAll(proc));
    if (opts.provider) proc.llmFd = await files.open(proc, opts.provider.device, O_RDWR, { kind: "kernel" });
  }

  /** What it sees: what is mounted for many, its plugins' devices, the kernel's own. */
  #namespace({ devices, project }: SpawnOpts): Namespace {
    const { mounts, devices: own } = this.#ports;
    const shared = mounts.shared(project).toReversed();
    return shared.reduce((view, table) => view.with(table), devices.namespace.over(own));
  }

  /**
   * Mounts what it starts with, and shows its model the tools that came. INVALID for a rule that names none of
   * them, PERMISSION when it may use nothing of what it requires.
   */
  async #mount(proc: Process): Promise<void> {
    const { opts, agent, namespace } = proc.spec;
    if (!opts.mounts || opts.mounts.length === 0) return;
    const { mounts, table } = this.#ports;
    const parent = proc.ppid === 0 ? undefined : table.find(proc.ppid);
    const failed = await mounts.mountAll(proc, opts.mounts);
    const missing = failed.map(({ request }) => toolPrefix(request));
    permissionsOf(agent, opts, namespace, parent, missing);
    proc.permissions = proc.permissions.withFacts({ expected: missing });
    proc.notices.push(
      ...failed.map(({ request, error }) => `${request.type} ${request.name}: ${error.message}`),
    );
    proc.notices.push(...(await mounts.dropUnusable(proc)));
    proc.tools.clear();
    for (const [name, tool] of shownTools(namespace, proc.permissions, agent, proc.spec.envelope))
      proc.tools.set(name, tool);
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

/** PERMISSION for a folder that the parent may not touch. */
function requireWithinParent(given: SpawnOpts, parent: Process): void {
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
  expected?: readonly string[],
): Permissions {
  const facts = { ...factsOf(namespace), expected };
  const allow = opts.allow ?? agent.allowedTools;
  const deny = opts.deny ?? [];
  if (parent) return parent.permissions.withFacts(facts).child(allow, deny, opts.cwd);
  return Permissions.of({
    allow,
    deny,
    ...facts,
    projectDir: opts.project.dir,
    cwd: opts.cwd,
  });
}

/**
 * What it may use if nobody above has less. Only agents have limits that nobody gave them: what the system
 * itself runs, a supervisor for instance, is its operator's.
 */
function limitsOf(kind: ProcessKind, agent: AgentInfo, opts: SpawnOpts): EnvelopeLimits {
  const defaults: Partial<SpawnOpts["limits"]> = kind === "agent" ? opts.limits : {};
  return {
    tokens: first(opts.contextBudget, agent.contextBudget, defaults.contextBudget),
    cost: first(opts.maxCost, agent.maxCost, defaults.maxCost),
    steps: first(opts.maxSteps, agent.maxSteps, defaults.maxSteps),
    timeMs: first(opts.timeoutMs, agent.timeoutMs, defaults.timeoutMs),
    children: first(defaults.liveChildren),
    depth: first(defaults.spawnDepth),
  };
}

/** What costs nobody knows how much can't be kept within a cost. */
function requirePrice(limits: EnvelopeLimits, { provider }: SpawnOpts, parent: Process | undefined): void {
  if (!provider || provider.price) return;
  if (limits.cost === null && !parent?.spec.envelope.limited("cost")) return;
  throw new SyscallError(
    "INVALID",
    `A cost limit needs the model's price, and that of ${provider.model} is not known. Write price: {input, output} in USD per million tokens under providers: ${provider.name}: models: "${provider.model}" into ~/.config/rnix/providers.yaml, or limit the tokens instead (--budget).`,
  );
}

/** The first that somebody spoke of; null is a word too: no limit. */
function first(...limits: (Limit | undefined)[]): Limit {
  return limits.find((limit) => limit !== undefined) ?? null;
}
