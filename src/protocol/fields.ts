/** Fields that payloads and answers of several methods share. Functions make the schemas, at a method's first call. */

import { z } from "zod";
import type { DamagedFile } from "../store/files/damaged-lines.ts";
import { RUN_STATUSES } from "./run-status.ts";

export const Uuid = () => z.string().min(1).max(64);

/** A message that is sent again with its key is taken once: the answer has the `seq` of the first. */
export const ResendKey = () => z.string().min(1).max(128);

/** A process by PID or UUID; where both are given the UUID counts. `uuid` may be a unique prefix. */
export const Target = () =>
  z.object({ pid: z.int().nonnegative().optional(), uuid: Uuid().optional(), cwd: z.string().optional() });
export type Target = z.infer<ReturnType<typeof Target>>;

export const Page = () => ({
  after: z.int().nonnegative().optional(),
  limit: z.int().positive().max(10_000).optional(),
});

/** A page of the runs of a project, or of all. */
export const Listing = () =>
  z.object({
    cwd: z.string().optional(),
    all_projects: z.boolean().optional(),
    ...Page(),
    /** The last runs instead of the first ones; still by PID, ascending. */
    newest: z.boolean().optional(),
    agent: z.string().optional(),
    status: z.enum(RUN_STATUSES).optional(),
    /** The reason of the end, such as `completed`. */
    verdict: z.string().optional(),
    /** Of the spawn, in Unix ms. */
    since_ms: z.number().optional(),
    until_ms: z.number().optional(),
  });

/** A process by PID and UUID. */
export interface ProcRef {
  pid: number;
  uuid: string;
}

export function refOf({ pid, uuid }: ProcRef): ProcRef {
  return { pid, uuid };
}

/** The answer of a method that begins a run. */
export interface BegunRun extends ProcRef {
  /** Notices of a run without a stream; absent: none, or they follow in the stream. */
  notices?: string[];
}

/** A part that could not be loaded, while the others were. */
export interface Diagnostic {
  path: string;
  message: string;
}

export interface Unreadable {
  parse_errors: number;
  damaged: DamagedLines[];
}

/** Lines of one file of a run's records that can't be read, of which at most a hundred are named, or are foreign. */
export type DamagedLines = DamagedFile;
