/** A workflow as a run has it: a name, the text of its script, its arguments; and what can be read of it unrun. */

import { z } from "zod";
import { SyscallError } from "../plugin/errors.ts";

const MAX_SOURCE = 512 * 1024;
const MAX_ARGS = 256 * 1024;

/** In requests and records. `source`: the script's text. `args`: any JSON value. */
export function WorkflowScript() {
  return z.object({
    name: z.string().min(1).max(200),
    source: z.string().min(1),
    args: z.unknown().optional(),
    /** It is a script of the agent shell. */
    shell: z.literal(true).optional(),
  });
}

export type WorkflowScript = z.infer<ReturnType<typeof WorkflowScript>>;

/** The workflow of which a run is an agent. */
export function WorkflowPart() {
  return z.object({ name: z.string(), phase: z.string().optional(), label: z.string().optional() });
}

export type WorkflowPart = z.infer<ReturnType<typeof WorkflowPart>>;

/** The beginning of a script, whose rest is the body of an async function. */
const META = /^((?:\s|\/\/[^\n]*\n|\/\*[\s\S]*?\*\/)*)export(\s+const\s+meta\s*=)/;
const DESCRIPTION = /\bdescription\s*:\s*(["'`])((?:\\.|(?!\1)[\s\S])*)\1/;

/** The script as the body of an async function; each line keeps its number. Fails with INVALID. */
export function bodyOf({ name, source, args }: WorkflowScript): string {
  if (source.length > MAX_SOURCE || (JSON.stringify(args ?? null)?.length ?? 0) > MAX_ARGS) {
    const message = `${name}: expected a script of at most ${MAX_SOURCE} characters with arguments of at most ${MAX_ARGS}.`;
    throw new SyscallError("INVALID", message);
  }
  if (!META.test(source)) {
    const message = `${name}: expected a workflow that begins with export const meta = {name, description}.`;
    throw new SyscallError("INVALID", message);
  }
  return source.replace(META, "$1$2");
}

/** The description in the script's `meta`, where it is a plain text; else "". */
export function descriptionOf(source: string): string {
  return (
    DESCRIPTION.exec(source.slice(0, 4000))?.[2]?.replace(/\\(.)/g, "$1").replace(/\s+/g, " ").trim() ?? ""
  );
}
