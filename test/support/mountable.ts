import {
  type Device,
  type Mounted,
  type MountType,
  type OpenContext,
  SyscallError,
} from "../../src/plugin/index.ts";
import { toolDevice } from "./kernel.ts";

/** One opening of a `Mountable`, in the test's hands. */
interface OpenTable {
  config: object;
  context: OpenContext;
  change(devices: Record<string, Device>): void;
  end(why: string): void;
  unmounted: boolean;
}

interface Behaviour {
  /** Instead of opening at once. Gets the signal that `open` gets. */
  opening?(signal: AbortSignal, context: OpenContext, attempt: number): Promise<void> | void;
  unmounting?(): Promise<void>;
  devices?: Record<string, Device>;
}

/** A type of device tables that counts what is open. Each table has a tool Echo at /echo. */
export class Mountable {
  readonly tables: OpenTable[] = [];
  readonly type: MountType;
  attempts = 0;

  constructor(type = "table", { opening, unmounting, devices = echo() }: Behaviour = {}) {
    this.type = {
      type,
      open: async (config, context, signal): Promise<Mounted> => {
        this.attempts++;
        await opening?.(signal, context, this.attempts);
        const table: OpenTable = { config, context, change: () => {}, end: () => {}, unmounted: false };
        this.tables.push(table);
        return {
          devices,
          onChange: (tell) => {
            table.change = tell;
          },
          onEnd: (tell) => {
            table.end = (why) => tell(new SyscallError("CLOSED", why));
          },
          unmount: async () => {
            if (table.unmounted) throw new Error("unmounted twice");
            table.unmounted = true;
            await unmounting?.();
          },
        };
      },
    };
  }

  get open(): number {
    return this.tables.filter(({ unmounted }) => !unmounted).length;
  }
}

export function echo(...names: string[]): Record<string, Device> {
  const tools = names.length === 0 ? ["Echo"] : names;
  return Object.fromEntries(
    tools.map((name) => [`/${name.toLowerCase()}`, toolDevice(name, (input) => JSON.stringify(input))]),
  );
}
