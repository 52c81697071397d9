/** Prepares the files of a run that is written again. */

import { join } from "node:path";
import { SyscallError } from "../../plugin/index.ts";
import { isMixed, openStep } from "../../run/open-step.ts";
import { replaceDocument } from "../files/document.ts";
import type { FsPort } from "../files/fs-port.ts";
import { countLines, eachLine, type LogPage } from "../files/read-log.ts";
import { foreignLines } from "./own-run.ts";
import type { RecordSeal } from "./record-key.ts";
import { JOURNAL, LineNumbers, LOGS, numberOf } from "./run-files.ts";
import type { JournalEntry, StateEvent } from "./schema.ts";

/** Returns the counter of a run: it continues after what is in the files of `dir`. */
export async function recordedNumbers(
  fs: FsPort,
  dir: string,
  states: readonly StateEvent[],
): Promise<LineNumbers> {
  const ends = new Map<string, number>();
  for (const file of LOGS)
    try {
      await eachLine(fs, join(dir, file), ({ bytes }) => {
        const found = numberOf(bytes);
        if (found) ends.set(file, found.n);
        return true;
      });
    } catch (error) {
      // What is no plain file has no lines.
      if (!(error instanceof SyscallError) || error.code !== "INVALID") throw error;
    }
  return new LineNumbers(ends, states.at(-1)?.n);
}

/**
 * Removes entries that could be mistaken for the step after the last recorded one. `journalled`: the journal is not
 * empty.
 */
export async function tidyJournal(
  run: { uuid: string; dir: string; fs: FsPort; seal: RecordSeal },
  { records, foreign }: LogPage<JournalEntry>,
  recorded: number,
): Promise<{ journalled: boolean; open: JournalEntry[] }> {
  const { uuid, fs, seal } = run;
  const path = join(run.dir, JOURNAL);
  // Rewritten lines would count as own.
  if (foreign > 0) throw foreignLines(uuid, JOURNAL, foreign);
  const open = openStep(records, recorded);
  if (isMixed(records, recorded)) {
    const numbers = new LineNumbers();
    const linked = open.map((entry) => JSON.stringify(numbers.line(JOURNAL, entry.n, entry)));
    await replaceDocument(path, linked.map((line) => `${seal.seal(JOURNAL, line)}\n`).join(""), fs);
  }
  return { journalled: (await countLines(fs, path, `${JOURNAL} of run ${uuid}`)) > 0, open };
}
