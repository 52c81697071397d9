/** The name by which the user starts this binary from the current folder. */

import { realpathSync } from "node:fs";
import { errnoOf } from "../../lib/error-detail.ts";
import { innerPath } from "../../lib/inner-path.ts";
import type { Io } from "../io.ts";

/** "rnix" where the PATH finds this binary, else the path to it, such as "./rnix". */
export function ownName({ env, cwd }: Pick<Io, "env" | "cwd">, binary = process.execPath): string {
  // Not compiled: Bun runs the sources.
  if (/(^|\/)bun(\.exe)?$/.test(binary)) return "rnix";
  const found = Bun.which("rnix", { PATH: env.PATH ?? "", cwd });
  if (found !== null && isSame(found, binary)) return "rnix";
  const path = innerPath(cwd, binary);
  return shellWord(path === null ? binary : `./${path}`);
}

/** A word as a shell reads it: quoted where that is needed. */
export function shellWord(text: string): string {
  if (/^[\w@%+=:,./-]+$/.test(text)) return text;
  return /["$`\\!]/.test(text) ? `'${text.replaceAll("'", "'\\''")}'` : `"${text}"`;
}

function isSame(one: string, other: string): boolean {
  try {
    return realpathSync(one) === realpathSync(other);
  } catch (error) {
    // One of them was removed meanwhile.
    if (errnoOf(error) !== undefined) return false;
    throw error;
  }
}
