/** The input line of a project: it completes the project's files, and offers what was typed in the project before. */

import { join } from "node:path";
import { realClock } from "../../lib/clock.ts";
import type { Style } from "../output/style.ts";
import { type CompletableCommand, Completer, mentionedFile, statOrNull } from "../terminal/completion.ts";
import { History } from "../terminal/history.ts";
import { InputLine } from "../terminal/input-line.ts";
import { ProjectFiles } from "../terminal/project-files.ts";

interface ProjectLineOptions {
  cwd: string;
  dataDir: string;
  projectId: string;
  style: Style;
  commands(): CompletableCommand[];
  rows(): number;
  redraw(): void;
}

export function projectLine({ cwd, dataDir, projectId, commands, ...o }: ProjectLineOptions): InputLine {
  const files = new ProjectFiles(cwd, realClock);
  return new InputLine({
    ...o,
    completer: new Completer({ commands, files, cwd }),
    history: new History(join(dataDir, "history", `${projectId}.jsonl`)),
    isFile: (path) => statOrNull(mentionedFile(path, cwd))?.isFile() === true,
    closed: () => files.close(),
  });
}
