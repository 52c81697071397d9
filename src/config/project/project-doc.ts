/** Finds the AGENTS.md of a run. */

import { dirname, join } from "node:path";
import { LastEqual } from "../../lib/caches.ts";
import { isWithin } from "../../lib/inner-path.ts";
import { SyscallError } from "../../plugin/index.ts";
import { refuseEscape } from "../config-sources.ts";
import { readText } from "../files/file.ts";
import type { Project } from "./project.ts";

const NAME = "AGENTS.md";
/** Written for another product; read in a folder that has no AGENTS.md. */
const OTHER_NAME = "CLAUDE.md";

interface ProjectDoc {
  file: string;
  text: string;
  /** A CLAUDE.md beside it that has another text. */
  unread?: string;
}

/**
 * The AGENTS.md of a run, or the CLAUDE.md of a folder without one: the nearest from its folder up to the project's.
 * null when there is none, or no project. An AGENTS.md that is a link to outside the project, or larger than 1 MiB, fails
 * with INVALID; such a CLAUDE.md is left out with a notice.
 */
export function loadProjectDoc(project: Project, cwd: string, notices: string[] = []): ProjectDoc | null {
  if (project.kind === "none") return null;
  for (const dir of foldersUpTo(project.dir, cwd)) {
    const own = read(join(dir, NAME), project);
    const other = readOther(join(dir, OTHER_NAME), project, own === null ? notices : []);
    if (own === null && other === null) continue;
    // One that only leads to AGENTS.md leaves nothing out.
    const isSame = ["", own?.text, `@${NAME}`].includes(other?.text ?? "");
    return own === null || isSame ? (own ?? other) : { ...own, unread: other?.file };
  }
  return null;
}

function read(file: string, project: Project): ProjectDoc | null {
  refuseEscape(file, project);
  const text = readText(file);
  return text === null ? null : { file, text: texts.of(text.trim()) };
}

/** Each run holds it. */
const texts = new LastEqual<string>();

/** No run may fail because of a file that was never meant for it. */
function readOther(file: string, project: Project, notices: string[]): ProjectDoc | null {
  try {
    return read(file, project);
  } catch (error) {
    if (!(error instanceof SyscallError)) throw error;
    notices.push(`left out: ${error.message}`);
    return null;
  }
}

/** From `cwd` up to the project. Only the project when `cwd` is outside it. */
function foldersUpTo(top: string, cwd: string): string[] {
  if (!isWithin(top, cwd)) return [top];
  const folders = [cwd];
  for (let dir = cwd; dir !== top && dir !== dirname(dir); dir = dirname(dir)) folders.push(dirname(dir));
  return folders;
}
