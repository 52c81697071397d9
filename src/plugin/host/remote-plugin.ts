/** A plugin in a process of its own, as the kernel uses it. */

import type { Device, Mounted, OpenContext, OpenFlag, Plugin, SyscallError, VFSFile } from "../index.ts";
import type { ProcessLink } from "./process-link.ts";
import { judgeMounted, type PluginShape } from "./shape.ts";
import { type DriverCall, SERVICES, type WireContext } from "./wire.ts";

/** Connects to the process: to a new one if the last has ended. */
type Connect = () => Promise<ProcessLink>;

/** The plugin of this shape, whose calls go to its process. */
export function remotePlugin(name: string, shape: PluginShape, connect: Connect): Plugin {
  const { secrets, configSchema, commands, mount } = shape;
  return {
    name,
    secrets,
    configSchema,
    commands,
    needs: SERVICES.filter((service) => shape.needs?.includes(service)),
    devices: devicesOf(shape, connect),
    mount: mount && {
      type: mount.type,
      address: mount.address,
      open: async (config, context, signal) => openMount(name, await connect(), config, context, signal),
    },
    ...(shape.prompt && {
      prompt: async (context, signal) => {
        const link = await connect();
        return withContext(link, context, (as) => link.ask({ m: "prompt", ...as }, { signal }));
      },
    }),
    ...(shape.filesChanged && {
      filesChanged: async (files, context, signal) => {
        const link = await connect();
        const call = { m: "filesChanged" as const, files: [...files] };
        return withContext(link, context, (as) => link.ask({ ...call, ...as }, { signal }));
      },
    }),
  };
}

function devicesOf(shape: PluginShape, connect: Connect): Record<string, Device> {
  const devices = Object.entries(shape.devices ?? {}).map(([path, { match, tools, provider }]) => {
    const device: Device = {
      match,
      tools,
      factory: async (...args) => openFile(await connect(), path, ...args),
      provider: provider && {
        ...provider,
        detect: async (env) => (await connect()).ask({ m: "detect", device: path, env }, { limit: "callMs" }),
      },
    };
    return [path, device] as const;
  });
  return Object.fromEntries(devices);
}

/** Numbers the context while the process uses it. */
async function withContext<T>(
  link: ProcessLink,
  context: OpenContext,
  ask: (as: { file: number; context: WireContext }) => Promise<T>,
): Promise<T> {
  const file = link.files.add(context);
  try {
    return await ask({ file, context: wireContext(context) });
  } finally {
    link.files.drop(file);
    link.settle();
  }
}

async function openMount(
  name: string,
  link: ProcessLink,
  config: object,
  context: OpenContext,
  signal: AbortSignal,
): Promise<Mounted> {
  const mount = link.files.add(context);
  /** Fails with INVALID when the devices do not fit the contract. */
  const devicesIn = (sketch: unknown): Record<string, Device> => {
    const devices = Object.entries(judgeMounted(name, sketch).devices).map(([place, { match, tools }]) => {
      const factory: Device["factory"] = (...args) => openFile(link, place, ...args, mount);
      return [place, { match, tools, factory }] as const;
    });
    return Object.fromEntries(devices);
  };
  const events = new MountedEvents(link, devicesIn);
  link.mounts.set(mount, events);
  const close = () => link.closeMount(mount);
  // After the deadline the mount may still open: it has no other owner, so it is closed here.
  const closeLate = () => void close().catch((thrown) => link.recordProblem(thrown));
  const call: DriverCall = { m: "mount", mount, config, context: wireContext(context) };
  let answered = false;
  try {
    const sketch = await link.ask(call, { signal, late: closeLate });
    answered = true;
    return { devices: devicesIn(sketch), ...events.handles, unmount: close };
  } catch (thrown) {
    if (answered) closeLate();
    else link.files.dropMount(mount);
    link.mounts.delete(mount);
    throw thrown;
  }
}

async function openFile(
  link: ProcessLink,
  device: string,
  subpath: string,
  flags: OpenFlag,
  context: OpenContext,
  mount?: number,
): Promise<VFSFile> {
  const file = link.files.add(context);
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
  const closeLate = () => void link.closeFile(file);
  try {
    await link.ask(call, { limit: "openMs", late: closeLate });
  } catch (thrown) {
    link.files.drop(file);
    throw thrown;
  }
  return {
    write: (data, signal) => link.ask({ m: "write", file, data }, { signal }),
    read: (max, signal) => link.ask({ m: "read", file, max }, { signal }),
    close: () => link.closeFile(file),
    stat: () => link.ask({ m: "stat", file }, { limit: "callMs" }),
  };
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

function wireContext(context: OpenContext): WireContext {
  const { process, project, cwd, folders, guarded, env, network, policy, call, config } = context;
  const services = SERVICES.filter((service) => context[service] !== undefined);
  return { process, project, cwd, folders, guarded, env, network, policy, call, config, services };
}
