/** Plays one recorded case in a new folder, and compares its end. */

import { existsSync, mkdtempSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SyscallError } from "../../plugin/index.ts";
import type { Difference, Receipt, StreamEvent } from "../../protocol/methods.ts";
import { environment, type Io, type Session } from "../io.ts";
import { scriptHead } from "../replay/script-head.ts";
import { endDifferences, scriptRequest } from "../replay/script-run.ts";
import { type CaseFolder, fileDifferences, layOut } from "./case-folder.ts";

/** The running time of a case whose script sets no limit. */
const LIMIT_MS = 120_000;

export interface CaseResult {
  name: string;
  passed: boolean;
  differences: Difference[];
  /** Why the case could not be run. */
  error: string | null;
  ms: number;
  /** The folder that it ran in, with `keep`. */
  folder: string | null;
  receipt: Receipt | null;
}

export interface CaseOptions {
  /** The project whose agents, skills and plugins the case uses, absolute. */
  project: string;
  trust: boolean;
  /** Leaves the folder. */
  keep: boolean;
}

export async function playCase(
  io: Io,
  session: Session,
  found: CaseFolder,
  o: CaseOptions,
): Promise<CaseResult> {
  const began = performance.now();
  const folder = mkdtempSync(join(tmpdir(), "rnix-case-"));
  const result = (part: Partial<CaseResult>): CaseResult => ({
    name: found.name,
    passed: false,
    differences: [],
    error: null,
    ms: Math.round(performance.now() - began),
    folder: o.keep ? folder : null,
    receipt: null,
    ...part,
  });
  try {
    layOut(found, o.project, folder);
    const script = await scriptHead(io, found.script);
    const wire = await session.connect();
    const receipt = await played(io, session, scriptRequest(io, script, { cwd: folder, trust: o.trust }));
    const differences = [
      ...(await endDifferences(wire, script.outcome, receipt, folder)),
      ...fileDifferences(found, folder),
    ];
    return result({ passed: differences.length === 0, differences, receipt });
  } catch (error) {
    if (error instanceof SyscallError) return result({ error: error.message });
    throw error;
  } finally {
    if (!o.keep) await removed(folder);
  }
}

/** The run may still be removing its temporary folder there, which ends a removal early. */
async function removed(folder: string): Promise<void> {
  for (let tries = 0; tries < MAX_REMOVALS && existsSync(folder); tries++)
    await rm(folder, { recursive: true, force: true });
}

const MAX_REMOVALS = 10;

async function played(io: Io, session: Session, request: ReturnType<typeof scriptRequest>): Promise<Receipt> {
  const wire = await session.connect();
  const limited = { timeout_ms: LIMIT_MS, ...request };
  const stream: AsyncIterable<StreamEvent> = await wire.open("spawn", { ...limited, env: environment(io) });
  for await (const event of stream) {
    if (event.type === "error") throw new SyscallError("INVALID", event.payload.error_message);
    if (event.type !== "complete") continue;
    const { event: _, ...receipt } = event.payload;
    return receipt;
  }
  throw new SyscallError("UNAVAILABLE", "the connection closed before the case ended");
}
