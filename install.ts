/**
 * Installs the built `./rnix` for this user: `npm run install:bin [-- --dir FOLDER]`. It copies the binary to
 * ~/.local/bin, or FOLDER, and says what to do if that is not on the PATH.
 */

import { copyFileSync, existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import { basename, join, resolve } from "node:path";
import { parseArgs } from "node:util";

const BINARY = join(import.meta.dir, "rnix");
const NAME = "rnix";

/** The file of each shell that sets the PATH, and the line for it. */
const SHELLS: Readonly<Record<string, (dir: string) => string>> = {
  bash: (dir) => `echo 'export PATH="${dir}:$PATH"' >> ~/.bashrc`,
  zsh: (dir) => `echo 'export PATH="${dir}:$PATH"' >> ~/.zshrc`,
  fish: (dir) => `fish_add_path "${dir}"`,
};

/** What a user reads after the copy. */
export function advice(dir: string, env: Record<string, string | undefined>): string[] {
  const folders = (env.PATH ?? "").split(":").filter((folder) => folder !== "");
  const first = folders.find((folder) => existsSync(join(folder, NAME)));
  if (first !== undefined && resolve(first) === dir) return ["next: rnix demo, then rnix setup"];
  if (folders.some((folder) => resolve(folder) === dir)) {
    return [
      `note: ${join(first ?? "", NAME)} comes first on your PATH: remove it, or call ${join(dir, NAME)}`,
    ];
  }
  const home = env.HOME ?? "";
  const shown = home !== "" && dir.startsWith(`${home}/`) ? `$HOME${dir.slice(home.length)}` : dir;
  const shell = basename(env.SHELL ?? "");
  const line = (SHELLS[shell] ?? ((folder: string) => `export PATH="${folder}:$PATH"`))(shown);
  return [`${dir} is not on your PATH. Run this, then open a new terminal:`, `  ${line}`];
}

/** Copied under another name first: a daemon that runs the old file keeps it. */
function install(dir: string): string {
  const file = join(dir, NAME);
  const temporary = join(dir, `.${NAME}-${process.pid}.tmp`);
  mkdirSync(dir, { recursive: true });
  try {
    copyFileSync(BINARY, temporary);
    renameSync(temporary, file);
  } finally {
    rmSync(temporary, { force: true });
  }
  return file;
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { dir: { type: "string" } } });
  const dir = resolve(values.dir ?? join(process.env.HOME ?? homedir(), ".local/bin"));
  process.stdout.write(`installed ${install(dir)}\n`);
  for (const line of advice(dir, process.env)) process.stdout.write(`${line}\n`);
}
