/** What the user has trusted of each project: one file for each, in the user's data folder. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { SyscallError } from "../../plugin/index.ts";
import { entriesIn, FileCache, jsonOf } from "../files/file.ts";

export const TRUST_VERSION = 1;
const RecordFile = z.lazy(() =>
  z.object({
    v: z.literal(TRUST_VERSION),
    project: z.string(),
    /** Whether later changes to the project are trusted, except those that a run makes. */
    follow: z.boolean(),
    since: z.string(),
    digests: z.record(z.string(), z.string()),
    /** With `follow`: keys whose content a run has changed. For them only the content in `digests` is trusted. */
    distrusted: z.array(z.string()).optional(),
    /** Identifies the followed folder: another folder at the same path is not followed. */
    folder: z.string().optional(),
  }),
);
export type TrustRecord = z.infer<typeof RecordFile>;

/** The trust of a project: null when the user has trusted nothing of it. Fails with INVALID for an unreadable one. */
export function readTrust(file: string): TrustRecord | null {
  return records.get(file);
}

/** Followed projects below this folder. A run in this folder can also write there. */
export function followedBelow(userDataDir: string, dir: string): { id: string; dir: string }[] {
  const folder = join(userDataDir, "trust");
  return entriesIn(folder).flatMap(({ name }) => {
    const record = name.endsWith(".json") ? readable(join(folder, name)) : null;
    if (!record?.follow || !record.project.startsWith(join(dir, "/"))) return [];
    return [{ id: name.slice(0, -".json".length), dir: record.project }];
  });
}

/** Whether the user has ever trusted anything of this project. */
export function hasTrustRecord(userDataDir: string, projectId: string): boolean {
  return existsSync(recordFile(userDataDir, projectId));
}

export function recordFile(userDataDir: string, projectId: string): string {
  return join(userDataDir, "trust", `${projectId}.json`);
}

/** null for an unreadable record, which follows nothing. */
function readable(file: string): TrustRecord | null {
  try {
    return readTrust(file);
  } catch (error) {
    if (error instanceof SyscallError) return null;
    throw error;
  }
}

const records = new FileCache((text, file): TrustRecord => {
  const result = RecordFile.safeParse(jsonOf(text));
  if (result.success) return result.data;
  throw new SyscallError(
    "INVALID",
    `${file}: expected a trust record of version ${TRUST_VERSION}; it is damaged, or a newer rnix has written it. Move it away and run \`rnix trust\` again.`,
  );
});
