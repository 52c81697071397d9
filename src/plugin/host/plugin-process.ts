/** One process of a plugin version: its start, its state and its end. */

import type { Plugin } from "../index.ts";
import { ProcessLink } from "./process-link.ts";
import type { ProcessOptions } from "./process-options.ts";
import { remotePlugin } from "./remote-plugin.ts";
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

  /** Calls the plugin's `dispose`, then ends the process. Safe to call again. Never throws. */
  async end(): Promise<void> {
    const { link, shape } = this;
    if (shape.dispose && !link.ended)
      await link.ask({ m: "dispose" }, { limit: "callMs" }).catch((thrown) => link.recordProblem(thrown));
    await link.end();
  }
}
