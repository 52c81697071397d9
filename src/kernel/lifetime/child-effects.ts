/** Checks that a run may have the effects of a child's options, and of a command that its programs call. */

import { isWithin, realOrSame } from "../../lib/inner-path.ts";
import { type GuardedFolder, SyscallError } from "../../plugin/index.ts";
import { realTarget } from "../permission/call-view.ts";
import type { Process } from "../process/process.ts";
import { foldersOf, requireFolders } from "./spawn-limits.ts";

/** The effects of a command's options outside of tool calls. */
export interface ChildEffects {
  /** Command lines that are run: its checks. */
  commands?: readonly string[];
  /** Files whose content is read. Absolute. */
  files?: readonly string[];
  /** Files that are written. Absolute; they may be missing. */
  written?: readonly string[];
  /** Variables that are set for its programs. */
  variables?: readonly string[];
  /** Folders in which it works. */
  folders?: readonly string[];
}

/** Fails with PERMISSION for an effect that the parent could not cause by its own tool calls. */
export function requireEffects(
  parent: Process,
  effects: ChildEffects,
  guarded: readonly GuardedFolder[],
): void {
  requireFolders(effects.folders ?? [], parent);
  for (const command of effects.commands ?? []) {
    const refusal = parent.permissions.toolRefusal("Bash", command);
    const what = `give its child the check ${JSON.stringify(command)}`;
    if (refusal) throw lacking(parent, what, `Bash(${command})`, refusal);
  }
  for (const file of effects.files ?? []) {
    const refusal = readRefusal(parent, file, guarded);
    if (refusal) throw lacking(parent, `use the file ${file}`, `Read(${file})`, refusal);
  }
  for (const file of effects.written ?? []) {
    const refusal = writeRefusal(parent, file, guarded);
    if (refusal) throw lacking(parent, `have ${file} written`, `Write(${file})`, refusal);
  }
  const [variable] = effects.variables ?? [];
  if (variable === undefined) return;
  // A variable may change what any command does, like an assignment before it. So the right to every command is needed.
  const refusal = parent.permissions.lacks({ kind: "tool", text: "Bash", name: "Bash", glob: false });
  if (refusal)
    throw lacking(parent, `give its child the variable ${variable} (--env)`, "Bash", `${refusal}.`);
}

/** Checks the tool Read and the shell: null if either could show the file. */
function readRefusal(parent: Process, file: string, guarded: readonly GuardedFolder[]): string | null {
  const path = realOrSame(file);
  const quoted = `'${path.replaceAll("'", "'\\''")}'`;
  if (parent.permissions.toolRefusal("Bash", `cat ${quoted}`) === null) return null;
  const hidden = guarded.filter(({ readable }) => !readable);
  return refusalOutside(parent, path, hidden) ?? parent.permissions.toolRefusal("Read", path);
}

/** Checks the tool Write alone: a shell writes by its own redirections. Protected paths need a rule that names them. */
export function writeRefusal(
  parent: Process,
  file: string,
  guarded: readonly GuardedFolder[],
): string | null {
  return refusalOutside(parent, realTarget(file), guarded) ?? parent.permissions.toolRefusal("Write", file);
}

/** Why the real path is outside of the run's folders, or in a closed one; null if it is not. */
function refusalOutside(parent: Process, path: string, closed: readonly GuardedFolder[]): string | null {
  const folders = foldersOf(parent).map(realOrSame);
  const isClosed = closed.some(({ dir }) => isWithin(realOrSame(dir), path));
  if (!isClosed && folders.some((folder) => isWithin(folder, path))) return null;
  return `It is outside of what the run may use: ${folders.join(", ")}.`;
}

function lacking({ pid, uuid }: Process, what: string, right: string, refusal: string): SyscallError {
  const message = `Process ${pid} (${uuid}) may not ${what}: it needs the right ${right} itself. ${refusal}`;
  return new SyscallError("PERMISSION", message);
}
