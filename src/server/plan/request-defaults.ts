/** The folder and environment of requests that bring none, such as those with the seeds' fields only (seeds 5.4). */

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { ResumeRequest, SpawnRequest } from "../../protocol/methods.ts";

/** A spawn request with its folder and environment. */
export type PlacedSpawn = SpawnRequest & { cwd: string; env: Record<string, string> };
export type PlacedResume = ResumeRequest & {
  env: Record<string, string>;
  /** Instead of the recorded ones: the user has chosen another model. */
  provider?: string;
  model?: string;
};

interface DefaultsPorts {
  /** The user's data folder. */
  dataDir: string;
  /** The environment of runs without a caller. */
  environment: Record<string, string>;
  /** The live process with this UUID. */
  parent(uuid: string): { cwd: string; env: Record<string, string> } | undefined;
}

/** The parent of the requested run; undefined if the user has typed the command. */
export function parentUuid(request: SpawnRequest, unit: string | undefined): string | undefined {
  return unit ?? request.env?.RNIX_UNIT ?? request.parent_uuid;
}

/** Fills in a missing folder and environment: those of the parent, else the daemon's. */
export function placedSpawn(
  request: SpawnRequest,
  unit: string | undefined,
  { dataDir, environment, parent }: DefaultsPorts,
): { request: PlacedSpawn; notices: string[] } {
  const uuid = parentUuid(request, unit);
  const above = uuid === undefined ? undefined : parent(uuid);
  const env = request.env ?? above?.env ?? environment;
  const given = request.cwd ?? above?.cwd;
  if (given !== undefined) return { request: { ...request, cwd: given, env }, notices: [] };
  const cwd = defaultFolder(dataDir);
  return { request: { ...request, cwd, env }, notices: [`no folder was given: it runs in ${cwd}`] };
}

/** A separate folder: in the home folder, the run could change all files of the user. */
function defaultFolder(dataDir: string): string {
  const folder = join(dataDir, "workspace");
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return folder;
}
