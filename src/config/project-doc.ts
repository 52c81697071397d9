import { dirname, join, relative } from "node:path";
import { readText } from "./file.ts";
import { refuseEscape } from "./places.ts";
import type { Project } from "./project.ts";

/* Finds the AGENTS.md of a run. */

const NAME = "AGENTS.md";

/**
 * The AGENTS.md of a run: the nearest one from its folder up to the project's. null when there is none, or no project.
 * Fails with INVALID when it is a link to outside the project, or larger than 1 MiB.
 */
export function loadProjectDoc(project: Project, cwd: string): { file: string; text: string } | null {
  if (project.kind === "none") return null;
  for (const dir of foldersUpTo(project.dir, cwd)) {
    const file = join(dir, NAME);
    refuseEscape(file, project);
    const text = readText(file);
    if (text !== null) return { file, text: text.trim() };
  }
  return null;
}

/** From `cwd` up to the project. Only the project when `cwd` is outside it. */
function foldersUpTo(top: string, cwd: string): string[] {
  if (relative(top, cwd).startsWith("..")) return [top];
  const folders = [cwd];
  for (let dir = cwd; dir !== top && dir !== dirname(dir); dir = dirname(dir)) folders.push(dirname(dir));
  return folders;
}
