import { type Code, SyscallError } from "rnix/plugin";

/** What the operating system's answer means to whoever called. `doing` reads on from "Could not". */
export function systemError(thrown: unknown, doing: string): SyscallError {
  if (thrown instanceof SyscallError) return thrown;
  const errno = errnoOf(thrown);
  const [code, why] = MEANING[errno] ?? ["DRIVER", thrown instanceof Error ? thrown.message : String(thrown)];
  return new SyscallError(code, `Could not ${doing}: ${why}.`, { cause: thrown });
}

/** The system's name of the error, "" for anything else. */
export function errnoOf(thrown: unknown): string {
  if (!(thrown instanceof Error) || !("code" in thrown)) return "";
  return typeof thrown.code === "string" ? thrown.code : "";
}

/** Fails with the signal's own reason once it has fired. */
export function heed(signal: AbortSignal): void {
  if (!signal.aborted) return;
  const reason: unknown = signal.reason;
  if (reason instanceof SyscallError) throw reason;
  throw new SyscallError("CANCELLED", "The operation was cancelled.", { cause: reason });
}

const MEANING: Readonly<Record<string, [Code, string]>> = {
  ENOENT: ["NOT_FOUND", "it does not exist"],
  ENOTDIR: ["INVALID", "a part of the path is a file, not a folder"],
  EISDIR: ["INVALID", "it is a folder"],
  ENAMETOOLONG: ["INVALID", "the name is longer than the file system allows"],
  EINVAL: ["INVALID", "the file system does not accept such a name or operation"],
  EILSEQ: ["INVALID", "the file system does not accept such a name"],
  ELOOP: ["INVALID", "its symlinks lead in a circle or were changed meanwhile"],
  EACCES: ["PERMISSION", "this user may not do that"],
  EPERM: ["PERMISSION", "the system does not permit it"],
  EROFS: ["PERMISSION", "the file system is read-only"],
  ENOSPC: ["EXHAUSTED", "the disk is full"],
  EDQUOT: ["EXHAUSTED", "the disk quota is used up"],
  EMFILE: ["EXHAUSTED", "too many files are open"],
  ENFILE: ["EXHAUSTED", "too many files are open"],
};
