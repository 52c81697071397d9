import { expect } from "bun:test";
import { basename } from "node:path";
import daemons from "../../plugins/daemons.ts";
import shell from "../../plugins/shell.ts";
import type { SpawnOpts } from "../../src/kernel/types.ts";
import type { LLMEvent, LLMRequest } from "../../src/plugin/index.ts";
import type { OpenMode } from "../../src/store/files/fs-port.ts";
import type { Choose } from "./every-order.ts";
import { FakeClock, settled } from "./fake-clock.ts";
import { KernelHarness, says } from "./kernel.ts";
import { MemoryDisk, ROOT } from "./memory-disk.ts";
import { UnitPrograms } from "./unit-programs.ts";

/** The devices of a run with units. */
export const UNIT_DEVICES = {
  devices: { ...shell.devices, ...daemons.devices },
  needs: { "/dev/shell": ["exec", "units"], "/dev/daemons": ["units"] } satisfies Record<
    string,
    ("exec" | "units")[]
  >,
};

/** The same with tools that change nothing: the kernel compares no files, which takes other processes and threads. */
const quietDevices = Object.fromEntries(
  Object.entries(UNIT_DEVICES.devices).map(([path, device]) => {
    const tools = device.tools?.map((tool) => ({ ...tool, annotations: { readOnlyHint: true } }));
    return [path, { ...device, tools }];
  }),
);

export const background = (command: string): [string, Record<string, unknown>] => [
  "Bash",
  { command, run_in_background: true },
];
export const monitor = (command: string): [string, Record<string, unknown>] => [
  "Monitor",
  { command, description: command },
];

/** What a monitor prints once. */
export const lineOf = (command: string): string => `<line of ${command}>`;

/** How often a conversation has the end of a unit. */
export function endsIn(text: string, command: string): number {
  return (
    text.match(new RegExp(`unit \\w{9} \\[\\w+\\] (completed|failed|killed)[^:]*: ${command}`, "g"))
      ?.length ?? 0
  );
}

export function textOf(request: LLMRequest | undefined): string {
  return request?.messages.map(({ content }) => content).join("\n") ?? "";
}

/** Paths of any kernel are the same on it. */
export const diskName = (path: string): string => path.replace(/^.*\/project(?=\/|$)/, ROOT);

/** A disk on which the syncs of the inbox, and those of the other files of the record, end when the test lets them. */
class GatedDisk extends MemoryDisk {
  readonly waiting: Record<"inbox" | "record", (() => void)[]> = { inbox: [], record: [] };
  isOpen = true;
  readonly #names = new Map<number, string>();
  readonly #folders = new Set<number>();

  override open(path: string, mode: OpenMode): number {
    const fd = super.open(path, mode);
    this.#names.set(fd, basename(path));
    if (mode === "folder") this.#folders.add(fd);
    else this.#folders.delete(fd);
    return fd;
  }

  override async fdatasync(fd: number): Promise<void> {
    const gate = this.#names.get(fd) === "inbox.jsonl" ? "inbox" : "record";
    if (!this.isOpen && !this.#folders.has(fd))
      await new Promise<void>((resolve) => this.waiting[gate].push(resolve));
    await super.fdatasync(fd);
  }

  release(gate: "inbox" | "record"): void {
    for (const resolve of this.waiting[gate].splice(0)) resolve();
  }
}

/** What plays on a stage. */
export interface Scene {
  /** Those that begin with "watch" are monitors: they print a line before they end. */
  commands: readonly string[];
  /** The model's; afterwards it has no calls. */
  answers: readonly LLMEvent[][];
  opts?: Partial<SpawnOpts>;
  /** What the user does once: "say" a message, "interrupt" an answer. */
  user?: readonly ("say" | "interrupt")[];
}

/** Turns of the event loop without anything new, after which everything is over that one act has caused. */
const QUIET_TURNS = 6;
/** What the user has sent may not have arrived at the first look. */
const LOOKS_AT_REST = 3;
/** The deadline of work in other threads, such as the first look at the project. */
const WORK_MS = 2_000;
/** A look at an output, and the time in which its lines are gathered. */
const LINES_MS = 350;

/**
 * A kernel whose model, disk, programs, clock and user do one thing at a time: the one that is chosen. So a play has
 * every race between them that the order of these things can cause.
 */
export class UnitStage {
  readonly disk = new GatedDisk(diskName);
  readonly h: KernelHarness;
  readonly #scene: Scene;
  readonly #clock = new FakeClock();
  readonly #programs = new UnitPrograms();
  readonly #done = new Set<string>();
  #answer: (() => void) | undefined;
  #mailed = false;
  #resuming = false;
  #uuid = "";
  #pid = 0;

  constructor(scene: Scene) {
    this.#scene = scene;
    let turn = 0;
    this.h = new KernelHarness({
      ...UNIT_DEVICES,
      devices: quietDevices,
      fs: this.disk,
      clock: this.#clock,
      wakes: true,
      mailed: () => {
        this.#mailed = true;
      },
      model: async (_request, signal) => {
        await new Promise<void>((resolve, reject) => {
          this.#answer = resolve;
          signal.addEventListener("abort", () => reject(signal.reason), { once: true });
        }).finally(() => {
          this.#answer = undefined;
        });
        return scene.answers[turn++] ?? says("ok");
      },
    });
    this.#programs.serve(this.h);
  }

  /** From the spawn until nothing can happen any more. */
  async play(choose: Choose): Promise<void> {
    this.#pid = await this.h.spawn("go", this.#scene.opts);
    this.#uuid = this.h.kernel.processes.info(this.#pid).uuid;
    this.disk.isOpen = false;
    for (;;) {
      const options = await this.#options();
      if (options.length === 0 && !this.#scene.opts?.chat) return;
      if (options.length === 0 && this.#done.has("say at last")) return;
      await this.#do(options.length === 0 ? "say at last" : choose(options));
    }
  }

  /** The model has read each line and each end once, and the run has come to its own end. */
  async requireOnce(): Promise<void> {
    const last = textOf(this.h.requests.at(-1));
    for (const command of this.#scene.commands) {
      expect({ command, ends: endsIn(last, command), last }).toMatchObject({ ends: 1 });
      const lines = last.split(lineOf(command)).length - 1;
      expect({ command, lines, last }).toMatchObject({ lines: isMonitor(command) ? 1 : 0 });
    }
    expect((await this.h.runs.inbox(this.#uuid)).unread).toEqual([]);
    if (!this.#scene.opts?.chat)
      expect(await this.h.runs.info(this.#uuid)).toMatchObject({ exit_code: 0, exit_reason: "completed" });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.disk.isOpen = true;
    this.disk.release("inbox");
    this.disk.release("record");
    await this.h[Symbol.asyncDispose]();
  }

  async #options(): Promise<string[]> {
    const giveUp = performance.now() + WORK_MS;
    for (let atRest = 0; ; ) {
      for (let turn = 0; turn < QUIET_TURNS; turn++) await settled();
      const options = await this.#now();
      if (await this.#isAtRest()) atRest++;
      if (options.length > 0 || atRest === LOOKS_AT_REST || performance.now() > giveUp) return options;
      if (atRest === 0) await Bun.sleep(1);
    }
  }

  /** Whether the run has ended, or waits for its user. */
  async #isAtRest(): Promise<boolean> {
    if (this.#scene.opts?.chat) return this.h.kernel.chats.waits(this.#pid);
    return (await this.h.runs.info(this.#uuid))?.exit_code === 0;
  }

  async #now(): Promise<string[]> {
    const { waiting } = this.disk;
    const info = await this.h.runs.info(this.#uuid);
    const isSuspended = info?.state === "suspended" && info.ended_at_ms !== null;
    const running = this.#scene.commands.filter((command) => this.#programs.isRunning(command));
    return [
      ...(this.#answer ? ["model"] : []),
      ...(waiting.inbox.length > 0 ? ["inbox"] : []),
      ...(waiting.record.length > 0 ? ["record"] : []),
      ...running.map((command) =>
        isMonitor(command) && !this.#done.has(`print ${command}`) ? `print ${command}` : `exit ${command}`,
      ),
      ...(this.#mailed && isSuspended && !this.#resuming ? ["resume"] : []),
      // What is interrupted waits for another message: the last one is not.
      ...(this.#scene.user ?? []).filter(
        (act) =>
          !this.#done.has(act) &&
          !this.#done.has("say at last") &&
          (act === "say" || this.#answer !== undefined),
      ),
    ];
  }

  async #do(what: string): Promise<void> {
    this.#done.add(what);
    const [verb = "", ...words] = what.split(" ");
    const command = words.join(" ");
    const acts: Record<string, () => unknown> = {
      model: () => this.#answer?.(),
      inbox: () => this.disk.release("inbox"),
      record: () => this.disk.release("record"),
      exit: () => this.#programs.exit(command, 0),
      print: async () => {
        this.#programs.print(command, `${lineOf(command)}\n`);
        await this.#clock.advance(LINES_MS);
      },
      say: () => void this.h.kernel.chats.send(this.#pid, { text: what, when: "next_step" }),
      interrupt: () => void this.h.kernel.chats.interrupt(this.#pid),
      resume: () => this.#resume(),
    };
    await acts[verb]?.();
  }

  /** As the waker does. It needs the disk, so this does not wait for it. */
  #resume(): void {
    this.#mailed = false;
    this.#resuming = true;
    const opts = this.h.opts(this.#scene.opts);
    void this.h.kernel.lifecycle.resume(this.#uuid, null, opts).finally(() => {
      this.#resuming = false;
    });
  }
}

function isMonitor(command: string): boolean {
  return command.startsWith("watch");
}
