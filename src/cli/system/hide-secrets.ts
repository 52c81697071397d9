/** Hides keys in this process's visible environment and command line. */

import { isHidden } from "../../config/environment/plain-variables.ts";

/**
 * Hides the caller's values from programs of the same user, such as the tools of a run. It overwrites this process's
 * environment and the values of `--env NAME=VALUE` in its command line, which the system shows. It is called after
 * process.argv was read and before the command first waits. `process.env` keeps the values, because Bun has copied
 * them. It imports nothing, since each command pays for it. Linux only.
 */
export async function hideSecrets(): Promise<void> {
  if (process.platform !== "linux") return;
  try {
    overwriteShown(process.getBuiltinModule("node:fs"));
  } catch (thrown) {
    // The system does not let a program write to its own memory by that file.
    if (!(thrown instanceof Error && "code" in thrown)) throw thrown;
    const { scrubEnviron } = await import("../../os/scrub-environ.ts");
    scrubEnviron(Object.keys(process.env).filter(isHidden));
  }
}

function overwriteShown({ openSync, closeSync, readFileSync, writeSync }: typeof import("node:fs")): void {
  const stat = readFileSync("/proc/self/stat", "latin1");
  // From the third field on: the second, the program's name, may hold blanks (proc_pid_stat(5)).
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const memory = openSync("/proc/self/mem", "r+");
  try {
    const overwrite = (file: string, field: number, valueAt: ValueAt): void => {
      const bytes = readFileSync(file);
      if (hideValues(bytes, valueAt)) writeSync(memory, bytes, 0, bytes.length, Number(fields[field]));
    };
    overwrite("/proc/self/environ", ENV_START, variableValue);
    if (process.argv.some((argument) => argument.startsWith("--env")))
      overwrite("/proc/self/cmdline", ARG_START, givenValue);
  } finally {
    closeSync(memory);
  }
}

/** Fields 48 and 50, of which the first two are cut off. */
const ARG_START = 45;
const ENV_START = 47;

/** Returns where the value to hide begins in the word from `from` to `end`; -1 for none. */
type ValueAt = (text: string, from: number, end: number) => number;

/** Overwrites values in bytes that hold words with a zero byte after each. Returns false when there is none. */
function hideValues(bytes: Buffer, valueAt: ValueAt): boolean {
  const text = bytes.toString("latin1");
  let hidden = false;
  for (let from = 0; from < text.length; ) {
    const zero = text.indexOf("\0", from);
    const end = zero < 0 ? text.length : zero;
    const value = valueAt(text, from, end);
    if (value >= 0) {
      bytes.fill("*", value, end);
      hidden = true;
    }
    from = end + 1;
  }
  return hidden;
}

function variableValue(text: string, from: number, end: number): number {
  const equals = text.indexOf("=", from);
  return equals > from && equals < end && isHidden(text.slice(from, equals)) ? equals + 1 : -1;
}

/** `--env NAME=VALUE` and `--env=NAME=VALUE`. */
function givenValue(text: string, from: number, end: number): number {
  const joined = text.startsWith(JOINED, from);
  if (!joined && !text.endsWith(SEPARATE, from)) return -1;
  const equals = text.indexOf("=", joined ? from + JOINED.length : from);
  return equals >= 0 && equals < end ? equals + 1 : -1;
}

const JOINED = "--env=";
const SEPARATE = "\0--env\0";
