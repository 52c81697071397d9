/** The files that a message mentions as `@path` and that are sent with it. */

import { realpathSync } from "node:fs";
import { basename, sep } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { openRegular } from "../../lib/regular-file.ts";
import { formatBytes } from "../output/format.ts";
import { IMAGE, mentionedFile, mentionedPaths, statOrNull } from "../terminal/completion.ts";

/** A larger text is only named: the model reads the parts that it needs. */
const MAX_TEXT_BYTES = 128 * 1024;
const HEAD_BYTES = 8192;

interface Attached {
  /** Absolute. */
  files: string[];
  /** Why a mentioned file was not attached. */
  notes: string[];
}

/**
 * Mentions of files that do not exist or can't be reached are words, and a folder is for the model's tools. `within`: only files in this
 * folder, for a text of another author.
 */
export async function attachedFiles(text: string, cwd: string, within?: string): Promise<Attached> {
  const found: Attached = { files: [], notes: [] };
  for (const mention of mentionedPaths(text)) {
    const path = mentionedFile(mention, cwd);
    const stat = statOrNull(path);
    if (!stat?.isFile()) continue;
    if (within !== undefined && !realpathSync(path).startsWith(`${realpathSync(within)}${sep}`)) continue;
    const why = IMAGE.test(path) ? null : await notAttachable(path, stat.size);
    if (why === null) found.files.push(path);
    else found.notes.push(`${basename(path)} is named only: ${why}`);
  }
  return found;
}

/** null for a text, as other programs decide it: a file without a zero byte at its beginning. */
async function notAttachable(path: string, size: number): Promise<string | null> {
  if (size > MAX_TEXT_BYTES) return `it has ${formatBytes(size)}, and the agent can read it`;
  try {
    const { handle } = await openRegular(path);
    try {
      const { buffer, bytesRead } = await handle.read(new Uint8Array(HEAD_BYTES));
      return buffer.subarray(0, bytesRead).includes(0) ? "it is neither text nor a picture" : null;
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (errnoOf(error) !== undefined) return `it can't be read (${errnoOf(error)})`;
    throw error;
  }
}
