/** One version of a plugin from disk, with the runs that hold it. */

import { type Plugin, SyscallError } from "../index.ts";
import type { PluginProcess } from "./plugin-process.ts";
import type { ProcessOptions, Timers } from "./process-options.ts";
import { remotePlugin } from "./remote-plugin.ts";
import type { Problem } from "./report.ts";

/** The limit of restarts after unexpected ends of a process, as a supervisor's. */
const RESTARTS = { most: 3, withinMs: 60_000 };

interface VersionPorts extends Pick<ProcessOptions, "log"> {
  timers: Timers;
  /** Unix ms. */
  now(): number;
  /** How long an unused process is kept. */
  idleMs: number;
  start(): Promise<PluginProcess>;
}

/**
 * One version of a plugin from disk, held by the runs that were spawned with it. If its process ends unexpectedly, the
 * next call starts a new one. A retired version (its files changed or are gone) answers until the last run releases it
 * and its last file is closed. An unused version ends after a while and is started again when needed.
 */
export class PluginVersion {
  readonly name: string;
  readonly digest: string;
  /** Calls go to the running process. */
  readonly plugin: Plugin;
  readonly #ports: VersionPorts;
  #process: PluginProcess;
  #restart: Promise<PluginProcess> | undefined;
  /** Times of the restarts within the last period. */
  #restarts: number[] = [];
  /** Why the process before this one ended. */
  #lastCrash: Problem | undefined;
  #held = 0;
  #retired = false;
  #idle: { cancel(): void } | undefined;
  #ending: Promise<void> | undefined;

  constructor(digest: string, worker: PluginProcess, ports: VersionPorts) {
    this.name = worker.name;
    this.digest = digest;
    this.#ports = ports;
    this.#process = worker;
    this.plugin = remotePlugin(worker.name, worker.shape, async () => (await this.running()).link);
  }

  /** False when it has ended or is ending: it must not be leased any more. */
  get usable(): boolean {
    const { ended, crash } = this.#process.link;
    return this.#ending === undefined && (ended === undefined || crash !== undefined);
  }

  /** Problems while it ran, and why its process ended. */
  get problems(): Problem[] {
    const { problems } = this.#process.link;
    const before = this.#lastCrash;
    if (!before || problems.some(({ message }) => message === before.message)) return [...problems];
    return [before, ...problems];
  }

  /**
   * The running process; a new one if the last ended unexpectedly. Fails with EXHAUSTED after too many restarts, with
   * CLOSED after the end of the version, and with the plugin's error if it can't be loaded.
   */
  async running(): Promise<PluginProcess> {
    await this.#process.link.checked;
    const { ended, crash } = this.#process.link;
    if (!ended) return this.#process;
    if (this.#ending || !crash) throw ended;
    this.#restart ??= this.#startAgain(crash).finally(() => {
      this.#restart = undefined;
    });
    return this.#restart;
  }

  /** Holds it until the returned function is called. */
  hold(): () => void {
    this.#held++;
    this.#idle?.cancel();
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.#held--;
      this.settle();
    };
  }

  retire(): void {
    this.#retired = true;
    this.settle();
  }

  /** Ends it when it is unused and retired, else starts its idle timer. Called after each release. */
  settle(): void {
    this.#idle?.cancel();
    if (this.#ending || this.#held > 0 || this.#process.link.files.size > 0) return;
    if (this.#retired) void this.end();
    else this.#idle = this.#ports.timers.timer(this.#ports.idleMs, () => void this.end());
  }

  /** Never throws. */
  end(): Promise<void> {
    this.#idle?.cancel();
    this.#ending ??= this.#end();
    return this.#ending;
  }

  async #end(): Promise<void> {
    // Its caller gets the error of a restart that fails.
    await this.#restart?.catch(() => undefined);
    await this.#process.end();
  }

  async #startAgain(crash: Problem): Promise<PluginProcess> {
    const { log, now, start } = this.#ports;
    const at = now();
    this.#restarts = this.#restarts.filter((restart) => restart > at - RESTARTS.withinMs);
    const [oldest] = this.#restarts;
    if (oldest !== undefined && this.#restarts.length >= RESTARTS.most) {
      const times = `ended ${RESTARTS.most + 1} times within ${RESTARTS.withinMs / 1000} s`;
      const waitSeconds = Math.ceil((oldest + RESTARTS.withinMs - at) / 1000);
      const again = `It can be started again in ${waitSeconds} s, or when its files change`;
      throw new SyscallError("EXHAUSTED", `Plugin ${this.name} ${times}. ${crash.message} ${again}.`);
    }
    this.#restarts.push(at);
    this.#lastCrash = crash;
    log?.("warn", this.name, `${crash.message} It is started again.`);
    this.#process = await start();
    return this.#process;
  }
}
