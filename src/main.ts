import { runCommandLine } from "./cli/cli.ts";
import { systemIo } from "./cli/system.ts";

const io = systemIo();
const code = await runCommandLine(process.argv.slice(2), io);
await io.stderr.drained();
// Not left to the event loop: a silent pipe on stdin would keep the command alive.
process.exit(code);
