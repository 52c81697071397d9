/** Runs the operations that are written to /dev/fs. */

import { join, resolve } from "node:path";
import { type OpenContext, SyscallError } from "rnix/plugin";
import { answerRequest, operation } from "../_lib/operations.ts";
import { replaceFile } from "./content/replace-file.ts";
import { sizeText } from "./display.ts";
import { edit } from "./edit/edit.ts";
import { Confinement } from "./paths/confinement.ts";
import { read } from "./read.ts";
import { splitPattern } from "./search/glob-pattern.ts";
import type { GrepRequest } from "./search/grep-search.ts";
import { searches } from "./search/searches.ts";
import { EDIT, GLOB, type GlobInput, GREP, type GrepInput, READ, WRITE, type WriteInput } from "./tools.ts";

/** Runs the operation of this text, and returns what the model is shown. */
export async function runOperation(text: string, context: OpenContext, signal: AbortSignal): Promise<string> {
  const confinement = new Confinement(context);
  return await answerRequest("/dev/fs", text, [
    operation(READ, (input) => read(confinement, input, signal)),
    operation(WRITE, (input) => write(confinement, context, input, signal)),
    operation(EDIT, (input) => edit(confinement, context, input, signal)),
    operation(GLOB, (input) => glob(confinement, context, input, signal)),
    operation(GREP, (input) => grep(confinement, context, input, signal)),
  ]);
}

/** Writes a whole file (tool Write): creates or replaces it, and returns a line about it. */
async function write(
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

/** Names of files that fit the pattern, the newest first. */
async function glob(
  confinement: Confinement,
  context: OpenContext,
  input: GlobInput,
  signal: AbortSignal,
): Promise<string> {
  const start = resolve(context.cwd, input.path ?? ".");
  const { base, rest } = splitPattern(input.pattern, start);
  // Rules apply to `path`, so the pattern must not lead out of it.
  if (input.path !== undefined && base !== start && !base.startsWith(join(start, "/"))) {
    const message = `The pattern ${input.pattern} leads out of ${input.path}: put the folder into path.`;
    throw new SyscallError("INVALID", message);
  }
  const { path: folder, stat } = await confinement.searchStart(base);
  if (!stat.isDirectory())
    throw new SyscallError("INVALID", `${confinement.shown(base)} is a file, not a folder. Read shows it.`);
  const { cwd, process } = context;
  const { pattern: original, limit } = input;
  const request = { op: "glob", cwd, folder, pattern: rest, original, limit } as const;
  return searches.run(process.uuid, request, (paths) => confinement.readable(paths), signal);
}

/** Searches the lines of one file, or of all below a folder, in the order of their names. */
async function grep(
  confinement: Confinement,
  context: OpenContext,
  input: GrepInput,
  signal: AbortSignal,
): Promise<string> {
  const { cwd, process } = context;
  const path = input.path ?? cwd;
  const run = (request: GrepRequest): Promise<string> =>
    searches.run(process.uuid, request, (paths) => confinement.readable(paths), signal);
  const start = await confinement.searchStart(path);
  if (start.stat.isDirectory()) return run({ op: "grep", cwd, input, start: start.path });
  // It is searched through the descriptor that was decided on: descriptors are shared with the Worker.
  const file = await confinement.open(path);
  try {
    return await run({ op: "grep", cwd, input, start: file.path, fd: file.handle.fd });
  } finally {
    await file.handle.close();
  }
}
