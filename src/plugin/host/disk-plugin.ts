/** A plugin on disk: reads it, and replaces its process when its files change. */

import { type BigIntStats, statSync } from "node:fs";
import type { StartProgram } from "../../lib/program-channel.ts";
import { SyscallError } from "../index.ts";
import { listDigest } from "./embedded.ts";
import { PluginProcess } from "./plugin-process.ts";
import { PluginVersion } from "./plugin-version.ts";
import type { Confine, ProcessOptions, Timers } from "./process-options.ts";
import type { Problem } from "./report.ts";
import { type StaticCheck, staticCheck } from "./static-check.ts";

/** A plugin that was read without problems. */
export type Loadable = Pick<StaticCheck, "files"> & { code: string };

export interface DiskPorts extends Pick<ProcessOptions, "limits" | "log" | "start"> {
  timers: Timers;
  /** Unix ms. */
  now(): number;
  /** How long an unused process is kept. */
  idleMs: number;
  confine(): ReturnType<Confine>;
}

/** One plugin on disk: its files, and the processes of its versions. */
export class DiskPlugin {
  readonly name: string;
  readonly entry: string;
  readonly #ports: DiskPorts;
  readonly #stamps = new Stamps();
  /** The present version, and old versions that are still in use. */
  readonly #versions = new Set<PluginVersion>();
  #check: Promise<StaticCheck> | undefined;
  #loading: { digest: string; version: Promise<PluginVersion> } | undefined;
  #current: PluginVersion | undefined;
  #failed: { digest: string; error: SyscallError } | undefined;
  /** Running imports. */
  readonly #starting = new Set<AbortController>();

  constructor(name: string, entry: string, ports: DiskPorts) {
    this.name = name;
    this.entry = entry;
    this.#ports = ports;
  }

  /** Its files and their static problems. Reads nothing when no file has changed. */
  async read(): Promise<StaticCheck> {
    if (!this.#check || !this.#stamps.same) this.#check = this.#readAnew();
    return this.#check;
  }

  /**
   * The running version of what was read: its process gets that code, not the present files. Throws the plugin's
   * problem.
   */
  async load({ files, code }: Loadable): Promise<PluginVersion> {
    const digest = listDigest(files);
    const current = this.#current;
    if (current?.digest === digest && current.usable) {
      await current.running();
      return current;
    }
    if (this.#loading?.digest !== digest) {
      const version = this.#load(digest, code).finally(() => {
        if (this.#loading?.version === version) this.#loading = undefined;
      });
      this.#loading = { digest, version };
    }
    return this.#loading.version;
  }

  /** Problems of the present version while it ran. */
  get problems(): Problem[] {
    return this.#current?.problems ?? [];
  }

  /** Called when it is gone from its folder. */
  retire(): void {
    this.#current?.retire();
    this.#current = undefined;
  }

  /** Ends all its processes, also those in use. */
  async end(): Promise<void> {
    for (const starting of this.#starting) starting.abort();
    await this.#loading?.version.catch(() => null);
    await Promise.all([...this.#versions].map((version) => version.end()));
  }

  async #readAnew(): Promise<StaticCheck> {
    const from = this.#ports.now();
    const check = await staticCheck(this.entry);
    // A missing file has no stamp, so a broken plugin is read again every time.
    this.#stamps.take(check.problems.length > 0 ? [] : check.files.map(({ path }) => path), from);
    return check;
  }

  async #load(digest: string, code: string): Promise<PluginVersion> {
    if (this.#failed?.digest === digest) throw this.#failed.error;
    const worker = await this.#start(code).catch((error: SyscallError) => {
      // What the machine lacks, such as a sandbox, may be there next time.
      if (error.code !== "UNAVAILABLE") this.#failed = { digest, error };
      throw error;
    });
    this.#current?.retire();
    const version = new PluginVersion(digest, worker, { ...this.#ports, start: () => this.#start(code) });
    this.#versions.add(version);
    this.#current = version;
    version.settle();
    return version;
  }

  async #start(code: string): Promise<PluginProcess> {
    const { name, entry } = this;
    const { limits, timers, log, start: plainly, confine } = this.#ports;
    const starting = new AbortController();
    this.#starting.add(starting);
    try {
      const { signal } = starting;
      const confined = await confine();
      const start: StartProgram = (argv, onMessage) =>
        plainly(confined?.argv(argv) ?? argv, onMessage, confined?.isNested ? argv : undefined);
      const onLess = (): void => this.#less();
      return await PluginProcess.start({ name, entry, code, limits, start, timers, log, signal, onLess });
    } catch (thrown) {
      throw thrown instanceof SyscallError ? thrown : new SyscallError("DRIVER", String(thrown));
    } finally {
      this.#starting.delete(starting);
    }
  }

  #less(): void {
    for (const version of this.#versions) {
      version.settle();
      if (!version.usable) this.#versions.delete(version);
    }
  }
}

/** A younger change is not trusted: file systems keep times in steps of a few ms. */
const GRAIN_MS = 50;

/**
 * Remembers the metadata of files (time, size, identity), so that a check for changes costs one stat each. A file that
 * changed just before it was read counts as changed next time too: a second change within the same clock tick would not
 * show.
 */
class Stamps {
  #stamps: ReadonlyMap<string, string | null> = new Map();

  /** `readAt`: unix ms at which reading the files began. */
  take(files: readonly string[], readAt: number): void {
    this.#stamps = new Map(files.map((file) => [file, stampOf(file, readAt - GRAIN_MS)]));
  }

  /** True when there are files and none of them has changed. */
  get same(): boolean {
    if (this.#stamps.size === 0) return false;
    for (const [file, stamp] of this.#stamps) {
      if (stamp === null || stamp !== stampOf(file, Number.POSITIVE_INFINITY)) return false;
    }
    return true;
  }
}

/** Returns null for a file that is gone, or that changed at `settledBy` (unix ms) or later. */
function stampOf(file: string, settledBy: number): string | null {
  const found: BigIntStats | undefined = statSync(file, { bigint: true, throwIfNoEntry: false });
  if (!found || Number(found.ctimeMs) >= settledBy) return null;
  return `${found.mtimeNs}:${found.ctimeNs}:${found.size}:${found.ino}:${found.dev}`;
}
