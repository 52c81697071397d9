/** `rnix cat`: prints what a device path returns. */

import { defineCommand } from "../command.ts";
import { directCall } from "../devices/direct-call.ts";
import { usageError } from "../exit.ts";
import { bool, json, noDaemon } from "../flags.ts";

export default defineCommand({
  about: "Print what a device path reads: a process, a file, a queue",
  args: [{ name: "PATH", about: "such as /proc/7/status" }],
  flags: {
    trust: bool("trust what this project brings, for this call alone"),
    "no-daemon": noDaemon,
    json,
  },
  examples: {
    "rnix cat /proc/7/status": "process 7; also /proc/7/intent and /proc/7/context",
    "rnix cat /proc/llm": "the queues and limits of the model providers",
    "rnix cat /dev/fs/README.md": "a file of the project, as its driver reads it",
  },
  async run(io, flags, [path = ""]) {
    if (!path.startsWith("/")) {
      throw usageError(
        `PATH: expected a device path such as /proc/7/status or /dev/fs/README.md, got ${path}`,
      );
    }
    const { json, trust, "no-daemon": inside } = flags;
    return directCall(io, { path, trust }, { json, inside, line: false });
  },
});
