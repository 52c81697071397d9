/** The kernel's side of a plugin that runs in a process. */

import type {
  Data,
  Device,
  FileStat,
  Mounted,
  MountType,
  OpenContext,
  OpenFlag,
  Plugin,
  SyscallError,
  VFSFile,
} from "../index.ts";
import { ProcessLink } from "./process-link.ts";
import type { ProcessOptions } from "./process-options.ts";
import type { Problem } from "./report.ts";
import { judge, judgeMounted, type PluginShape } from "./shape.ts";
import { type DriverCall, SERVICES, type WireContext } from "./wire.ts";

/**
 * The kernel's side of one plugin version in a process of its own. The kernel uses `plugin` like any other plugin. A call past
 * its deadline fails here, whatever the driver does. A process that then does not respond is ended, and its open files
 * fail with CLOSED.
 */
export class PluginProcess {
  readonly name: string;
  readonly shape: PluginShape;
  readonly plugin: Plugin;
  /** The latest problems, newest last. */
  readonly problems: Problem[];
  readonly #link: ProcessLink;

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
    this.problems = link.problems;
    this.#link = link;
    this.plugin = {
      name,
      needs: needsOf(shape),
      secrets: shape.secrets,
      configSchema: shape.configSchema,
      devices: this.#devices(),
      mount: this.#mountType(),
      commands: shape.commands,
      ...(shape.prompt && {
        prompt: (context, signal) =>
          this.#withContext(context, (as) => this.#link.ask({ m: "prompt", ...as }, { signal })),
      }),
      ...(shape.filesChanged && {
        filesChanged: (files, context, signal) =>
          this.#withContext(context, (as) =>
            this.#link.ask({ m: "filesChanged", files: [...files], ...as }, { signal }),
          ),
      }),
    };
  }

  /** Why it has ended; undefined while it runs. */
  get ended(): SyscallError | undefined {
    return this.#link.ended;
  }

  /** Why it ended, if the end was unexpected. */
  get crash(): Problem | undefined {
    return this.#link.crash;
  }

  /** Set while it is not known whether it still responds; resolves when it is. */
  get checked(): Promise<void> | undefined {
    return this.#link.checked;
  }

  get openFiles(): number {
    return this.#link.files.size;
  }

  /** Calls the plugin's `dispose`, then ends the process. Safe to call again. Never throws. */
  async end(): Promise<void> {
    if (this.shape.dispose && !this.ended) {
      await this.#link
        .ask({ m: "dispose" }, { limit: "callMs" })
        .catch((thrown) => this.#link.recordProblem(thrown));
    }
    await this.#link.end();
  }

  #devices(): Record<string, Device> {
    const devices: Record<string, Device> = {};
    for (const [path, { match, tools, provider }] of Object.entries(this.shape.devices ?? {})) {
      const device: Device = { match, tools, factory: (...args) => this.#open(path, ...args) };
      if (provider) {
        device.provider = {
          ...provider,
          detect: (env) => this.#link.ask({ m: "detect", device: path, env }, { limit: "callMs" }),
        };
      }
      devices[path] = device;
    }
    return devices;
  }

  #mountType(): MountType | undefined {
    if (!this.shape.mount) return undefined;
    const { type, address } = this.shape.mount;
    return { type, address, open: (config, context, signal) => this.#mount(config, context, signal) };
  }

  /** Numbers the context while the process uses it. */
  async #withContext<T>(
    context: OpenContext,
    ask: (as: { file: number; context: WireContext }) => Promise<T>,
  ): Promise<T> {
    const file = this.#link.files.add(context);
    try {
      return await ask({ file, context: wireContext(context) });
    } finally {
      this.#link.files.drop(file);
      this.#link.settle();
    }
  }

  async #mount(config: object, context: OpenContext, signal: AbortSignal): Promise<Mounted> {
    const link = this.#link;
    const mount = link.files.add(context);
    const events = new MountedEvents(link, (sketch) => this.#mounted(mount, sketch));
    link.mounts.set(mount, events);
    const close = () => link.closeMount(mount);
    // After the deadline the mount may still open: it has no other owner, so it is closed here.
    const closeLate = () => void close().catch((thrown) => link.recordProblem(thrown));
    const call: DriverCall = { m: "mount", mount, config, context: wireContext(context) };
    let answered = false;
    try {
      const sketch = await link.ask(call, { signal, late: closeLate });
      answered = true;
      return { devices: this.#mounted(mount, sketch), ...events.handles, unmount: close };
    } catch (thrown) {
      if (answered) closeLate();
      else link.files.dropMount(mount);
      link.mounts.delete(mount);
      throw thrown;
    }
  }

  /** The devices of a mount's sketch. Fails with INVALID when they do not fit the contract. */
  #mounted(mount: number, sketch: unknown): Record<string, Device> {
    const { devices } = judgeMounted(this.name, sketch);
    return Object.fromEntries(
      Object.entries(devices).map(([place, { match, tools }]): [string, Device] => [
        place,
        { match, tools, factory: (...args) => this.#open(place, ...args, mount) },
      ]),
    );
  }

  async #open(
    device: string,
    subpath: string,
    flags: OpenFlag,
    context: OpenContext,
    mount?: number,
  ): Promise<VFSFile> {
    const file = this.#link.files.add(context);
    const call: DriverCall = {
      m: "open",
      file,
      mount,
      device,
      subpath,
      flags,
      context: wireContext(context),
    };
    // After the deadline the factory may still succeed: the file has no other owner, so it is closed here.
    const closeLate = () => void this.#link.closeFile(file);
    try {
      await this.#link.ask(call, { limit: "openMs", late: closeLate });
    } catch (thrown) {
      this.#link.files.drop(file);
      throw thrown;
    }
    return new ProcessFile(this.#link, file);
  }
}

/** The events of a mount. The last change and the end are kept until a listener is registered. */
class MountedEvents {
  readonly #link: ProcessLink;
  readonly #devices: (sketch: unknown) => Record<string, Device>;
  #changeListener: ((devices: Record<string, Device>) => void) | undefined;
  #endListener: ((why: SyscallError) => void) | undefined;
  #change: Record<string, Device> | undefined;
  #end: SyscallError | undefined;

  constructor(link: ProcessLink, devices: (sketch: unknown) => Record<string, Device>) {
    this.#link = link;
    this.#devices = devices;
  }

  readonly handles: Pick<Mounted, "onChange" | "onEnd"> = {
    onChange: (listener) => {
      this.#changeListener = listener;
      if (this.#change) listener(this.#change);
    },
    onEnd: (listener) => {
      this.#endListener = listener;
      if (this.#end) listener(this.#end);
    },
  };

  /** Takes a new table. One that does not fit the contract is recorded as a problem, and the old table stays. */
  changed(sketch: unknown): void {
    try {
      this.#change = this.#devices(sketch);
    } catch (thrown) {
      this.#link.recordProblem(thrown);
      return;
    }
    this.#changeListener?.(this.#change);
  }

  ended(why: SyscallError): void {
    if (this.#end) return;
    this.#end = why;
    this.#endListener?.(why);
  }
}

class ProcessFile implements VFSFile {
  readonly #link: ProcessLink;
  readonly #file: number;

  constructor(link: ProcessLink, file: number) {
    this.#link = link;
    this.#file = file;
  }

  write(data: Data, signal: AbortSignal): Promise<void> {
    return this.#link.ask({ m: "write", file: this.#file, data }, { signal });
  }

  read(max: number, signal: AbortSignal): Promise<Data> {
    return this.#link.ask({ m: "read", file: this.#file, max }, { signal });
  }

  close(): Promise<void> {
    return this.#link.closeFile(this.#file);
  }

  stat(): Promise<FileStat> {
    return this.#link.ask({ m: "stat", file: this.#file }, { limit: "callMs" });
  }
}

function wireContext(context: OpenContext): WireContext {
  const { process, project, cwd, folders, guarded, env, network, policy, call, config } = context;
  const services = SERVICES.filter((service) => context[service] !== undefined);
  return { process, project, cwd, folders, guarded, env, network, policy, call, config, services };
}

function needsOf(shape: PluginShape): Plugin["needs"] {
  return SERVICES.filter((service) => shape.needs?.includes(service));
}
