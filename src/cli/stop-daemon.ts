import type { Io } from "./io.ts";
import { formatElapsed, plural } from "./output/format.ts";

/** How long the daemon is watched while it ends: it gives its runs their grace first. */
const STOP_MS = 30_000;
const LOOK_MS = 25;
/** What takes longer is explained. */
const SAY_MS = 500;

/** Ends the daemon, of whatever version, and waits until it has gone. null: none runs. `gone`: false is not yet. */
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
    ({ pid, draining } = await wire.request("shutdown", {
      now: how.now || undefined,
      restart: how.restart || undefined,
    }));
  } finally {
    await session.close();
  }
  const { hasEnded } = await import("../client/daemon.ts");
  const waits = draining && io.timer(SAY_MS, () => io.stderr.write(waitingFor(draining)));
  try {
    // It answers no more long before it has ended its programs and given its files back.
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
