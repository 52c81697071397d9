/** Edits the text of the input line in the user's editor. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readRegularSync } from "../../lib/regular-file.ts";
import { runAtTerminal } from "../../os/user-programs.ts";
import type { Io } from "../io.ts";
import { wordsOf } from "./prompt-commands.ts";

const MAX_BYTES = 4 * 1024 * 1024;
const FALLBACK = "vi";

/** Returns the edited text; null when the editor failed, and the text stays as it is. The caller has given the terminal. */
export async function editText(io: Pick<Io, "env" | "cwd">, text: string): Promise<string | null> {
  const dir = mkdtempSync(join(tmpdir(), "rnix-edit-"));
  const file = join(dir, "message.md");
  try {
    writeFileSync(file, text, { mode: 0o600 });
    const editor = wordsOf(io.env.VISUAL || io.env.EDITOR || FALLBACK);
    const code = await runAtTerminal([...editor, file], { cwd: io.cwd, env: io.env });
    // An editor ends the last line.
    return code === 0 ? readRegularSync(file, MAX_BYTES).toString().replace(/\n$/, "") : null;
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
