/** One process of a plugin version: its start, its state and its end. */

import type { Plugin, SyscallError } from "../index.ts";
import { ProcessLink } from "./process-link.ts";
import type { ProcessOptions } from "./process-options.ts";
import { remotePlugin } from "./remote-plugin.ts";
import type { Problem } from "./report.ts";
import { judge, type PluginShape } from "./shape.ts";

/**
 * The kernel's side of one plugin version in a process of its own. The kernel uses `plugin` like any other plugin. A call past
 * its deadline fails here, whatever the driver does. A process that then does not respond is ended, and its open files
 * fail with CLOSED.
 */
export class PluginProcess {
  readonly name: string;
  readonly shape: PluginShape;
  readonly link: ProcessLink;

  /** Starts a process and imports the plugin in it. Throws the plugin's error, with its position as cause. */
  static async start(options: ProcessOptions): Promise<PluginProcess> {
    const link = new ProcessLink(options);
    try {
      const { shape, warnings } = judge(options.name, await link.load());
      link.problems.push(...warnings.map((message) => ({ message })));
      return new PluginProcess(options.name, shape, link);
    } catch (thrown) {
      await link.end();
      throw thrown;
    }
  }

  private constructor(name: string, shape: PluginShape, link: ProcessLink) {
    this.name = name;
    this.shape = shape;
    this.link = link;
  }

  get plugin(): Plugin {
    return remotePlugin(this.name, this.shape, async () => this.link);
  }

  /** The latest problems, newest last. */
  get problems(): Problem[] {
    return this.link.problems;
  }

  /** Why it has ended; undefined while it runs. */
  get ended(): SyscallError | undefined {
    return this.link.ended;
  }

  /** Why it ended, if the end was unexpected. */
  get crash(): Problem | undefined {
    return this.link.crash;
  }

  /** Set while it is not known whether it still responds; resolves when it is. */
  get checked(): Promise<void> | undefined {
    return this.link.checked;
  }

  get openFiles(): number {
    return this.link.files.size;
  }

  /** Calls the plugin's `dispose`, then ends the process. Safe to call again. Never throws. */
  async end(): Promise<void> {
    if (this.shape.dispose && !this.ended) {
      await this.link
        .ask({ m: "dispose" }, { limit: "callMs" })
        .catch((thrown) => this.link.recordProblem(thrown));
    }
    await this.link.end();
  }
}
