/** Finds the commands that plugins bring: those of the stock plugins, and those of the project's. */

import type { CommandSpec } from "../../plugin/index.ts";
import type { Command } from "../command.ts";
import { deviceCommand } from "../commands/device-command.ts";
import { type ConnectOptions, type Io, project, withSession } from "../io.ts";

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
  // Help and a call inside this command need no daemon.
  const isOffline = args.some((arg) => ["--no-daemon", "--help", "-h"].includes(arg));
  const o = isOffline ? { inside: true } : {};
  // The user may have mistyped a built-in command: why the project can't be read is no answer to that.
  const mayBeOwn = !isStock && (await hasOwnPlugins(project(io)));
  const listed = isStock ? await ask(io, o) : mayBeOwn ? await ask(io, o).catch(() => undefined) : undefined;
  const spec = listed?.commands.find((one) => one.name === name);
  return { command: spec && deviceCommand(spec), notices: listed?.notices ?? [] };
}

function ask(io: Io, o: ConnectOptions): Promise<{ commands: CommandSpec[]; notices: string[] }> {
  return withSession(io, o, async (session) =>
    (await session.connect()).request("list_commands", project(io)),
  );
}
