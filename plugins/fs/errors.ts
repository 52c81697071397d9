/** Converts errors of the operating system to typed errors. */

import { type Code, SyscallError } from "rnix/plugin";

/** An error of the operating system as one of ours. `action` completes "Could not …". */
export function systemError(thrown: unknown, action: string): SyscallError {
  if (thrown instanceof SyscallError) return thrown;
  const errno = errnoOf(thrown);
  const [code, why] = MEANING[errno] ?? ["DRIVER", thrown instanceof Error ? thrown.message : String(thrown)];
  return new SyscallError(code, `Could not ${action}: ${why}.`, { cause: thrown });
}

/** The errno name of a system error, such as ENOENT; "" for any other value. */
export function errnoOf(thrown: unknown): string {
  if (!(thrown instanceof Error) || !("code" in thrown)) return "";
  return typeof thrown.code === "string" ? thrown.code : "";
}

const MEANING: Readonly<Record<string, [Code, string]>> = {
  ENOENT: ["NOT_FOUND", "it does not exist"],
  ENOTDIR: ["INVALID", "a part of the path is a file, not a folder"],
  EISDIR: ["INVALID", "it is a folder"],
  ENAMETOOLONG: ["INVALID", "the name is longer than the file system allows"],
  EINVAL: ["INVALID", "the file system does not accept this name or operation"],
  EILSEQ: ["INVALID", "the file system does not accept this name"],
  ELOOP: ["INVALID", "its symlinks form a loop or were changed meanwhile"],
  EACCES: ["PERMISSION", "this user has no permission"],
  EPERM: ["PERMISSION", "the system does not allow it"],
  EROFS: ["PERMISSION", "the file system is read-only"],
  ENOSPC: ["EXHAUSTED", "the disk is full"],
  EDQUOT: ["EXHAUSTED", "the disk quota is used up"],
  EMFILE: ["EXHAUSTED", "too many files are open"],
  ENFILE: ["EXHAUSTED", "too many files are open"],
};
