import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const RECORDED = resolve(import.meta.dir, "../recorded");

/** What a stand-in was last started with. */
export interface Started {
  argv: string[];
  stdin: string;
  env: Record<string, string>;
}

/**
 * A program in `dir` that prints the recorded output of a CLI: of the first of `answers` whose key is in its arguments
 * or its stdin. The key "" matches every input; the answer "hang" never ends.
 */
export function standIn(
  dir: string,
  name: string,
  answers: Record<string, { recorded: string; code?: number; errors?: string } | "hang">,
  { help = "", version = "" } = {},
): { path: string; started(): Started } {
  const path = join(dir, name);
  const input = join(dir, `${name}.input`);
  const cases = Object.entries(answers).map(([key, answer]) => {
    if (answer === "hang") return `*"${key}"*) exec sleep 1000 ;;`;
    const { recorded, code = 0, errors = "" } = answer;
    const print = recorded === "" ? ":" : `cat '${join(RECORDED, recorded)}'`;
    return `*"${key}"*) ${print}; printf '%s' '${errors}' >&2; exit ${code} ;;`;
  });
  writeFileSync(
    path,
    [
      "#!/bin/sh",
      `case "$*" in --help) cat '${join(RECORDED, help)}'; exit 0 ;; --version) echo '${version}'; exit 0 ;; esac`,
      `printf '%s\\0' "$@" > '${input}.argv'`,
      `cat > '${input}.stdin'`,
      `env -0 > '${input}.env'`,
      `case "$* $(cat '${input}.stdin')" in`,
      ...cases,
      "esac",
    ].join("\n"),
  );
  chmodSync(path, 0o755);
  const read = (part: string): string => readFileSync(`${input}.${part}`, "utf8");
  return {
    path,
    started: () => ({
      argv: read("argv").split("\0").slice(0, -1),
      stdin: read("stdin"),
      env: Object.fromEntries(
        read("env")
          .split("\0")
          .filter((line) => line !== "")
          .map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
      ),
    }),
  };
}
