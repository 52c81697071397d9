/** The names that a user has given to conversations: a file of the user's data folder for each project, mode 0600. */

import { appendFileSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { errnoOf } from "../../lib/error-detail.ts";
import { readRegularSync } from "../../lib/regular-file.ts";

const MAX_READ_BYTES = 4 * 1024 ** 2;
const Line = z.object({ uuid: z.string(), name: z.string() });

/** One line of JSON for each naming; the last one of a conversation counts. */
export class ConversationNames {
  readonly #path: string;

  constructor(dataDir: string, projectId: string) {
    this.#path = join(dataDir, "names", `${projectId}.jsonl`);
  }

  /** By UUID. A damaged line is left out. */
  load(): Map<string, string> {
    const lines = this.#read().split("\n");
    return new Map(lines.flatMap((line) => nameIn(line)));
  }

  /** Fails with the system's error where the file can't be written. */
  set(uuid: string, name: string): void {
    mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 });
    appendFileSync(this.#path, `${JSON.stringify({ uuid, name })}\n`, { mode: 0o600 });
  }

  #read(): string {
    try {
      return readRegularSync(this.#path, MAX_READ_BYTES).toString();
    } catch (error) {
      if (errnoOf(error) === "ENOENT") return "";
      throw error;
    }
  }
}

function nameIn(line: string): [string, string][] {
  try {
    const { uuid, name } = Line.parse(JSON.parse(line));
    return [[uuid, name]];
  } catch {
    return [];
  }
}
