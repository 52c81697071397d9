/** The mode of this binary that starts programs from within namespaces, which it has joined once for all of them. */

import { closeSync } from "node:fs";
import { libc } from "./libc.ts";
import { receiveDescriptors } from "./pass-descriptors.ts";
import { withTag } from "./process-tag.ts";
import { exitOf } from "./signal.ts";
import { DESCRIPTORS, type StarterMessage, type StartMessage } from "./starter-messages.ts";

/** Ends with the process that started it. */
export function runStarter(): Promise<never> {
  // The programs beside it can't trace it, nor take its descriptors.
  libc()?.prctl(PR_SET_DUMPABLE, 0);
  process.on("message", start);
  process.on("disconnect", () => process.exit(0));
  send({ t: "ready", pid: process.pid });
  return new Promise(() => {});
}

const PR_SET_DUMPABLE = 4;

function start({ n, argv, cwd, env, mark }: StartMessage): void {
  const [stdout, stderr] = receiveDescriptors(DESCRIPTORS) ?? [];
  if (stdout === undefined || stderr === undefined) {
    send({ t: "failed", n });
    return;
  }
  try {
    const { started, marked } = withTag(mark, () =>
      Bun.spawn([...argv], { cwd, env, detached: true, stdin: "ignore", stdout, stderr }),
    );
    send({ t: "started", n, pid: started.pid, isMarked: marked });
    void exitOf(started).then((exit) => send({ t: "exited", n, ...exit }));
  } catch {
    // Another way to start it reports why it can't be started.
    send({ t: "failed", n });
  } finally {
    closeSync(stdout);
    closeSync(stderr);
  }
}

function send(message: StarterMessage): void {
  process.send?.(message);
}
