/** Stops the daemon and waits for its end. */

import type { Io } from "../io.ts";
import { formatElapsed, plural } from "../output/format.ts";

/** How long to wait for the daemon to end, after the drain. */
const STOP_MS = 30_000;
const LOOK_MS = 25;
/** After this time, the command prints what it waits for. */
const SAY_MS = 500;

/** Stops the daemon of any version and waits for its end. Returns null if none runs; `gone` is false if it still runs. */
export async function stopDaemon(
  io: Io,
  how: { now?: boolean; restart?: boolean },
): Promise<{ pid: number; gone: boolean } | null> {
  const session = await io.session({ onlyRunning: true, anyVersion: true });
  if (session === null) return null;
  let pid: number;
  let draining: { calls: number; ms: number } | undefined;
  try {
    const wire = await session.connect();
    const asked = { now: how.now || undefined, restart: how.restart || undefined };
    ({ pid, draining } = await wire.request("shutdown", asked));
  } finally {
    await session.close();
  }
  const { hasEnded } = await import("../../client/daemon.ts");
  const waits = draining && io.timer(SAY_MS, () => io.stderr.write(waitingFor(draining)));
  try {
    // The daemon stops answering before it has ended its programs and released its files.
    return { pid, gone: await waitFor(io, STOP_MS + (draining?.ms ?? 0), () => hasEnded(pid)) };
  } finally {
    waits?.cancel();
  }
}

function waitingFor({ calls, ms }: { calls: number; ms: number }): string {
  return `waiting up to ${formatElapsed(ms)} for ${plural(calls, "tool call")} to finish (rnix daemon stop --now does not wait)\n`;
}

async function waitFor(io: Io, ms: number, condition: () => Promise<boolean>): Promise<boolean> {
  let late = false;
  const deadline = io.timer(ms, () => {
    late = true;
  });
  try {
    while (!late) {
      if (await condition()) return true;
      await new Promise<void>((resolve) => void io.timer(LOOK_MS, resolve));
    }
    return false;
  } finally {
    deadline.cancel();
  }
}
