/** The text of the plugin contract, for new plugins. */

import { readFileSync } from "node:fs";

/** The plugin contract as text. Called as a macro: the build holds its result, for a machine without sources. */
export function contractSource(): string {
  return readFileSync(new URL("../plugin/index.ts", import.meta.url), "utf8");
}
