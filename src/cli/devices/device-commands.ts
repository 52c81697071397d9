/** Finds the commands that plugins bring: those of the stock plugins, and those of the project's. */

import type { CommandSpec } from "../../plugin/index.ts";
import type { Command } from "../command.ts";
import { deviceCommand } from "../commands/device-command.ts";
import { type ConnectOptions, environment, type Io, project, type Session } from "../io.ts";

/** Which names a plugin's command may have. */
const NAME = /^[a-z][a-z0-9-]{0,31}$/;

/** What a name that is no built-in command leads to. */
export interface Found {
  command?: Command;
  /** Plugins that were left out: one of them may have the command. */
  notices: string[];
}

/** The commands of the stock plugins, without asking a daemon. */
export async function stockDeviceCommands(): Promise<[string, Command][]> {
  const { stockCommands } = await import("../../server/offline-commands.ts");
  return (await stockCommands()).map((spec) => [spec.name, deviceCommand(spec)]);
}

/**
 * The command of this name in the project. `args`: the words after the name. A mistyped name starts no daemon, unless
 * there are plugins that may have the command: then the daemon is asked, which the call needs anyway.
 */
export async function findDeviceCommand(io: Io, name: string, args: readonly string[]): Promise<Found> {
  if (!NAME.test(name)) return { notices: [] };
  const { hasOwnPlugins, stockCommands } = await import("../../server/offline-commands.ts");
  const isStock = (await stockCommands()).some((stock) => stock.name === name);
  const o = isOffline(args) ? { inside: true } : {};
  const listed = isStock
    ? await ask(io, o)
    : (await hasOwnPlugins({ cwd: io.cwd, env: environment(io) }))
      ? await askQuietly(io, o)
      : undefined;
  const spec = listed?.commands.find((one) => one.name === name);
  return { command: spec && deviceCommand(spec), notices: listed?.notices ?? [] };
}

interface Listed {
  commands: CommandSpec[];
  notices: string[];
}

/** undefined when no daemon runs and `o` asks only a running one. */
async function ask(io: Io, o: ConnectOptions): Promise<Listed | undefined> {
  let session: Session | null = null;
  try {
    session = await io.session(o);
    return session === null
      ? undefined
      : await (await session.connect()).request("list_commands", project(io));
  } finally {
    await session?.close();
  }
}

/** The user may have mistyped a built-in command: why the project can't be read is no answer to that. */
async function askQuietly(io: Io, o: ConnectOptions): Promise<Listed | undefined> {
  return ask(io, o).catch(() => undefined);
}

/** Help and a call inside this command need no daemon. */
function isOffline(args: readonly string[]): boolean {
  return args.some((arg) => arg === "--no-daemon" || arg === "--help" || arg === "-h");
}
