/** Chooses the process table of this system. */

import { linuxTable } from "./linux-table.ts";
import { COOKIE, type Process, type ProcessTable, type Trace, withDescendants } from "./process-table.ts";

export function processTable(): ProcessTable {
  return process.platform === "linux" ? linuxTable : psTable(runPs);
}

async function runPs(argv: string[]): Promise<string> {
  const env = { PATH: "/bin:/usr/bin", LC_ALL: "C" };
  const proc = Bun.spawn(argv, { env, stdin: "ignore", stdout: "pipe", stderr: "ignore", timeout: PS_MS });
  return new Response(proc.stdout).text();
}

const PS_MS = 5000;

/** Runs `ps` and returns its output. `ps` exits with status 1 when it finds no process. */
type RunPs = (argv: string[]) => Promise<string>;

/** A program that clears its environment is not found. */
export function psTable(run: RunPs): ProcessTable {
  return {
    async find(pid) {
      const rows = parse(await run(["ps", "-o", COLUMNS, "-p", String(pid)]));
      return rows[0]?.process ?? null;
    },
    async members(traces) {
      const rows = parse(await run(WITH_ENVIRONMENT)).filter((row) => row.process.pid !== process.pid);
      const living = rows.filter((row) => !row.process.zombie);
      const all = living.map((row) => row.process);
      return new Map(
        traces.map((trace) => {
          const leader = rows.find((row) => row.process.pid === trace.leader?.pid)?.process;
          const found = living.filter((row) => isMember(row, trace, leader)).map((row) => row.process);
          return [trace.id, withDescendants(found, all)];
        }),
      );
    },
    boot: () => "",
  };
}

const COLUMNS = "pid=,ppid=,pgid=,stat=,lstart=";

/** The BSDs print the environment with -E, the Linux one with the old "e". */
const WITH_ENVIRONMENT =
  process.platform === "darwin"
    ? ["ps", "-A", "-E", "-ww", "-o", `${COLUMNS},command=`]
    : ["ps", "axeww", "-o", `${COLUMNS},args=`];

interface Row {
  process: Process;
  /** Command line and environment. */
  command: string;
}

function isMember(row: Row, trace: Trace, leader: Process | undefined): boolean {
  const recycled = leader !== undefined && leader.start !== trace.leader?.start;
  if (trace.leader && row.process.pgid === trace.leader.pid && !recycled) return true;
  return ` ${row.command} `.includes(` ${COOKIE}=${trace.id} `);
}

function parse(output: string): Row[] {
  return output.split("\n").flatMap((line) => {
    const match = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(\S+\s+\S+\s+\S+\s+[\d:]+\s+\d{4})(?:\s+(.*))?$/.exec(
      line,
    );
    if (!match) return [];
    const [, pid, ppid, pgid, stat, start, command] = match;
    return [
      {
        process: {
          pid: Number(pid),
          ppid: Number(ppid),
          pgid: Number(pgid),
          start: start ?? "",
          zombie: stat?.startsWith("Z") ?? false,
        },
        command: command ?? "",
      },
    ];
  });
}
