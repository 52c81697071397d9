/** The content of a file before a run changed it, where only the user's repository has it. */

import type { FileState } from "../../store/changes/change-log.ts";
import { blobName, type ObjectFormat } from "../../store/changes/object-store.ts";
import { type FileStates, other } from "./file-states.ts";
import type { IndexEntry } from "./tree-scan.ts";

const CONVERTED = "git converts it, and what was in the work tree was not kept";

interface Committed {
  /** Contents that git has given, by their names. */
  contents: ReadonlyMap<string, Uint8Array> | undefined;
  format: ObjectFormat;
  states: FileStates;
}

/** Keeps the content that an entry of the index names, and returns its state. */
export async function stateOfEntry(
  { kind, oid, mode, converted }: IndexEntry & { converted?: number },
  { contents, format, states }: Committed,
): Promise<FileState> {
  if (kind === "other") return other("a submodule");
  const content = contents?.get(oid);
  if (content && (await blobName(format, content)) === oid) {
    const raw = converted === undefined || content.length === converted ? content : withReturns(content);
    if (converted === undefined || raw.length === converted)
      return { ...(await states.keep(kind, raw)), mode };
    return { kind, oid: null, mode, size: converted, lost: CONVERTED };
  }
  return { kind, oid: null, mode, size: 0, lost: "git no longer has its former content, or it is too large" };
}

/** Converts line ends to CR LF, as git does when it checks out text with that setting. */
function withReturns(content: Uint8Array): Uint8Array {
  return Buffer.from(Buffer.from(content).toString("latin1").replace(/\r?\n/g, "\r\n"), "latin1");
}
