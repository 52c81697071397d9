/** Reads the flags that name files and folders. */

import { realpathSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { SyscallError } from "../../plugin/errors.ts";
import { usageError } from "../exit.ts";
import type { Io } from "../io.ts";

/** The absolute path that a flag names. It must exist before anything starts: exit 64. */
export function absolutePath(io: Io, flag: string, path: string): string {
  try {
    return realpathSync(resolve(io.cwd, path));
  } catch (thrown) {
    throw unusable(flag, path, thrown);
  }
}

export function absoluteFolder(io: Io, flag: string, path: string): string {
  const folder = absolutePath(io, flag, path);
  if (!statSync(folder).isDirectory()) throw usageError(`${flag}: expected a folder, got the file ${path}`);
  return folder;
}

/** The text itself, or the content of the file that `@FILE` names. */
export async function textOrFile(io: Io, flag: string, value: string): Promise<string> {
  return value.startsWith("@") ? textOf(io, flag, value.slice(1)) : value;
}

/** Reads the JSON object in a file. */
export async function jsonObject(io: Io, flag: string, path: string): Promise<Record<string, unknown>> {
  const text = await textOf(io, flag, path);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw usageError(`${flag}: ${path} is not JSON`);
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return { ...value };
  // The message shows none of the content: inside a run, the run may have no right to read the file.
  const kind = value === null ? "null" : Array.isArray(value) ? "an array" : `a ${typeof value}`;
  throw usageError(`${flag}: expected a JSON object in ${path}, got ${kind}`);
}

/** Reads the file that a flag names; bytes that are no UTF-8 become U+FFFD. */
export async function textOf(io: Io, flag: string, path: string): Promise<string> {
  const { readGivenFile } = await import("./given-file.ts");
  try {
    return (await readGivenFile(io, resolve(io.cwd, path))).toString();
  } catch (thrown) {
    throw unusable(flag, path, thrown);
  }
}

function unusable(flag: string, path: string, thrown: unknown): unknown {
  if (thrown instanceof SyscallError) return usageError(`${flag}: ${thrown.message}`);
  if (!(thrown instanceof Error) || !("code" in thrown)) return thrown;
  return usageError(
    `${flag}: could not use ${JSON.stringify(path)}: ${WHY[String(thrown.code)] ?? thrown.message}`,
  );
}

const WHY: Record<string, string> = {
  ENOENT: "there is no such file or folder",
  EACCES: "reading it is not permitted",
};
