/** The program `rnix`. */

import { runCommandLine } from "./cli/cli.ts";
import { hideSecrets, systemIo } from "./cli/system/system.ts";
import { LONGEST_MS } from "./lib/clock.ts";
import { BRIDGE, LANDLOCK, STARTER } from "./lib/hidden-modes.ts";
import { PLUGIN_PROGRAM } from "./lib/program-channel.ts";

const args = process.argv.slice(2);
if (args[0] === PLUGIN_PROGRAM) await (await import("./plugin/host/plugin-program.ts")).ended;
if (args[0] === LANDLOCK) (await import("./sandbox/landlock-program.ts")).becomeProgram(args.slice(1));
if (args[0] === STARTER) await (await import("./os/starter-program.ts")).runStarter();
if (args[0] === BRIDGE) await (await import("./proxy/bridge.ts")).runBridge(args.slice(1));
const io = systemIo();
// A tool of a run must not read the caller's keys from a command that waits.
if (args[0] !== "version") await hideSecrets();
// All other timers let the loop end. With none that holds it, Bun turns it without a pause until the command is done.
const held = setInterval(() => undefined, LONGEST_MS);
const code = await runCommandLine(args, io);
clearInterval(held);
await io.stderr.drained();
// Not left to the event loop: a silent pipe on stdin would keep the command alive.
process.exit(code);
