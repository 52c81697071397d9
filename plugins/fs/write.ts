/** The operation of the tool Write. */

import type { OpenContext } from "rnix/plugin";
import { replaceFile } from "./content/replace-file.ts";
import { sizeText } from "./display.ts";
import type { Confinement } from "./paths/confinement.ts";
import type { WriteInput } from "./tools.ts";

/** Writes a whole file (tool Write): creates or replaces it, and returns a line about it. */
export async function write(
  confinement: Confinement,
  context: OpenContext,
  input: WriteInput,
  signal: AbortSignal,
): Promise<string> {
  const target = await confinement.target(input.path);
  const content = Buffer.from(input.content);
  const written = await replaceFile(confinement, target, content, signal);
  context.changed(written);
  const size = sizeText(content.length);
  const shown = confinement.shown(written);
  return target.stat
    ? `Replaced ${shown} (${size}, before ${sizeText(target.stat.size)}).`
    : `Created ${shown} (${size}).`;
}
