/** The files that come with a skill: `scripts/`, `references/`, `assets/` and others. */

import { realpathSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join, posix, sep } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { readRegular } from "../../lib/regular-file.ts";
import { SyscallError } from "../../plugin/index.ts";
import { fileError } from "../files/file.ts";
import { suggestion } from "../files/suggestion.ts";

/** Maximum files that are listed, and folders below folders. */
const MAX_FILES = 100;
const MAX_DEPTH = 4;
const MAX_BYTES = 1024 * 1024;
const LEFT_OUT = new Set(["node_modules", "__pycache__"]);

/** Their paths in the skill's folder, sorted. SKILL.md at the top and hidden files are left out. */
export async function skillResources(dir: string): Promise<string[]> {
  const files: string[] = [];
  await collect(dir, "", 0, files);
  return files.toSorted().slice(0, MAX_FILES);
}

async function collect(dir: string, below: string, depth: number, files: string[]): Promise<void> {
  const entries = await readdir(join(dir, below), { withFileTypes: true }).catch((cause: unknown) => {
    const code = errnoOf(cause);
    if (code === "ENOENT" || code === "ENOTDIR") return [];
    throw fileError(cause, join(dir, below), "list");
  });
  for (const entry of entries) {
    if (files.length > MAX_FILES) return;
    const { name } = entry;
    const path = posix.join(below, name);
    if (name.startsWith(".") || LEFT_OUT.has(name) || path === "SKILL.md") continue;
    if (entry.isDirectory() && depth < MAX_DEPTH) await collect(dir, path, depth + 1, files);
    if (entry.isFile()) files.push(path);
  }
}

/** One of these files, as text. Fails with NOT_FOUND for any other path, and for a link that leads out of the folder. */
export async function readSkillResource(dir: string, file: string): Promise<string> {
  const path = posix.normalize(file).replace(/^\.\//, "");
  const files = await skillResources(dir);
  if (!files.includes(path)) {
    const known = files.length === 0 ? "It has none." : `It has: ${files.join(", ")}.`;
    throw new SyscallError(
      "NOT_FOUND",
      `The skill has no file ${JSON.stringify(file)}.${suggestion(path, files)} ${known}`,
    );
  }
  const whole = join(dir, path);
  if (!realpathSync(whole).startsWith(realpathSync(dir) + sep))
    throw new SyscallError("NOT_FOUND", `The skill's file ${path} is a link out of its folder.`);
  const bytes = await readRegular(whole, MAX_BYTES);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new SyscallError(
      "INVALID",
      `${whole} is no text (${bytes.length} bytes). Use it by its path, with a program.`,
      { cause },
    );
  }
}
