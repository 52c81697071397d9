import { readFileSync, realpathSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { usageError } from "./exit.ts";
import type { Io } from "./io.ts";

/** What a flag names must be there before anything is started: exit 64, and nothing is spent. */
export function absolutePath(io: Io, flag: string, path: string): string {
  return found(flag, path, () => realpathSync(resolve(io.cwd, path)));
}

export function absoluteFolder(io: Io, flag: string, path: string): string {
  const folder = absolutePath(io, flag, path);
  if (!statSync(folder).isDirectory()) throw usageError(`${flag}: expected a folder, got the file ${path}`);
  return folder;
}

/** The text itself, or what stands in the file that `@FILE` names. */
export function textOrFile(io: Io, flag: string, value: string | undefined): string | undefined {
  if (value === undefined || !value.startsWith("@")) return value;
  const path = value.slice(1);
  return found(flag, path, () => readFileSync(resolve(io.cwd, path), "utf8"));
}

/** The JSON object that stands in a file. */
export function jsonObject(
  io: Io,
  flag: string,
  path: string | undefined,
): Record<string, unknown> | undefined {
  if (path === undefined) return undefined;
  const text = found(flag, path, () => readFileSync(resolve(io.cwd, path), "utf8"));
  const value = parsed(flag, path, text);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return { ...value };
  throw usageError(`${flag}: expected a JSON object in ${path}, got ${text.trim().slice(0, 40)}`);
}

function parsed(flag: string, path: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw usageError(
      `${flag}: ${path} is not JSON: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

function found<T>(flag: string, path: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof Error) || !("code" in error)) throw error;
    throw usageError(
      `${flag}: could not use ${JSON.stringify(path)}: ${WHY[String(error.code)] ?? error.message}`,
    );
  }
}

const WHY: Record<string, string> = {
  ENOENT: "there is no such file or folder",
  EACCES: "reading it is not permitted",
  EISDIR: "a file is expected, this is a folder",
};
