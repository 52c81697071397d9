/** The operation of the tool Glob. */

import { join, resolve } from "node:path";
import { type OpenContext, SyscallError } from "rnix/plugin";
import type { Confinement } from "../paths/confinement.ts";
import type { GlobInput } from "../tools.ts";
import { splitPattern } from "./glob-pattern.ts";
import { searches } from "./searches.ts";

/** Names of files that fit the pattern, the newest first. */
export async function glob(
  confinement: Confinement,
  context: OpenContext,
  input: GlobInput,
  signal: AbortSignal,
): Promise<string> {
  const start = resolve(context.cwd, input.path ?? ".");
  const { base, rest } = splitPattern(input.pattern, start);
  // Rules apply to `path`, so the pattern must not lead out of it.
  if (input.path !== undefined && base !== start && !base.startsWith(join(start, "/"))) {
    throw new SyscallError(
      "INVALID",
      `The pattern ${input.pattern} leads out of ${input.path}: put the folder into path.`,
    );
  }
  const { path: folder, stat } = await confinement.searchStart(base);
  if (!stat.isDirectory()) {
    throw new SyscallError("INVALID", `${confinement.shown(base)} is a file, not a folder. Read shows it.`);
  }
  const { cwd, process } = context;
  const request = {
    op: "glob",
    cwd,
    folder,
    pattern: rest,
    original: input.pattern,
    limit: input.limit,
  } as const;
  return searches.run(process.uuid, request, (paths) => confinement.readable(paths), signal);
}
