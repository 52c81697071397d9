/** The commands of the agent shell that are the kernel's: spawn, wait, send, recall, call, ps, kill and cat of devices. */

import { SIGINT, SIGKILL, SIGPAUSE, SIGRESUME, SIGTERM, type Signal } from "../../lib/signals.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { Streams } from "../../shell/shell.ts";
import { readSpawn } from "../../shell/spawn-flags.ts";
import type { Process } from "../process/process.ts";
import type { ProcessManager } from "../process-manager.ts";
import { callDevice, checkToolInput, devicePath, exchange } from "../tools/device-call.ts";
import { toolNamed } from "../tools/tool-catalog.ts";
import { requestOf, type ScriptParts } from "./script-step.ts";

export type ShellParts = ScriptParts & { processes(): ProcessManager };

/** One command: its place in the script, its words, and the script's name. */
interface Command {
  id: string;
  argv: readonly string[];
  script: string;
}

type Run = (
  parts: ShellParts,
  proc: Process,
  args: readonly string[],
  streams: Streams,
  command: Command,
) => Promise<number>;

const SIGNALS = new Map<string, Signal>([
  ["TERM", SIGTERM],
  ["KILL", SIGKILL],
  ["INT", SIGINT],
  ["STOP", SIGPAUSE],
  ["CONT", SIGRESUME],
]);

const COMMANDS = new Map<string, Run>([
  ["spawn", spawn],
  ["cat", cat],
  ["call", call],
  [
    "recall",
    (parts, proc, args, ...rest) => call(parts, proc, ["MemoryRecall", `query=${args.join(" ")}`], ...rest),
  ],
  ["send", send],
  ["ps", ps],
  ["kill", kill],
  ["wait", wait],
]);

/** `ps aux` and `cat README.md` are programs. */
export function isKernelCommand(
  [name = "", ...args]: readonly string[],
  isDevice: (path: string) => boolean,
): boolean {
  if (name === "ps") return args.length === 0;
  if (name === "cat") return args.length > 0 && args.every(isDevice);
  return COMMANDS.has(name);
}

/** Runs a command of the kernel; returns its exit code. */
export function shellCommand(
  parts: ShellParts,
  proc: Process,
  command: Command,
  streams: Streams,
): Promise<number> {
  const [name = "", ...args] = command.argv;
  const run = COMMANDS.get(name);
  if (!run) throw new SyscallError("NOT_FOUND", `${name}: there is no such command`);
  return run(parts, proc, args, streams, command);
}

/** stdin is the agent's input, stdout its answer, the exit code its verdict. */
async function spawn(
  ...[parts, proc, args, { stdin, out, err }, { id, script }]: Parameters<Run>
): Promise<number> {
  const { intent, options } = readSpawn(args);
  const wish = requestOf(intent, { ...options, input: stdin || undefined }, { name: script });
  const info = await parts.agents().run(proc, wish, id, proc.signal);
  const answer = wish.options?.output_schema ? JSON.stringify(info.output, null, 2) : (info.result ?? "");
  if (answer !== "") await out(answer.endsWith("\n") ? answer : `${answer}\n`);
  for (const notice of info.notices) await err(`${notice}\n`);
  if (info.exit_code === 0) return 0;
  await err(`spawn: ${info.agent} did not complete (${info.exit_reason}). ${info.error?.message ?? ""}\n`);
  return info.exit_code ?? 1;
}

async function cat(...[{ files }, proc, paths, { out }]: Parameters<Run>): Promise<number> {
  const ms = proc.spec.opts.limits.tool_timeout;
  for (const path of paths) {
    const late = `${path} was not read in time.`;
    const request = { path, by: { kind: "process" as const }, input: undefined, ms, late };
    await exchange(files, proc, request, proc.work.signal, async (fd, signal) => {
      for (;;) {
        const data = await files.readQuietly(proc, fd, 64 * 1024, signal);
        if (data.length === 0) return;
        await out(proc.secrets.hide(typeof data === "string" ? data : new TextDecoder().decode(data)));
      }
    });
    await out("\n");
  }
  return 0;
}

/** `call TOOL JSON`, or `call TOOL key=value …`. */
async function call(
  ...[parts, proc, [name = "", ...args], { out }, { id }]: Parameters<Run>
): Promise<number> {
  const target = toolNamed(proc, name);
  if (!target)
    throw new SyscallError("NOT_FOUND", `call: there is no tool ${name}, or this run may not use it.`);
  const made = { id, name, input: inputOf(args) };
  checkToolInput(target.tool, made);
  const text = await callDevice(parts, proc, made, target, devicePath(target, made));
  await out(text.endsWith("\n") ? text : `${text}\n`);
  return 0;
}

function inputOf(args: readonly string[]): Record<string, unknown> {
  const [first = ""] = args;
  if (args.length === 1 && first.startsWith("{")) {
    try {
      return JSON.parse(first);
    } catch (cause) {
      throw new SyscallError("INVALID", `call: the input is no JSON: ${first.slice(0, 80)}`, { cause });
    }
  }
  const pairs = args.map((arg) => {
    const at = arg.indexOf("=");
    if (at < 1) throw new SyscallError("INVALID", `call: expected a JSON object or key=value, got ${arg}`);
    return [arg.slice(0, at), arg.slice(at + 1)] as const;
  });
  return Object.fromEntries(pairs);
}

async function send(...[{ ipc }, proc, [to, ...words], { stdin }]: Parameters<Run>): Promise<number> {
  const text = words.join(" ") || (stdin ?? "");
  if (to === undefined || text === "")
    throw new SyscallError("INVALID", "send: expected a PID or UUID, and a text");
  await ipc().sendTo(proc, to, text);
  return 0;
}

/** The processes of the project. */
async function ps(...[{ processes }, proc, , { out }]: Parameters<Run>): Promise<number> {
  const { dir } = proc.spec.opts.project;
  let text = "   PID    PPID  STATE      AGENT         INTENT\n";
  for (const { pid, ppid, state, agent, intent, project } of processes().listProcs(proc)) {
    if (project !== dir) continue;
    const ids = `${String(pid).padStart(6)}  ${String(ppid).padStart(6)}`;
    text += `${ids}  ${state.padEnd(9)}  ${agent.padEnd(12)}  ${intent.split("\n")[0]}\n`;
  }
  await out(text);
  return 0;
}

/** Signals processes below the script. A script that no run has started reaches all of its project. */
async function kill(...[{ table, signals }, proc, args]: Parameters<Run>): Promise<number> {
  const [flag] = args;
  const named = flag?.startsWith("-") ? flag.slice(1).replace(/^SIG/, "") : undefined;
  const signal = SIGNALS.get(named ?? "TERM");
  const pids = named === undefined ? args : args.slice(1);
  if (signal === undefined || pids.length === 0 || !pids.every((pid) => /^\d+$/.test(pid)))
    throw new SyscallError("INVALID", `kill: expected [-${[...SIGNALS.keys()].join("|")}] PID …`);
  for (const pid of pids) {
    const target = table.get(Number(pid));
    const isBelow = target !== proc && table.ancestry(target).includes(proc);
    const isOfProject = proc.family.ppid === 0 && target.spec.opts.project.id === proc.spec.opts.project.id;
    if (!isBelow && !isOfProject)
      throw new SyscallError("PERMISSION", `kill: process ${pid} is not below this script.`);
    signals().signal(target.pid, signal, proc);
  }
  return 0;
}

async function wait(...[{ processes }, proc, [pid = ""]]: Parameters<Run>): Promise<number> {
  if (!/^\d+$/.test(pid)) throw new SyscallError("INVALID", `wait: expected a PID or %N, got ${pid}`);
  return (await processes().wait(Number(pid), proc)).code;
}
