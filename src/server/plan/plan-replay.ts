/** Plans the replay of a recorded run. */

import { existsSync } from "node:fs";
import type { AttachedImage } from "../../kernel/types.ts";
import { recordedMode } from "../../lib/ask-modes.ts";
import { attemptsOf } from "../../lib/check-attempts.ts";
import { limitsNamed } from "../../options/option-list.ts";
import { type ImageRef, SyscallError } from "../../plugin/index.ts";
import type { ReplayRequest, SpawnRequest } from "../../protocol/methods.ts";
import type { AskVerdict } from "../../run/ask-schema.ts";
import type { Run } from "../records/recorded-run.ts";
import type { SpawnPlan } from "./plan-spawn.ts";

/** The provider that plays runs (plugins/replay). */
const PROVIDER = "replay";

/**
 * Plans the replay of a recorded run: its intent and attachments, its agent's current definition, and the recorded
 * answers instead of a model. Limits are those of the current agent, else of the run; a replay costs nothing. `plan` is
 * that of a spawn.
 */
export async function planReplay(
  run: Run,
  request: ReplayRequest,
  plan: (request: SpawnRequest) => Promise<SpawnPlan>,
): Promise<SpawnPlan> {
  const { info } = run;
  requireRest(run);
  await requireWhole(run);
  const verdicts = new Map<string, AskVerdict[]>();
  await collectVerdicts(run, verdicts);
  const spawned = (await run.records.meta(info.uuid))?.spawned;
  const folders = (spawned?.folders ?? []).filter((folder) => existsSync(folder));
  const kept = info.env.values;
  const planned = await plan({
    intent: info.intent,
    agent: info.agent,
    provider: PROVIDER,
    model: request.compare === undefined ? info.uuid : `${info.uuid}:${request.compare}`,
    cwd: request.folder ?? existing(info.cwd, info.uuid),
    base: request.folder === undefined ? info.base?.commit : undefined,
    env: { ...kept, ...request.env },
    env_given: Object.keys(kept).filter((name) => request.env === undefined || !(name in request.env)),
    input: spawned?.input ?? undefined,
    system_prompt: spawned?.system_prompt ?? undefined,
    output_schema: spawned?.output_schema,
    add: folders.length > 0 ? folders : undefined,
    // The agent's own of today are among them once.
    check: spawned?.checks.length ? spawned.checks : undefined,
    // The recording has no further answers.
    check_attempts: Math.max(1, attemptsOf(info.checks)),
    allow: info.permissions.fixed ? info.permissions.allow[0] : undefined,
    deny: info.permissions.deny.length > 0 ? info.permissions.deny : undefined,
    ask: info.permissions.ask,
    ask_mode: recordedMode(info.permissions),
    trust: request.trust,
    attended: request.attended,
    outputs: request.outputs,
  });
  const { agent, opts } = planned;
  return {
    ...planned,
    notices: [`its tools are executed for real, in ${opts.cwd}`, ...planned.notices],
    opts: {
      ...opts,
      images: await imagesOf(run, spawned?.images ?? []),
      // A recording needs no reasoning effort.
      effort: undefined,
      // What a person has decided is part of what is played.
      verdicts,
      approved: info.permissions.approved,
      ...limitsNamed((limit) => (agent?.[limit] === undefined ? info[limit] : undefined)),
      max_cost: opts.parentPid === undefined ? null : undefined,
    },
  };
}

/** Shown to the recorded run's model, so part of the intent. */
async function imagesOf({ info, records }: Run, images: readonly ImageRef[]): Promise<AttachedImage[]> {
  const read: AttachedImage[] = [];
  for (const ref of images) {
    const { media_type, width, height } = ref;
    read.push({ media_type, width, height, data: await records.readBlob(info.uuid, ref) });
  }
  return read;
}

function requireRest({ info }: Run): void {
  if (info.ended_at_ms !== null) return;
  const message = `PID ${info.pid} is still running: wait for its end (\`rnix wait ${info.pid}\`), or suspend it.`;
  throw new SyscallError("INVALID", message);
}

/** What a person has decided in the run and in the runs below it, by call. `passed`: damaged records may form a circle. */
async function collectVerdicts(
  { info, records }: Run,
  verdicts: Map<string, AskVerdict[]>,
  passed: ReadonlySet<string> = new Set(),
): Promise<void> {
  if (passed.has(info.uuid)) return;
  for await (const { tool_calls } of records.everyStep(info.uuid)) {
    for (const { id, asked = [] } of tool_calls) {
      const played = asked.map((verdict) => ({ ...verdict, via: "the recorded run" }));
      if (played.length > 0) verdicts.set(id, [...(verdicts.get(id) ?? []), ...played]);
    }
  }
  for (const { uuid } of info.children) {
    const child = await records.info(uuid);
    if (child && !child.foreign)
      await collectVerdicts({ info: child, records }, verdicts, new Set([...passed, info.uuid]));
  }
}

/** Known before anything is spent: the answers are in its steps. */
async function requireWhole({ info, records }: Run): Promise<void> {
  const { recorded, gap } = await records.state(info);
  const last = gap === null ? recorded : gap - 1;
  // The last one may have been cut off.
  if (last > 0 && last >= info.steps - 1) return;
  throw new SyscallError(
    "INVALID",
    last === 0
      ? `Run ${info.uuid} has no step on record: there is no answer to play.`
      : `Step ${last + 1} of run ${info.uuid} can't be read, so it can't be played. \`rnix steps ${info.uuid}\` says which line is damaged.`,
  );
}

function existing(cwd: string, uuid: string): string {
  if (existsSync(cwd)) return cwd;
  const message = `The folder of run ${uuid}, ${cwd}, no longer exists. Name another folder with --cwd.`;
  throw new SyscallError("INVALID", message);
}
