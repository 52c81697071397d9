/** Explains why a program could not be started. */

import { accessSync, constants, type Stats, statSync } from "node:fs";
import { isAbsolute, resolve } from "node:path";
import { errnoOf, messageOf } from "../lib/error-detail.ts";
import { type Code, SyscallError } from "../plugin/index.ts";

/** Returns the error of a failed start, with its cause and what to do. */
export function spawnError(
  cause: unknown,
  argv: readonly string[],
  cwd: string,
  path: string | undefined,
): SyscallError {
  const [code, message] = explain(errnoOf(cause), argv[0] ?? "", cwd, path) ?? [
    "INTERNAL",
    `The program "${argv[0]}" could not be started: ${messageOf(cause)}`,
  ];
  return new SyscallError(code, message, { cause });
}

function explain(
  error: string | undefined,
  program: string,
  cwd: string,
  path: string | undefined,
): [Code, string] | null {
  const folder = look(cwd);
  if (!folder)
    return ["NOT_FOUND", `The working folder ${cwd} does not exist. Make it, or give another cwd.`];
  if (!folder.isDirectory())
    return ["INVALID", `The working folder ${cwd} is not a folder. Give another cwd.`];
  if (error === "ENOENT") return ["NOT_FOUND", missing(program, cwd, path)];
  if (error === "EACCES") return ["PERMISSION", forbidden(program, cwd)];
  if (error === "ENOEXEC")
    return [
      "INVALID",
      `The program "${program}" is not one this system can run. Is it for another platform?`,
    ];
  const long = `The arguments of "${program}" are too long for the system. Pass the data by stdin or in a file.`;
  if (error === "E2BIG") return ["INVALID", long];
  const none = `The system has no resources to start "${program}" (${error}). End other programs and try again.`;
  return /^(?:EAGAIN|ENOMEM|EMFILE|ENFILE)$/.test(error ?? "") ? ["EXHAUSTED", none] : null;
}

function missing(program: string, cwd: string, path: string | undefined): string {
  if (!program.includes("/"))
    return `The program "${program}" was not found in PATH (${path ?? "not set"}). Install it, or give its full path.`;
  const file = isAbsolute(program) ? program : resolve(cwd, program);
  return look(file)
    ? `The program ${file} is there, but the interpreter it names in its first line, or its loader, is not.`
    : `The program ${file} does not exist. Check the path.`;
}

function forbidden(program: string, cwd: string): string {
  try {
    accessSync(cwd, constants.X_OK);
  } catch {
    return `The working folder ${cwd} may not be entered. Change its rights, or give another cwd.`;
  }
  return `The program "${program}" may not be executed. Make it executable (chmod +x), or run it by its interpreter.`;
}

/** Returns null when the path does not exist, or a folder above it may not be entered. */
function look(path: string): Stats | null {
  try {
    return statSync(path);
  } catch {
    return null;
  }
}
