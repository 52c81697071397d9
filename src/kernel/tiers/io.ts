/** The third tier of the kernel's parts: what processes reach, such as files, mounts, devices and messages. */

import { lazy } from "../../lib/caches.ts";
import { DeviceRegistry } from "../../vfs/namespace.ts";
import { Asks } from "../asks/asks.ts";
import { FileSystem } from "../file-system.ts";
import { ChangedFiles } from "../files/effect-windows.ts";
import { OpenContexts } from "../files/open-context.ts";
import { IpcManager, WaitingRunMail } from "../ipc-manager.ts";
import { ScheduledWakes } from "../lifetime/scheduled-wakes.ts";
import { ModelGate } from "../llm/model-gate.ts";
import { OutputSchema } from "../loop/output-schema.ts";
import { MountManager } from "../mount-manager.ts";
import type { MakeContext } from "../tools/plugin-hooks.ts";
import { Units } from "../units/units.ts";
import { buildCalls } from "./calls.ts";
import type { Core } from "./core.ts";

export interface Io extends ReturnType<typeof buildIo> {}

export function buildIo(core: Core) {
  const own = buildCalls(core);
  const units = new Units(own);
  const asks = new Asks(own);
  const changes: ChangedFiles = new ChangedFiles(core, own.windows, (proc, request) =>
    openContexts.execAlone(proc, request, "changes"),
  );
  const openContexts: OpenContexts = new OpenContexts({
    ...own,
    units,
    asks,
    changes,
    llm: async (proc, callId, request, signal) => (await pluginRequests()).ask(proc, callId, request, signal),
  });
  const files = new FileSystem({ ...core, openContexts, asks });
  const gate = new ModelGate(core);
  /** Most runs have no driver that asks. */
  const pluginRequests = lazy(async () => {
    const { PluginRequests } = await import("../llm/plugin-requests.ts");
    const readOutput = (schema: object, answer: string) => new OutputSchema(schema).read(answer);
    return new PluginRequests({ ...core, files, gate, readOutput });
  });
  const makeContext: MakeContext = (proc, entry, as, access) =>
    openContexts.make(proc, entry, as, access, proc.cancellation);
  return {
    ...own,
    openContexts,
    makeContext,
    units,
    files,
    mounts: new MountManager({ ...own, files, openContexts }),
    asks,
    scheduledWakes: lazy(() => new ScheduledWakes({ ...own, units, asks })),
    gate,
    /** The kernel's own devices. They are registered last, because they use its managers. */
    devices: new DeviceRegistry(),
    changes,
    ipc: lazy(() => new IpcManager({ ...core, mail: new WaitingRunMail(core) })),
  };
}
