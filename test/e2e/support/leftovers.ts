import { lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join, relative } from "node:path";

interface Found {
  pid: number;
  command: string;
}

/**
 * Every process that has to do with the folder: by its environment, its working folder or its arguments, so
 * that one which has left its session or cleared its environment is seen too. By /proc: Linux.
 */
export function processesOf(root: string): Found[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid !== process.pid && mentions(pid, root))
    .map((pid) => ({ pid, command: commandOf(pid) }));
}

/**
 * What may not be there when no rnix runs: a socket, a lock of one, a ledger line, a half-written file, or
 * anything where nothing is to be written. Relative paths.
 */
export function strayFiles(root: string): string[] {
  const files = filesBelow(root);
  return files
    .map((path) => relative(root, path))
    .filter((path) => !isExpected(path) || isHalfWritten(path))
    .filter((path) => !hasLeftRuns(path, files))
    .filter((path) => !isOfUnrecordedRun(path, files));
}

/** A spawn that was killed before its first record leaves a folder, which `rnix gc` removes when it is a day old. */
function isOfUnrecordedRun(path: string, files: readonly string[]): boolean {
  const [, folder] = /^(.*\/steps\/[^/]+\/)~(?:proc-info|process-meta)\.json\.tmp$/.exec(path) ?? [];
  return folder !== undefined && !files.some((file) => file.endsWith(`/${folder}proc-info.json`));
}

/** The file of a dead kernel stays while runs of it can be resumed. */
function hasLeftRuns(path: string, files: readonly string[]): boolean {
  const [, kernel] = /^data\/rnix\/kernels\/([^/]+)$/.exec(path) ?? [];
  if (kernel === undefined) return false;
  const records = files.filter((file) => file.endsWith("/proc-info.json"));
  return records.some((file) => {
    const text = textOf(file) ?? textOf(`${file}.before`);
    return text?.includes(`"kernel":"${kernel}"`) && text.includes('"state":"suspended"');
  });
}

/** The user's own data, as long as nothing runs. */
const USER_DATA =
  /^data\/rnix\/(projects\.json(\.lock)?|pids(\.lock|\.copy)?|bin\/[^/]+\/rnix|record\.key|metrics-token|daemon\.log(\.1)?|mounts\/[^/]+\.log(\.1)?|trust\/[^/]+\.json|steps\/.*|base\/[0-9a-f]{12}-[0-9a-f]{12}\/.*|(history|names)\/[^/]+\.jsonl|index\/[0-9a-f]{32}[-.][^/]+(\/[^/]+)?|cron\/(projects\.json|port|(newest|started)\/[0-9a-f]{32}\.json|by-runs\/[0-9a-f]{32}\/spending\/[^~/]+\.jsonl)|memory\/(~lock|[^~/]+)|gc\/(collected\.jsonl|last\.json)|(demo\/\.rnix|workspace)\/.*)$/;

function isExpected(path: string): boolean {
  return /^(project|config|elsewhere)\//.test(path) || USER_DATA.test(path);
}

/** As src/store writes a document: under another name first. */
function isHalfWritten(path: string): boolean {
  return /(^|\/)~[^/]*\.tmp$/.test(path);
}

/** Everything below that is no folder, links and sockets included. What goes while it is looked at is not there. */
export function filesBelow(folder: string): string[] {
  return namesIn(folder).flatMap((name) => {
    const path = join(folder, name);
    const facts = lstatSync(path, { throwIfNoEntry: false });
    if (facts === undefined) return [];
    return facts.isDirectory() ? filesBelow(path) : [path];
  });
}

/** undefined when it is not there, or not any more. */
export function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch (thrown) {
    if (isGone(thrown)) return undefined;
    throw thrown;
  }
}

/** A file, or a process. */
export function isGone(thrown: unknown): boolean {
  return thrown instanceof Error && "code" in thrown && (thrown.code === "ENOENT" || thrown.code === "ESRCH");
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (thrown) {
    if (isGone(thrown)) return [];
    throw thrown;
  }
}

function mentions(pid: number, root: string): boolean {
  return [read(pid, "environ"), read(pid, "cmdline"), workingFolder(pid)].some((text) => text.includes(root));
}

/** One that is just being started has no arguments yet, but a name. */
function commandOf(pid: number): string {
  return read(pid, "cmdline").replaceAll("\0", " ").trim() || read(pid, "comm").trim();
}

/** Empty for one that has gone in the meantime. */
function read(pid: number, file: "environ" | "cmdline" | "comm"): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return "";
  }
}

function workingFolder(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return "";
  }
}
