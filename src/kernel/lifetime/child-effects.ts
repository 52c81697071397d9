/** Checks that a parent may have the effects of a child's options. */

import { isWithin, realOrSame } from "../../lib/inner-path.ts";
import { type GuardedFolder, SyscallError } from "../../plugin/index.ts";
import type { Process } from "../process/process.ts";
import { foldersOf } from "./spawn-limits.ts";

/** The effects of a child's options outside of its own tool calls. */
export interface ChildEffects {
  /** Command lines that are run: its checks. */
  commands?: readonly string[];
  /** Files whose content is attached. Absolute. */
  files?: readonly string[];
  /** Variables that are set for its programs. */
  variables?: readonly string[];
}

/** Fails with PERMISSION for an effect that the parent could not cause by its own tool calls. */
export function requireEffects(
  parent: Process,
  effects: ChildEffects,
  guarded: readonly GuardedFolder[],
): void {
  for (const command of effects.commands ?? []) {
    const refusal = parent.permissions.toolRefusal("Bash", command);
    if (refusal) throw lacking(parent, `the check ${JSON.stringify(command)}`, `Bash(${command})`, refusal);
  }
  for (const file of effects.files ?? []) {
    const refusal = readRefusal(parent, file, guarded);
    if (refusal) throw lacking(parent, `the file ${file}`, `Read(${file})`, refusal);
  }
  const [variable] = effects.variables ?? [];
  if (variable === undefined) return;
  // As an assignment before a command, a variable may change what any command does.
  const refusal = parent.permissions.lacks({ kind: "tool", text: "Bash", name: "Bash", glob: false });
  if (refusal) throw lacking(parent, `the variable ${variable} (--env)`, "Bash", `${refusal}.`);
}

/** Checks the tool Read and the shell: null if either could show the file. */
function readRefusal(parent: Process, file: string, guarded: readonly GuardedFolder[]): string | null {
  const path = realOrSame(file);
  const quoted = `'${path.replaceAll("'", "'\\''")}'`;
  if (parent.permissions.toolRefusal("Bash", `cat ${quoted}`) === null) return null;
  const hidden = guarded.some(({ dir, readable }) => !readable && isWithin(realOrSame(dir), path));
  const folders = foldersOf(parent).map(realOrSame);
  if (hidden || !folders.some((folder) => isWithin(folder, path))) {
    return `It is outside of what the parent may read: ${folders.join(", ")}.`;
  }
  return parent.permissions.toolRefusal("Read", path);
}

function lacking({ pid, uuid }: Process, what: string, right: string, refusal: string): SyscallError {
  return new SyscallError(
    "PERMISSION",
    `Process ${pid} (${uuid}) may not give its child ${what}: it needs the right ${right} itself. ${refusal}`,
  );
}
