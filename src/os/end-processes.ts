import { SyscallError } from "../plugin/index.ts";
import { isRunning, type Process, type ProcessTable } from "./process-table.ts";
import { signal, terminate } from "./signal.ts";
import { pause } from "./wait.ts";

interface EndOptions {
  table: ProcessTable;
  /** Who is to end, looked up again until there is nobody. */
  find(): Promise<Process[]>;
  /** The group they belong to, as far as they do; 0 for none. */
  group: number;
  /** Its members were asked already. */
  groupAsked: boolean;
  /** Ms until KILL, asked again and again: whoever ends them may lose patience. */
  graceLeft(): number;
  /** Frees the zombies that fell to us. */
  reap(): void;
  /** Kills at sight what changes its PID faster than `find` can see it. Returns what it saw last: none when it is gone. */
  strike?(): readonly { pid: number }[];
}

/**
 * TERM, grace, KILL, until nobody is found any more. Returns those that do not go: stuck in the system, or
 * another user's.
 */
export async function endProcesses(o: EndOptions): Promise<{ pid: number }[]> {
  let members = await o.find();
  for (const member of members) {
    if (!(o.groupAsked && member.pgid === o.group)) await ask(o.table, member);
  }
  while (members.length > 0 && o.graceLeft() > 0) {
    if (await allGone(o, members, o.graceLeft)) members = await o.find();
    // One that always is another process by now would keep the thread busy for all of the grace.
    if (members.length > 0) await pause(Math.max(0, Math.min(FIND_PAUSE_MS, o.graceLeft())));
  }
  let struck = members.length > 0 ? [] : (o.strike?.() ?? []);
  for (let round = 0; (members.length > 0 || struck.length > 0) && round < KILL_ROUNDS; round++) {
    members = await o.find();
    if (o.group > 0 && members.some((member) => member.pgid === o.group)) signal(-o.group, "SIGKILL");
    for (const member of members) await kill(o.table, member);
    struck = o.strike?.() ?? [];
    await allGone(o, members, countdown(KILL_WAIT_MS));
    members = await o.find();
  }
  o.reap();
  return members.length > 0 ? members : [...struck];
}

/** Ms left of a time that begins now. */
export function countdown(ms: number): () => number {
  const end = performance.now() + ms;
  return () => end - performance.now();
}

export function wouldNotGo(left: readonly { pid: number }[]): SyscallError {
  const pids = left.map((process) => process.pid).join(", ");
  return new SyscallError("INTERNAL", `Could not end process ${pids}, even by KILL. It is tried again.`);
}

/** Programs that start others as fast as they are killed lose within a few rounds. */
const KILL_ROUNDS = 20;
const KILL_WAIT_MS = 250;
const FIND_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 50;

async function ask(table: ProcessTable, member: Process): Promise<void> {
  if (await isRunning(table, identityOf(table, member))) terminate(member.pid);
}

async function kill(table: ProcessTable, member: Process): Promise<void> {
  if (await isRunning(table, identityOf(table, member))) signal(member.pid, "SIGKILL");
}

async function allGone(o: EndOptions, members: Process[], timeLeft: () => number): Promise<boolean> {
  for (let wait = 1; ; wait = Math.min(wait * 2, LONGEST_PAUSE_MS)) {
    o.reap();
    const running = await Promise.all(
      members.map((member) => isRunning(o.table, identityOf(o.table, member))),
    );
    if (!running.includes(true)) return true;
    const left = timeLeft();
    if (left <= 0) return false;
    await pause(Math.min(wait, left));
  }
}

function identityOf(table: ProcessTable, member: Process): { pid: number; start: string; boot: string } {
  return { pid: member.pid, start: member.start, boot: table.boot() };
}
