import { join } from "node:path";
import { KernelLocks, kernelFolders } from "../../../../src/server/daemon/kernel-locks.ts";
import { isAlive } from "../../../support/is-alive.ts";
import { seeded } from "../../../support/seeded.ts";
import { until } from "../../../support/until.ts";
import { writeKeys } from "../keys-file.ts";
import type { Machine } from "../machine.ts";
import type { Result, Running } from "../running.ts";
import { badlyRecorded, damage, lostEffects, made, wrongEffects, wronglyTold } from "./checks.ts";
import { type OnDisk, phaseOf, runsOnDisk } from "./on-disk.ts";
import { Actors, intents } from "./roles.ts";

/** The results of a campaign. */
export interface TortureReport {
  kills: { daemon: number; inside: number };
  /** How often a run was hit where. */
  phases: Record<string, number>;
  /** How runs have ended, children included. */
  ends: Record<string, number>;
  steps: number;
  /** Lines appended and messages sent, by how their calls are recorded. */
  calls: Record<string, number>;
  /** By a command, and by the daemon itself. */
  resumed: number;
  wentOn: number;
  /** Violations: one sentence each. */
  wrong: string[];
}

interface TortureOptions {
  seed: number;
  /** At least. */
  kills: number;
  /** How far each agent counts. */
  goal?: number;
}

/** From the start of the commands to the kill, at most. Start-up and resumes are within it. */
const LONGEST_LIFE_MS = 900;
/** The share of kills that hit a --no-daemon command. */
const INSIDE_SHARE = 0.2;
/** The shares of the daemon's kills that come while it suspends its runs for a TERM, and while it drains for a stop. */
const STOPPING_SHARE = 0.15;
const DRAINING_SHARE = 0.15;
/** Longer than most calls take, and than the kill that comes meanwhile. */
const DRAIN = "1s";
const LONGEST_DRAIN_MS = 250;
/** Rounds at most, as a multiple of the requested kills. */
const MOST_TIMES = 3;
/** Rounds in which all runs end, without kills. */
const ROUNDS_TO_END = 40;
/** The deadline of one of these rounds, and the interval between two looks. */
const ROUND_MS = 1_000;
const LOOK_MS = 20;

/**
 * Agents whose effects can be counted, and a kill -9 of their kernels at random points: of the daemon, of commands
 * with `--no-daemon`, while they start, resume, work, suspend. After each kill all runs are resumed, until all
 * kills are done; then all agents run to their end, and everything on disk is compared with what they
 * did. The seed decides the kills' delays and the agents' choices; what a kill hits depends on the machine too.
 */
export async function torture(machine: Machine, options: TortureOptions): Promise<TortureReport> {
  const campaign = new Campaign(machine, options);
  await campaign.run();
  return campaign.report();
}

/** One run that is followed from its spawn to its end, over all resumes. */
interface Agent {
  intent: string;
  /** By `--no-daemon`, the command that holds it. */
  inside?: { command?: Running };
  /** By `--resume-on-restart`: only the next daemon resumes it. */
  marked?: true;
}

class Campaign {
  readonly #machine: Machine;
  readonly #options: Required<TortureOptions>;
  readonly #random: () => number;
  readonly #actors: Actors;
  readonly #locks: KernelLocks;
  readonly #goals = new Map<string, number>();
  #agents: Agent[] = [];
  #before = new Map<string, OnDisk>();
  /** Runs that a kill has hit, by UUID. */
  readonly #hit = new Set<string>();
  readonly #kills = { daemon: 0, inside: 0 };
  readonly #phases: Record<string, number> = {};
  readonly #wrong: string[] = [];
  #resumed = 0;
  #wentOn = 0;
  #files = 0;

  constructor(machine: Machine, options: TortureOptions) {
    this.#machine = machine;
    this.#options = { goal: 15, ...options };
    this.#random = seeded(options.seed);
    this.#actors = new Actors(seeded(options.seed + 1));
    this.#locks = new KernelLocks(kernelFolders(machine.dataDir).locks);
  }

  async run(): Promise<void> {
    this.#machine.config({ drain: DRAIN });
    await this.#machine.model(this.#actors.play);
    writeKeys(this.#machine);
    while (this.#goesOn()) {
      this.#repopulate();
      this.#giveSender();
      const commands = this.#start();
      await Bun.sleep(this.#random() * LONGEST_LIFE_MS);
      await this.#kill();
      await this.#judge(commands);
      this.#look();
    }
    await this.#toTheEnd();
  }

  /** Which runs a kill hits, and where, depends on the machine: a busy one may need more kills. */
  #goesOn(): boolean {
    if (this.#wrong.length > 0) return false;
    const kills = this.#kills.daemon + this.#kills.inside;
    if (kills < this.#options.kills) return true;
    const isThorough = (this.#phases["in Bash"] ?? 0) > 0 && this.#wentOn > 0;
    return !isThorough && kills < MOST_TIMES * this.#options.kills;
  }

  report(): TortureReport {
    const runs = this.#onDisk();
    return {
      kills: this.#kills,
      phases: this.#phases,
      ends: counted(runs.map(({ info }) => info?.exit_reason ?? info?.state ?? "never recorded")),
      steps: runs.reduce((sum, { steps }) => sum + steps.length, 0),
      calls: counted([...made(runs).values()].map(({ state }) => state)),
      resumed: this.#resumed,
      wentOn: this.#wentOn,
      wrong: [...this.#wrong, ...this.#actors.refused],
    };
  }

  /** An agent that has ended is replaced by another one of its role. */
  #repopulate(): void {
    const { goal } = this.#options;
    const file = (): string => `file-${++this.#files}`;
    const counting = (): string => {
      const name = file();
      this.#goals.set(name, goal);
      return name;
    };
    const have = (role: string, inside: boolean): number =>
      this.#agents.filter(
        (agent) => agent.intent.startsWith(`${role} `) && (agent.inside !== undefined) === inside,
      ).length;
    for (let n = have("count", false); n < 3; n++) {
      const marked = !this.#agents.some((agent) => agent.marked);
      this.#agents.push({ intent: intents.count(counting(), goal), ...(marked && { marked }) });
    }
    for (let n = have("count", true); n < 1; n++)
      this.#agents.push({ intent: intents.count(counting(), goal), inside: {} });
    for (let n = have("lead", false); n < 1; n++)
      this.#agents.push({ intent: intents.lead(counting(), goal) });
    for (let n = have("team", false); n < 1; n++)
      this.#agents.push({ intent: intents.team(counting(), counting(), goal) });
    if (have("receive", false) === 0) this.#agents.push({ intent: intents.receive(file()) });
  }

  /** A sender is spawned when its receiver is there. */
  #giveSender(): void {
    const receiver = this.#agents.find(({ intent }) => intent.startsWith("receive "));
    const uuid = receiver && this.#find(receiver)?.uuid;
    if (receiver === undefined || uuid === undefined) return;
    const [, name = ""] = receiver.intent.split(" ");
    const intent = intents.send(name, this.#options.goal, uuid);
    if (!this.#agents.some((agent) => agent.intent === intent)) this.#agents.push({ intent });
  }

  /** Spawns runs without a record, and resumes the crashed ones that are not `marked`, or all. */
  #start({ all = false } = {}): Promise<Result>[] {
    const runs = this.#onDisk();
    return this.#agents.flatMap((agent) => {
      const run = this.#find(agent, runs);
      if (run && (this.#lives(run) || hasEnded(run))) return [];
      // Its record is not written yet.
      if (agent.inside?.command && isAlive(agent.inside.command.pid)) return [];
      if (run && agent.marked && !all) return [];
      if (run) this.#resumed++;
      const mark = agent.marked ? ["--resume-on-restart"] : [];
      const what = run ? ["resume", run.uuid] : ["spawn", agent.intent, "--max-steps", "unlimited", ...mark];
      if (!agent.inside) return [this.#machine.run([...what, "--detach", "--output", "json"])];
      agent.inside.command = this.#machine.start([...what, "--no-daemon", "--output", "json"]);
      return [];
    });
  }

  async #kill(): Promise<void> {
    const inside = this.#agents.find(({ inside }) => inside?.command && isAlive(inside.command.pid))?.inside
      ?.command;
    if (inside && this.#random() < INSIDE_SHARE) {
      if (await end(inside.pid)) this.#kills.inside++;
      return;
    }
    const pid = this.#machine.daemonPid;
    if (pid === null || !isAlive(pid)) return; // It has not been started yet.
    const way = this.#random();
    let stopping: Running | undefined;
    if (way < STOPPING_SHARE) {
      signal(pid, "SIGTERM");
      await Bun.sleep(this.#random() * 30);
    } else if (way < STOPPING_SHARE + DRAINING_SHARE) {
      stopping = this.#machine.start(["daemon", "stop"]);
      await Bun.sleep(this.#random() * LONGEST_DRAIN_MS);
    }
    if (await end(pid)) this.#kills.daemon++;
    await stopping?.done;
  }

  /** A command reports that its daemon was killed; any other failure is a fault. */
  async #judge(commands: Promise<Result>[]): Promise<void> {
    for (const { code, stderr } of await Promise.all(commands)) {
      // The daemon, or a command whose answer was cut off, has resumed it: then it runs already.
      const late = code === 64 && /The run is alive|being resumed by another/.test(stderr);
      if (code !== 0 && code !== 69 && !late) this.#wrong.push(`a command ended with ${code}: ${stderr}`);
    }
  }

  /** After a kill: where it has hit each run, and whether all that was recorded is still there. */
  #look(): void {
    const runs = this.#onDisk();
    for (const run of runs) {
      const phase = phaseOf(run);
      const marked = this.#agents.some(({ intent, marked }) => marked && intent === run.info?.intent);
      const before = this.#before.get(run.uuid)?.info?.pid;
      if (marked && before !== undefined && before !== run.info?.pid) this.#wentOn++;
      // Each of its processes is hit once.
      const same = this.#before.get(run.uuid)?.info?.pid === run.info?.pid && this.#hit.has(run.uuid);
      if (this.#lives(run) || phase === "ended" || same) continue;
      this.#hit.add(run.uuid);
      this.#phases[phase] = (this.#phases[phase] ?? 0) + 1;
    }
    this.#wrong.push(...damage(this.#before, runs), ...badlyRecorded(runs));
    this.#before = new Map(runs.map((run) => [run.uuid, run]));
    for (const agent of this.#agents) {
      const run = this.#find(agent, runs);
      if (run && hasEnded(run)) this.#wrong.push(...wrongEnd(run));
    }
    this.#agents = this.#agents.filter((agent) => {
      const run = this.#find(agent, runs);
      return !run || !hasEnded(run);
    });
  }

  /** Without further kills every run ends. */
  async #toTheEnd(): Promise<void> {
    for (let round = 0; round < ROUNDS_TO_END && this.#wrong.length === 0; round++) {
      this.#giveSender();
      const left = this.#agents.filter((agent) => {
        const run = this.#find(agent);
        return !run || !hasEnded(run);
      });
      if (left.length === 0) break;
      // A run that crashed at the same step repeatedly is left to the user.
      await this.#judge(this.#start({ all: round > ROUNDS_TO_END / 2 }));
      // This command starts the daemon that resumes the others.
      await this.#machine.run(["ps"]);
      for (const { inside } of left) await inside?.command?.done;
      await this.#comeToRest(left);
    }
    const runs = this.#onDisk();
    this.#look();
    for (const agent of this.#agents) {
      if (!this.#find(agent, runs)) this.#wrong.push(`"${agent.intent}" has left no run`);
    }
    // Children too: each was resumed by its parent.
    for (const run of runs) if (run.info) this.#wrong.push(...wrongEnd(run));
    this.#wrong.push(...wrongEffects(this.#machine, this.#goals), ...lostEffects(this.#machine));
    for (const run of runs) {
      const [role, file = ""] = run.info?.intent.split(" ") ?? [];
      if (role === "receive") this.#wrong.push(...wronglyTold(run, runs, file));
    }
    // A daemon that starts removes the files of dead kernels.
    await this.#machine.run(["daemon", "stop"]);
    // A spawn that was cut off before its first record has left a folder, and no run.
    const { code, stderr } = await this.#machine.run(["gc"]);
    if (code !== 0) this.#wrong.push(`rnix gc ended with ${code}: ${stderr}`);
    this.#wrong.push(...this.#machine.strays().map((stray) => `left behind: ${stray}`));
  }

  /** Until no run is active; a run that waits for others resumes in the next round. */
  async #comeToRest(agents: readonly Agent[]): Promise<void> {
    const giveUp = performance.now() + ROUND_MS;
    const isAtWork = (): boolean => {
      const runs = this.#onDisk();
      return agents.some((agent) => {
        const run = this.#find(agent, runs);
        return run !== undefined && this.#lives(run);
      });
    };
    // Not at once: reading everything takes the daemon's processor time.
    while (isAtWork() && performance.now() < giveUp) await Bun.sleep(LOOK_MS);
  }

  #onDisk(): OnDisk[] {
    return runsOnDisk(this.#dataDir);
  }

  get #dataDir(): string {
    return join(this.#machine.project, ".rnix/data");
  }

  #find({ intent }: Agent, runs = this.#onDisk()): OnDisk | undefined {
    return runs.find(({ info }) => info?.intent === intent && info.parent_uuid === null);
  }

  #lives({ info }: OnDisk): boolean {
    return info !== null && info.ended_at_ms === null && this.#locks.isAlive(info.kernel);
  }
}

/** False: it had already ended. */
async function end(pid: number): Promise<boolean> {
  if (!signal(pid, "SIGKILL")) return false;
  await until(() => !isAlive(pid), `the end of process ${pid}`);
  return true;
}

function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ESRCH") return false;
    throw error;
  }
}

function counted(words: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1;
  return counts;
}

function hasEnded({ info }: OnDisk): boolean {
  return info !== null && info.ended_at_ms !== null && info.state !== "suspended";
}

function wrongEnd({ uuid, info }: OnDisk): string[] {
  if (info?.exit_reason === "completed") return [];
  return [
    `run ${uuid} ("${info?.intent}") has come to ${info?.exit_reason ?? info?.state}: ${info?.error?.message}`,
  ];
}
