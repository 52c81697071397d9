/** Runs the daemon from its lock to its end. */

import type { Socket } from "node:net";
import type { UserPaths } from "../../config/environment/paths.ts";
import type { SuspendCause } from "../../kernel/types.ts";
import { type Clock, every, type Timer, withTimeout } from "../../lib/clock.ts";
import type { Logger } from "../../lib/logger.ts";
import { makeSocketFolder } from "../../protocol/daemon-paths.ts";
import { Server } from "../server.ts";
import type { BootedServer, Draining, Host, Services } from "../services.ts";
import { DaemonEndpoint, type Lock } from "./daemon-endpoint.ts";
import { answers, descriptorOf } from "./socket.ts";

/** How long a second daemon waits for one that is ending, and how often it checks. */
const LOCK_WAIT_MS = 3000;
const LOCK_POLL_MS = 20;
/** Time beyond their grace for processes to suspend, and then for killed processes to end. */
const END_MS = 5000;

export interface DaemonPorts {
  paths: Pick<UserPaths, "socket" | "pidFile" | "lockFile">;
  uid: number;
  clock: Clock;
  /** null: held by another. Free again after kill -9 of its holder. */
  tryLock(path: string): Lock | null;
  idle: { afterMs: number | null; everyMs: number };
  graceMs: number;
  /** Time for running tool calls to finish when a client has requested the stop. */
  drainMs: number;
  logFile: string;
  logger: Logger;
  boot(host: Host): Promise<BootedServer>;
  /** Calls `stop` for SIGTERM, SIGINT and internal errors; returns a function that stops listening. */
  onSignal(stop: (now: boolean) => void): () => void;
}

/**
 * How the daemon ended. "blocked": another daemon holds the lock and does not answer, or a required unit did not start.
 */
type DaemonEnd = "stopped" | "already running" | "blocked" | { failed: unknown };

/**
 * The long-running process, from taking its lock to removing its last file. There is one per socket: the lock is held
 * for life, and a socket is stale exactly when the lock is free. Resolves when everything is closed.
 */
export async function runDaemon(ports: DaemonPorts): Promise<DaemonEnd> {
  makeSocketFolder(ports.paths.socket, ports.uid);
  const lock = await acquire(ports);
  if (typeof lock === "string") return lock;
  return await new Daemon(ports, lock).run();
}

/** Waits for a predecessor that is ending; one that answers stays. */
async function acquire(ports: DaemonPorts): Promise<Lock | "already running" | "blocked"> {
  const { clock, paths } = ports;
  const until = clock.monotonic() + LOCK_WAIT_MS;
  for (;;) {
    const lock = ports.tryLock(paths.lockFile);
    if (lock) return lock;
    if (await answers(paths.socket)) return "already running";
    if (clock.monotonic() >= until) return "blocked";
    await new Promise<void>((resolve) => clock.timer(LOCK_POLL_MS, resolve));
  }
}

/** Whether the daemon must stay without work: for a schedule, or a run that is to be woken at a time. */
function isNeeded({ init, recovery, cron, waker }: Services): boolean {
  return [init?.starting, recovery.busy, cron?.busy, waker?.busy].includes(true);
}

class Daemon {
  readonly #ports: DaemonPorts;
  readonly #stopped = Promise.withResolvers<void>();
  #stopping = false;
  /** Why the daemon did not start. */
  #failure: { failed: unknown } | undefined;
  #booted: BootedServer | undefined;
  #server: Server | undefined;
  #accept: ((stream: Socket) => void) | undefined;
  readonly #endpoint: DaemonEndpoint;

  constructor(ports: DaemonPorts, lock: Lock) {
    this.#ports = ports;
    const accept = (stream: Socket): void => this.#accept?.(stream);
    this.#endpoint = new DaemonEndpoint(
      { ...ports, accept, onReplaced: () => this.#stop(false, { cause: "restart" }) },
      lock,
    );
  }

  async run(): Promise<DaemonEnd> {
    const { paths, clock, idle, logger } = this.#ports;
    const loopDelay = new LoopDelay(clock);
    let idleStop: IdleStop | undefined;
    let gcHint: GcHint | undefined;
    const unlisten = this.#ports.onSignal((now) => this.#stop(now));
    try {
      this.#endpoint.claim();
      const booted = await this.#ports.boot(this.#host(loopDelay));
      this.#booted = booted;
      const server = new Server(booted.system);
      this.#server = server;
      const busy = (): boolean =>
        booted.system.kernel.processes.count > 0 || server.connections > 0 || isNeeded(booted.system);
      gcHint = new GcHint({ clock });
      idleStop = new IdleStop({ clock, ...idle, busy, stop: () => this.#retire() });
      this.#accept = (stream) => {
        server.accept(stream, () => descriptorOf(stream));
        stream.once("close", () => {
          gcHint?.served();
          idleStop?.needed();
        });
      };
      await this.#endpoint.open();
      logger.info("daemon", `listening on ${paths.socket}`);
      this.#startServices(booted);
      booted.system.waker
        ?.start()
        .catch((error: unknown) =>
          logger.warn("waker", `suspended runs could not be read: ${String(error)}`),
        );
      await this.#stopped.promise;
      idleStop.close();
      await this.#close(server, booted);
      logger.info("daemon", "stopped");
      return this.#failure ?? "stopped";
    } finally {
      unlisten();
      idleStop?.close();
      gcHint?.close();
      loopDelay.close();
      await this.#endpoint.release();
    }
  }

  /**
   * Starts recovery and init.yaml behind the open socket: units may be clients themselves, and the user can ask for the
   * status. The daemon ends if a required unit does not start.
   */
  #startServices({ system }: BootedServer): void {
    // Not awaited: recovery logs its own failures.
    void system.recovery.start();
    system.cron?.start();
    system.init?.start().catch((failed: unknown) => {
      // If the daemon is stopping, that is why the start failed.
      if (!this.#stopping) this.#failure = { failed };
      this.#stop(false);
    });
  }

  #host(loopDelay: LoopDelay): Host {
    return {
      socket: this.#ports.paths.socket,
      log: this.#ports.logFile,
      connections: () => this.#server?.connections ?? 0,
      loopDelay: () => loopDelay.read(),
      stop: (now, { restart = false } = {}) => this.#drain(now, restart ? "restart" : "stop"),
    };
  }

  /** Stops at a client's request: running tool calls may finish. */
  #drain(now: boolean, cause: SuspendCause): Draining | undefined {
    const ms = now ? 0 : this.#ports.drainMs;
    const calls = this.#booted?.system.kernel.lifecycle.callsUnderWay ?? 0;
    this.#stop(now, { cause, drainMs: ms });
    if (ms === 0 || calls === 0) return undefined;
    this.#ports.logger.info("daemon", `stopping: waiting up to ${ms} ms for ${calls} tool calls under way`);
    return { calls, ms };
  }

  /** Stops an idle daemon. The socket is closed first, so that a new client starts a new daemon and is not cut off. */
  #retire(): void {
    this.#ports.logger.info("daemon", "nothing to do: stopping");
    this.#endpoint.close();
    this.#stop(false);
  }

  /**
   * The first call begins the shutdown; a later one with `now` shortens it. A signal does not wait for calls under way:
   * the machine may be going down.
   */
  #stop(
    now: boolean,
    { cause = "stop", drainMs = 0 }: { cause?: SuspendCause; drainMs?: number } = {},
  ): void {
    const { kernel, recovery } = this.#booted?.system ?? {};
    if (this.#stopping && !now) return;
    this.#stopping = true;
    // The next daemon wakes waiting runs and resumes the others.
    void this.#booted?.system.waker?.close();
    recovery?.stop();
    const drained = kernel?.shutdown({ now, cause, drainMs }) ?? Promise.resolve();
    drained.then(this.#stopped.resolve, (error: unknown) => {
      this.#ports.logger.warn("daemon", `the processes did not end well: ${String(error)}`);
      this.#stopped.resolve();
    });
    if (now) return;
    void this.#enforceDeadline(drainMs);
  }

  /** Kills processes that do not end in time, and stops without those that can't be killed. */
  async #enforceDeadline(drainMs: number): Promise<void> {
    const { clock, graceMs, logger } = this.#ports;
    if (await withTimeout(clock, drainMs + graceMs + END_MS, this.#stopped.promise)) return;
    logger.warn("daemon", "the processes did not end in time: killing them");
    this.#stop(true);
    if (await withTimeout(clock, graceMs + END_MS, this.#stopped.promise)) return;
    logger.warn("daemon", "some processes can't be ended: stopping without them");
    this.#stopped.resolve();
  }

  /** In reverse order of the start: refuses new clients, disconnects clients, stops the kernel. */
  async #close(server: Server, booted: BootedServer): Promise<void> {
    this.#endpoint.close();
    await server.close();
    await booted.close();
  }
}

interface GcHintPorts {
  clock: Clock;
  /** Beside the thread. */
  collect?(): void;
  /** Drops the compiled code as well, and returns the memory to the system: 30 ms of the thread. */
  shrink?(): void;
  /** The processor time of this process, in ms. */
  cpuMs?(): number;
}

/** Number of connections between two collections. */
const EVERY = 10;
const LOOK_MS = 60_000;
/** In the time of a look. Less compiles little; `shrink` itself takes a part of it. */
const WORK_MS = 100;

/**
 * Keeps the daemon's memory small. The runtime by itself collects only after its heap has grown by half, and it hardly
 * returns memory to the system. A requested collection runs beside the thread and costs two milliseconds of another
 * core for each connection. A daemon that waits, for the night's job, the next command or the answers of models, needs
 * no compiled code, which is half of its memory.
 */
export class GcHint {
  readonly #ports: Required<GcHintPorts>;
  #served = 0;
  #cpuMs = 0;
  #hasWorked = true;
  readonly #timer: Timer;

  constructor(ports: GcHintPorts) {
    this.#ports = { collect: () => void Bun.gc(false), shrink: Bun.shrink, cpuMs: ownCpuMs, ...ports };
    this.#timer = every(ports.clock, LOOK_MS, () => this.#look());
  }

  /** Called when a connection has ended, which often means that a run has ended. */
  served(): void {
    this.#served += 1;
    if (this.#served % EVERY === 0) this.#ports.collect();
  }

  close(): void {
    this.#timer.cancel();
  }

  #look(): void {
    const { shrink, cpuMs } = this.#ports;
    const before = this.#cpuMs;
    this.#cpuMs = cpuMs();
    const hasWorked = this.#cpuMs - before >= WORK_MS;
    if (this.#hasWorked && !hasWorked) shrink();
    this.#hasWorked = hasWorked;
  }
}

function ownCpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

interface IdleStopPorts {
  clock: Clock;
  /** null: never. */
  afterMs: number | null;
  everyMs: number;
  /** Checked regularly. True while a process is active or a client is connected: then the idle time starts again. */
  busy(): boolean;
  stop(): void;
}

/** Stops the daemon when it has been idle for a while (seeds 5.1). */
export class IdleStop {
  readonly #ports: IdleStopPorts;
  /** undefined: the last check found work. */
  #idleSince: number | undefined;
  #timer: Timer | undefined;

  constructor(ports: IdleStopPorts) {
    this.#ports = ports;
    this.#idleSince = ports.clock.monotonic();
    this.#arm();
  }

  /** Restarts the idle time. Most commands connect and disconnect between two checks. */
  needed(): void {
    this.#idleSince = this.#ports.clock.monotonic();
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #arm(): void {
    const { clock, everyMs, afterMs } = this.#ports;
    if (afterMs !== null) this.#timer = clock.timer(everyMs, () => this.#look(afterMs));
  }

  #look(afterMs: number): void {
    const { clock, busy, stop } = this.#ports;
    const now = clock.monotonic();
    // A check may come late: only from the first one without work on is the daemon known to be idle.
    this.#idleSince = busy() ? undefined : (this.#idleSince ?? now);
    if (this.#idleSince !== undefined && now - this.#idleSince >= afterMs) stop();
    else this.#arm();
  }
}

const EVERY_MS = 1000;
const SAMPLES = 60;

/** Measures how late timers fire: the delay that synchronous work in the server's thread causes. */
export class LoopDelay {
  readonly #samples: number[] = [];
  readonly #timer: Timer;

  constructor(clock: Clock) {
    let due = clock.monotonic() + EVERY_MS;
    this.#timer = every(clock, EVERY_MS, () => {
      const now = clock.monotonic();
      this.#samples.push(Math.max(0, Math.round((now - due) * 100) / 100));
      if (this.#samples.length > SAMPLES) this.#samples.shift();
      due = now + EVERY_MS;
    });
  }

  /** The delays of the last minute, in ms. */
  read(): { p50: number; max: number } {
    const sorted = [...this.#samples].sort((a, b) => a - b);
    return { p50: sorted[Math.floor(sorted.length / 2)] ?? 0, max: sorted.at(-1) ?? 0 };
  }

  close(): void {
    this.#timer.cancel();
  }
}
