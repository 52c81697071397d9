import { isHidden } from "../config/plain-variables.ts";

/**
 * Takes the caller's values out of what the system shows of this process to every program of the same user, such as
 * the tools of a run: its variables, and the values of `--env NAME=VALUE` in its command line. Called before the command
 * waits for anything, and after process.argv was read. `process.env` keeps them: Bun has copied them. It loads nothing,
 * since each command pays for it. Linux only.
 */
export async function hideSecrets(): Promise<void> {
  if (process.platform !== "linux") return;
  try {
    overwriteShown(process.getBuiltinModule("node:fs"));
  } catch (thrown) {
    // The system does not let a program write to its own memory by that file.
    if (!(thrown instanceof Error && "code" in thrown)) throw thrown;
    const { scrubEnviron } = await import("../os/scrub-environ.ts");
    scrubEnviron(Object.keys(process.env).filter(isHidden));
  }
}

function overwriteShown({ openSync, closeSync, readFileSync, writeSync }: typeof import("node:fs")): void {
  const stat = readFileSync("/proc/self/stat", "latin1");
  // From the third field on: the second, the program's name, may hold blanks (proc_pid_stat(5)).
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [argStart = 0, , envStart = 0] = fields.slice(ARG_START).map(Number);
  const memory = openSync("/proc/self/mem", "r+");
  try {
    const overwrite = (file: string, start: number, valuesOf: (text: string) => Span[]): void => {
      const bytes = readFileSync(file);
      const values = valuesOf(bytes.toString("latin1"));
      if (values.length === 0) return;
      for (const { from, to } of values) bytes.fill("*", from, to);
      writeSync(memory, bytes, 0, bytes.length, start);
    };
    overwrite("/proc/self/environ", envStart, variableValues);
    overwrite("/proc/self/cmdline", argStart, givenValues);
  } finally {
    closeSync(memory);
  }
}

/** Field 48, of which the first two are cut off; the environment's is the second behind it. */
const ARG_START = 45;

interface Span {
  from: number;
  to: number;
}

function variableValues(text: string): Span[] {
  return wordsOf(text).flatMap(({ word, from }) => {
    const equals = word.indexOf("=");
    return equals > 0 && isHidden(word.slice(0, equals))
      ? [{ from: from + equals + 1, to: from + word.length }]
      : [];
  });
}

/** `--env NAME=VALUE` and `--env=NAME=VALUE`. */
function givenValues(text: string): Span[] {
  const words = wordsOf(text);
  return words.flatMap(({ word, from }, i) => {
    const name = words[i - 1]?.word === "--env" ? 0 : word.startsWith("--env=") ? "--env=".length : null;
    const equals = name === null ? -1 : word.indexOf("=", name);
    return equals < 0 ? [] : [{ from: from + equals + 1, to: from + word.length }];
  });
}

function wordsOf(text: string): { word: string; from: number }[] {
  let from = 0;
  return text.split("\0").map((word) => {
    const at = from;
    from += word.length + 1;
    return { word, from: at };
  });
}
