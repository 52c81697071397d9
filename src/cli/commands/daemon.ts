/** `rnix daemon`: starts, stops and inspects the daemon. */

import type { DaemonStatus } from "../../protocol/methods.ts";
import { defineCommand } from "../command.ts";
import { stopDaemon } from "../daemon/stop-daemon.ts";
import { EXIT, usageError } from "../exit.ts";
import { bool, count, json } from "../flags.ts";
import { type Io, refuseInsideRun, withWire } from "../io.ts";
import { formatBytes, formatElapsed } from "../output/format.ts";
import { initText } from "../output/init.ts";
import { styleOf } from "../output/style.ts";
import { fields } from "../output/table.ts";

const LINES = 100;

const start = defineCommand({
  about: "Start the daemon, unless it runs already",
  flags: { foreground: bool("run it in this command, with its log on the terminal") },
  examples: {
    "rnix daemon start": "other commands do this by themselves when they need one",
    "rnix daemon start --foreground": "for a service manager, or to watch it",
  },
  async run(io, flags) {
    await refuseInsideRun(io, "daemon start");
    if (!flags.foreground) return bringUp(io);
    const { raiseRequestLimit } = await import("../../client/start-daemon.ts");
    raiseRequestLimit();
    return serve(await terminalLog());
  },
});

async function bringUp(io: Io): Promise<number> {
  const { INIT_MS } = await import("../../client/daemon.ts");
  return withWire(io, async (wire) => {
    await wire.request("ping", { started: true }, { timeoutMs: INIT_MS });
    const { pid, socket } = await wire.request("daemon_status", {});
    io.stderr.write(`the daemon runs: PID ${pid}, ${socket}\n`);
    return EXIT.ok;
  });
}

const status = defineCommand({
  about: "Print the state of the daemon; exit 69 when none runs",
  flags: { json },
  examples: {
    "rnix daemon status":
      "version, uptime, processes, memory, how late its timers fire, what init.yaml keeps running",
  },
  async run(io, flags) {
    const session = await io.session({ onlyRunning: true, anyVersion: true });
    if (session === null) {
      io.stdout.write(flags.json ? '{"running":false}\n' : "no daemon is running\n");
      return EXIT.unavailable;
    }
    try {
      const wire = await session.connect();
      const answer = await wire.request("daemon_status", {});
      io.stdout.write(flags.json ? `${JSON.stringify({ running: true, ...answer })}\n` : text(io, answer));
      return EXIT.ok;
    } finally {
      await session.close();
    }
  },
});

const stop = defineCommand({
  about: "Stop the daemon and suspend its runs; they can be resumed",
  flags: { now: bool("kill the runs instead of letting their tool calls finish") },
  examples: {
    "rnix daemon stop": "lets running tool calls finish, and waits until the daemon has ended",
    "rnix daemon stop --now": "does not wait for running tools",
  },
  notes: [
    "Running tool calls have 10s to finish (drain in config.yaml), and no new call starts. A call that takes longer is stopped, and its model is notified when the run resumes.",
  ],
  async run(io, flags) {
    await refuseInsideRun(io, "daemon stop");
    const stopped = await stopDaemon(io, { now: flags.now });
    if (stopped && !stopped.gone) return stillEnding(io, stopped.pid);
    io.stderr.write(stopped ? `the daemon (PID ${stopped.pid}) has stopped\n` : "no daemon is running\n");
    return EXIT.ok;
  },
});

const restart = defineCommand({
  about: "Restart the daemon with this version of rnix; its runs resume in it",
  examples: { "rnix daemon restart": "after an update, or when config.yaml or init.yaml has changed" },
  notes: [
    "Running tool calls have 10s to finish (drain in config.yaml). A call that takes longer is stopped, and its model is notified. Runs that a person has suspended or paused stay so.",
    "Resumed runs take their API keys from ~/.config/rnix/env; a run whose key is not there stays suspended.",
  ],
  async run(io) {
    await refuseInsideRun(io, "daemon restart");
    const stopped = await stopDaemon(io, { restart: true });
    return stopped && !stopped.gone ? stillEnding(io, stopped.pid) : bringUp(io);
  },
});

function stillEnding(io: Io, pid: number): number {
  io.stderr.write(`the daemon (PID ${pid}) is still ending its runs; rnix daemon stop --now kills them\n`);
  return EXIT.error;
}

const logs = defineCommand({
  about: "Print the end of the daemon's log",
  flags: { lines: count(`how many lines; ${LINES} by default`, "N", { short: "n" }) },
  examples: { "rnix daemon logs -n 20": "also when no daemon runs" },
  async run(io, flags) {
    const { readDaemonLog } = await import("../../server/offline-commands.ts");
    const lines = readDaemonLog(io.env).slice(-(flags.lines ?? LINES));
    io.stdout.write(lines.map((line) => `${line}\n`).join(""));
    return EXIT.ok;
  },
});

export default defineCommand({
  about: "Start, inspect or stop the daemon, which runs all agents of this user",
  flags: { internal: bool("be the daemon", { hidden: true }) },
  examples: { "rnix daemon status": "whether the daemon runs, and its state" },
  notes: [
    "Every command that shows or changes runs, questions, jobs or what a run can use starts the daemon when none runs. It stops by itself when nothing has run for a minute. `daemon status`, `stop` and `logs` start none, nor do commands on files alone, such as `config` and `trust`.",
  ],
  subcommands: { start, status, stop, restart, logs },
  async run(_io, flags) {
    if (!flags.internal) throw usageError("expected start, status, stop, restart or logs");
    return serve();
  },
});

async function serve(print?: (text: string) => void): Promise<number> {
  const { daemonMain } = await import("../../server/main.ts");
  return daemonMain({ print });
}

/** The log of a daemon in the foreground: on stderr, with times at a terminal. Loaded only here. */
async function terminalLog(): Promise<(text: string) => void> {
  const { createConsola } = await import("consola");
  const log = createConsola({ stdout: process.stderr, stderr: process.stderr });
  return (text) => log.log(text);
}

function text(io: Io, status: DaemonStatus): string {
  const { p50, max } = status.loop_delay_ms;
  const rows: [string, string][] = [
    ["version", `${status.version} (${status.build}), protocol ${status.protocol}`],
    ["pid", String(status.pid)],
    ["uptime", formatElapsed(status.uptime_ms)],
    ["socket", status.socket],
    ["log", status.log],
    ["processes", String(status.processes)],
    ["connections", String(status.connections)],
    ["memory", formatBytes(status.rss_bytes)],
    ["loop delay", `${p50.toFixed(1)} ms median, ${max.toFixed(1)} ms worst`],
  ];
  const style = styleOf(io, io.stdout);
  return fields(rows, style) + initText(status, io.stdout, style);
}
