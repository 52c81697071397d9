/** Builds the request for a run that plays a script. */

import type { SpawnRequest } from "../../protocol/methods.ts";
import { absolutePath } from "../files/paths.ts";
import type { Io } from "../io.ts";
import type { ScriptRun } from "./script-head.ts";

/** The request for a run that plays a script in the folder `cwd`, with the options of the script's head. */
export function scriptRequest(
  io: Io,
  script: ScriptRun,
  { cwd, trust }: { cwd: string; trust: boolean },
): SpawnRequest {
  const { file, checks, check_attempts = 1, folders, limits } = script;
  const { intent, agent, input, system_prompt, allow, deny, output_schema } = script;
  return {
    ...limits,
    intent,
    agent,
    input,
    system_prompt,
    allow,
    deny,
    output_schema,
    provider: "replay",
    model: file,
    cwd,
    add: folders?.map((path) => absolutePath(io, "folders", path)),
    check: checks,
    check_attempts,
    max_cost: "unlimited",
    trust: trust || undefined,
  };
}
