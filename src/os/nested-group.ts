/** A program in a PID namespace of its own, which bubblewrap has made: its end, and what it is below bubblewrap. */

import { readdirSync, readFileSync } from "node:fs";
import { constants } from "node:os";
import { readProc } from "./linux-table.ts";
import { terminate } from "./signal.ts";

/** A signal to the whole group would end the program outside first, and with it the namespace, without any grace. */
export function terminateNested(group: number): void {
  const inside = members(group);
  for (const pid of inside.length > 0 ? inside : [-group]) terminate(pid);
}

/** The program itself. Between it and this process is the first one of its namespace. */
export function programInside(pid: number): number {
  const [init = pid] = childrenOf(pid);
  const [program = init] = childrenOf(init);
  return program;
}

/** How the program itself has ended: a signal is reported as shells do. */
export function exitInside<E extends { code: number | null; signal: string | null }>(exit: E): E {
  const number = (exit.code ?? 0) - SIGNAL_CODES;
  const [name] = Object.entries(constants.signals).find(([, one]) => one === number) ?? [];
  return name === undefined ? exit : { ...exit, code: null, signal: name };
}

const SIGNAL_CODES = 128;

/** The children of a process's main thread; none when the process is gone. */
export function childrenOf(pid: number): number[] {
  const text = readProc(`/proc/${pid}/task/${pid}/children`) ?? "";
  return text.split(" ").filter(Boolean).map(Number);
}

/** The processes of the group that have a PID in a namespace below this one. */
function members(group: number): number[] {
  const own = numbersOf("self", "NSpid").length;
  return readdirSync("/proc")
    .map(Number)
    .filter(
      (pid) => pid > 0 && numbersOf(pid, "NSpgid")[0] === group && numbersOf(pid, "NSpid").length > own,
    );
}

/** Its PID in its own namespace. */
export function insideNumber(pid: number): number | undefined {
  return numbersOf(pid, "NSpid").at(-1);
}

/** A PID as each namespace sees it, the outermost first; empty when the process is gone. */
function numbersOf(pid: number | "self", field: "NSpid" | "NSpgid"): number[] {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const [, line = ""] = new RegExp(`^${field}:\\s+(.*)$`, "m").exec(status) ?? [];
    return line.split(/\s+/).filter(Boolean).map(Number);
  } catch {
    return []; // It has ended.
  }
}
