import { type Plugin, SyscallError } from "../index.ts";
import type { DiskPlugin, DiskPorts, Loadable } from "./disk-plugin.ts";
import { compiled, type EmbeddedPlugin, listDigest } from "./embedded.ts";
import { besideBinary, EmbeddedCopies, type Found, lookUp, nameOf, pluginFolders } from "./folders.ts";
import { type HostLease, leaseOf, type Mountable } from "./lease.ts";
import { pluginSettings } from "./plugin-settings.ts";
import {
  asProblem,
  type CheckReport,
  describe,
  newReport,
  type PluginReport,
  type Problem,
} from "./report.ts";
import type { FileDigest } from "./stock-files.ts";
import { StockPlugins } from "./stock-plugins.ts";
import { realTimers } from "./timers.ts";

/** A project as the plugin host needs it: config's Project, its trust and its settings. */
export interface HostProject {
  id: string;
  dir: string;
  /** With "none" there is no project: nothing of the folder is read. */
  kind: "rnix" | "git" | "folder" | "none";
  /** Whether these files (absolute paths, with their present digests) may run. Asked at every lease. */
  isTrusted(files: readonly FileDigest[]): boolean;
  /** config.yaml's `plugins`: each plugin's part by its name. */
  settings?: Readonly<Record<string, unknown>>;
}

export interface HostOptions extends Partial<DiskPorts> {
  /** `~/.config/rnix`. */
  configDir: string;
  /** The folder whose `plugins/` belongs to the stock: by default the executable's. Null for none. */
  beside?: string | null;
}

/** A plugin of a project as trust is asked for it. */
interface ProjectPlugin {
  name: string;
  /** Absolute: its entry first, then everything it imports. */
  files: string[];
  /** Paths and tools of stock plugins that its sources name. */
  takes: string[];
  problems: Problem[];
}

/** One plugin on the way into a lease. */
interface Step {
  report: PluginReport;
  /** Set when it is the one of its name and may run. */
  load?: () => Promise<Loading>;
}

/** What loading came to: the plugin, held until `release`, or only the problems that stopped it. */
interface Loading {
  held?: { plugin: Plugin; release: () => void };
  problems: readonly Problem[];
}

/** A version may end between being loaded and being held: another run brought a newer one. */
const MOST_ATTEMPTS = 3;
const IDLE_MS = 5 * 60_000;

/**
 * Finds, checks, loads and reloads plugins (design §5). Stock ones run in this thread, imported on first
 * use; plugins from disk have a Worker per version. One that is broken, untrusted or hung is named in the
 * reports and stops nothing else.
 */
export class PluginHost {
  readonly #configDir: string;
  readonly #beside: string | null;
  readonly #ports: DiskPorts;
  readonly #stock = new StockPlugins();
  readonly #copies: EmbeddedCopies;
  readonly #disk = new Map<string, DiskPlugin>();
  #closed = false;

  constructor({ configDir, beside = compiled ? besideBinary() : null, ...ports }: HostOptions) {
    this.#configDir = configDir;
    this.#beside = beside;
    this.#ports = { timers: realTimers, now: Date.now, idleMs: IDLE_MS, ...ports };
    this.#copies = new EmbeddedCopies(this.#ports.now);
  }

  /**
   * The devices a run in this project sees, as the files are now. Held until `release`: a plugin that
   * changes later goes on answering for this lease. A plugin that can't be had is in `reports`.
   */
  async lease(project: HostProject): Promise<HostLease> {
    if (this.#closed) throw new SyscallError("CLOSED", "The plugin host is closed.");
    const steps = await this.#steps(project);
    const loaded = await Promise.all(steps.map((step) => this.#load(step, project.settings)));
    return leaseOf(
      steps.map(({ report }) => report),
      loaded.filter((one) => one !== undefined),
    );
  }

  /** What there is and what became of it, for `rnix plugins`. Loads what a run would load. */
  async list(project: HostProject): Promise<PluginReport[]> {
    const lease = await this.lease(project);
    lease.release();
    return lease.reports;
  }

  /** The project's own plugins, read without running them, for `rnix trust`. */
  async review(project: HostProject): Promise<ProjectPlugin[]> {
    const own = this.#look(project).filter(
      ({ layer, refused }) => layer === "project" && refused === undefined,
    );
    return Promise.all(
      own.map(async (found) => {
        const { files, problems } = await (await this.#diskPlugin(found)).read();
        const others = files.map(({ path }) => path).filter((path) => path !== found.entry);
        const takes = await this.#stock.mentionedBy(found.name, files);
        return { name: found.name, files: [found.entry, ...others], takes, problems: [...problems] };
      }),
    );
  }

  /**
   * Reads the file, then loads it on trial in a Worker of its own, where `mayRun` says so of what was read. That runs
   * its code. `file`: absolute.
   */
  async check(file: string, mayRun: HostProject["isTrusted"]): Promise<CheckReport> {
    const { checkPlugin } = await import("./check.ts");
    return checkPlugin(nameOf(file), file, mayRun, this.#stock, this.#ports);
  }

  /** Ends every Worker and disposes of the stock plugins. Files that are still open answer CLOSED. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([this.#stock.dispose(), ...[...this.#disk.values()].map((plugin) => plugin.end())]);
    this.#disk.clear();
  }

  /** What there is, farthest first, with whatever is not the one of its name or may not run already said. */
  async #steps(project: HostProject): Promise<Step[]> {
    const found = this.#look(project);
    const disk = await Promise.all(found.map((one) => this.#readStep(one, project)));
    const steps = [...this.#stock.all.map((stock) => this.#stockStep(stock)), ...disk];
    const winners = new Map(steps.filter(({ load }) => load).map((step) => [step.report.name, step]));
    for (const step of steps) {
      if (!step.load || winners.get(step.report.name) === step) continue;
      step.load = undefined;
      step.report.state = "overridden";
    }
    return steps;
  }

  #stockStep(stock: EmbeddedPlugin): Step {
    const report = newReport(stock.name, "stock", "embedded");
    report.version = short(stock.digest);
    const load = async () => ({
      held: { plugin: await this.#stock.load(stock), release: () => {} },
      problems: [],
    });
    return { report, load };
  }

  async #readStep(found: Found, project: HostProject): Promise<Step> {
    const report = newReport(found.name, found.layer, found.entry);
    if (found.refused !== undefined) {
      report.problems.push({ message: found.refused });
      return { report };
    }
    const plugin = await this.#diskPlugin(found);
    const { files, problems, code } = await plugin.read();
    if (files.length > 0) report.version = short(listDigest(files));
    if (found.layer === "project" && !project.isTrusted(files)) {
      report.state = "untrusted";
      report.problems.push(...problems);
      return { report };
    }
    if (code === null) return { report, load: async () => ({ problems }) };
    return { report, load: () => loadDisk(plugin, { files, code }) };
  }

  /** Loads what is to be loaded, and says in the report what became of it. Never throws. */
  async #load({ report, load }: Step, settings: HostProject["settings"]): Promise<Mountable | undefined> {
    let release: (() => void) | undefined;
    try {
      const loading = await load?.();
      report.problems.push(...(loading?.problems ?? []));
      if (!loading?.held) return undefined;
      const { plugin } = loading.held;
      release = loading.held.release;
      const config = pluginSettings(plugin, settings?.[plugin.name]);
      if (report.runs === "worker") report.takes = await this.#stock.takenBy(plugin.name, plugin);
      describe(report, plugin);
      return { report, plugin, config, release };
    } catch (thrown) {
      release?.();
      report.problems.push(asProblem(thrown));
      return undefined;
    }
  }

  /** What is on disk, but for copies of what is embedded. Farthest first. Lets go of what is gone. */
  #look({ dir, kind }: HostProject): Found[] {
    const folders = pluginFolders(this.#configDir, kind === "none" ? null : dir, this.#beside);
    const all = lookUp(folders);
    const entries = new Set(all.map(({ entry }) => entry));
    for (const [entry, plugin] of this.#disk) {
      if (entries.has(entry) || !folders.some(({ path }) => entry.startsWith(`${path}/`))) continue;
      plugin.retire();
      this.#disk.delete(entry);
    }
    return all.filter((one) => !this.#copies.isCopy(one, this.#stock.named(one.name)));
  }

  async #diskPlugin({ name, entry }: Found): Promise<DiskPlugin> {
    // What only plugins from disk need, the Worker's side and zod, is loaded with the first of them.
    const { DiskPlugin } = await import("./disk-plugin.ts");
    const known = this.#disk.get(entry) ?? new DiskPlugin(name, entry, this.#ports);
    this.#disk.set(entry, known);
    return known;
  }
}

async function loadDisk(plugin: DiskPlugin, read: Loadable): Promise<Loading> {
  try {
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
      const version = await plugin.load(read);
      if (!version.usable) continue;
      return { held: { plugin: version.worker.plugin, release: version.hold() }, problems: plugin.problems };
    }
    return {
      problems: [{ message: "It ended again and again right after it was loaded." }, ...plugin.problems],
    };
  } catch (thrown) {
    return { problems: [...plugin.problems, asProblem(thrown)] };
  }
}

/** Enough of a digest for a person to tell versions apart. */
function short(digest: string): string {
  return digest.slice(0, 12);
}
