/** The text of the plugin contract, for new plugins. */

import { readFileSync } from "node:fs";

/**
 * The plugin contract as one file that imports nothing. Called as a macro: the build holds its result, for a machine
 * without sources. A macro must be in another file than its caller.
 */
export function contractSource(): string {
  const index = source("./index.ts");
  const parts = [...index.matchAll(/^export (?:type )?\* from "(.+)";$/gm)].map(([, file = ""]) =>
    source(file).replaceAll(/^import [^;]+;\n+/gm, ""),
  );
  return [index.slice(0, index.indexOf("\n\n") + 1), ...parts].join("\n");
}

function source(file: string): string {
  return readFileSync(new URL(file, new URL("../../plugin/", import.meta.url)), "utf8");
}
