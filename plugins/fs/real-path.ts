import { realpath } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { errnoOf } from "./errors.ts";

/** With its symlinks resolved as far as something is there; undefined where it can't be followed. */
export async function realAsFarAsThere(path: string): Promise<string | undefined> {
  const missing: string[] = [];
  for (let at = path; ; at = dirname(at)) {
    try {
      return join(await realpath(at), ...missing);
    } catch (thrown) {
      if (errnoOf(thrown) !== "ENOENT" || at === dirname(at)) return undefined;
      missing.unshift(basename(at));
    }
  }
}
