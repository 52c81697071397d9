/** Plans a run of a job as a spawn without a caller; a plan that is released again is the pre-flight. */

import { existsSync } from "node:fs";
import { daemonEnvironment, userEnv } from "../../config/environment/environment.ts";
import type { Env, UserPaths } from "../../config/environment/paths.ts";
import { knownModels } from "../../config/providers/model-facts.ts";
import type { StoredJob } from "../../cron/job.ts";
import type { Preflight } from "../../cron/ports.ts";
import { inheritedOptions } from "../../kernel/lifetime/spawn-limits.ts";
import type { AgentInfo, SpawnOpts } from "../../kernel/types.ts";
import { deliveryTarget } from "../../lib/delivery-target.ts";
import { nearestName } from "../../lib/edit-distance.ts";
import { expected } from "../../lib/error-detail.ts";
import { limitsNamed } from "../../options/option-list.ts";
import { SyscallError } from "../../plugin/index.ts";
import { recordedLevel, wasWhole } from "../../sandbox/policy.ts";
import type { JobRef } from "../../store/runs/schema.ts";
import { requireInside } from "../notify/deliver.ts";
import { addressVariable } from "../plan/keep-address.ts";
import { planSpawn, type SpawnPlan, type SpawnPorts, scriptOf } from "../plan/plan-spawn.ts";
import type { PlacedSpawn } from "../plan/request-defaults.ts";
import { placedRequest } from "./job-request.ts";

export interface JobPlanPorts {
  user: UserPaths;
  /** The server's own environment. */
  env: Env;
  spawn: SpawnPorts;
  /** Fails for rules and limits that can't hold. */
  check(agent: AgentInfo, opts: SpawnOpts): void;
  /** Waits for the project's init.yaml; returns notices. */
  ready(where: { cwd: string; env: Env }): Promise<string[]>;
}

/** Plans one run. Fails as a spawn does, and with INVALID for a job of another folder. */
export async function planJob(
  job: StoredJob,
  ports: JobPlanPorts,
  { ref, input, inputOrigin }: { ref?: JobRef; input?: string; inputOrigin?: string } = {},
): Promise<SpawnPlan> {
  const { request: placed, byFlag } = placedJob(job, ports);
  const request = {
    ...placed,
    ...sandboxOfCreator(job),
    input_origin: inputOrigin,
    input: [placed.input, input].filter((text) => text !== undefined).join("\n\n") || undefined,
  };
  requireFolder(request.cwd);
  for (const { to } of job.deliver ?? []) {
    const target = deliveryTarget(to);
    if (target.kind === "file") requireInside(target.path, job.project);
  }
  const left = await ports.ready(request);
  const { agent, opts, notices } = await planSpawn(request, undefined, ports.spawn, {
    byFlag,
    withoutShell: true,
  });
  try {
    requireProject(job, request, opts);
    requireCommands([...(agent?.checks ?? []), ...(opts.check ?? [])], opts.env);
    // A limit of the day bounds each run: it needs the model's price, too.
    if (agent) ports.check(agent, { ...opts, max_cost: opts.max_cost ?? job.max_cost_per_day });
  } catch (thrown) {
    opts.devices.release();
    throw thrown;
  }
  return { agent, notices: [...left, ...notices], opts: { ...limited(opts, job), job: ref } };
}

export function placedJob(
  job: StoredJob,
  { env, user }: Pick<JobPlanPorts, "env" | "user">,
): ReturnType<typeof placedRequest> {
  return placedRequest(job, { plain: daemonEnvironment(env), user: userEnv(user.configDir) });
}

function requireProject(job: StoredJob, request: { cwd: string }, opts: SpawnOpts): void {
  if (opts.project.dir === job.project) return;
  const message = `The job was made in ${job.project}, and its folder ${request.cwd} belongs to ${opts.project.dir} now. If it has moved, \`rnix cron enable ${job.name}\` takes it over.`;
  throw new SyscallError("INVALID", message);
}

function requireFolder(cwd: string): void {
  if (existsSync(cwd)) return;
  throw new SyscallError("NOT_FOUND", `The folder ${cwd} of the job does not exist.`);
}

/** A check whose program is missing would be noticed only after the run has spent its tokens. */
function requireCommands(checks: readonly string[], env: Record<string, string>): void {
  for (const check of checks) {
    const [, program] = PLAIN_PROGRAM.exec(check) ?? [];
    if (program === undefined || BUILT_IN.has(program) || Bun.which(program, { PATH: env.PATH })) continue;
    const message = `The check ${JSON.stringify(check)} needs ${program}, which is not on the PATH of the daemon (${env.PATH}). Write its absolute path, or start the daemon with this PATH.`;
    throw new SyscallError("NOT_FOUND", message);
  }
}

/** A command line that begins with a program's bare name. */
const PLAIN_PROGRAM = /^\s*([A-Za-z_][A-Za-z0-9_.+-]*)(?=\s|$)(?!\s*\(\))/;
const BUILT_IN: ReadonlySet<string> = new Set(
  "alias bg break cd case command continue do done elif else esac eval exec exit export false fg fi for function if hash in jobs kill let local printf pwd read readonly return select set shift source test then time times trap true type ulimit umask unset until wait while echo".split(
    " ",
  ),
);

/** Fails with PERMISSION for what the run that makes the job could not do itself. */
function requireRights(
  job: StoredJob,
  { checks, scripts }: Record<"checks" | "scripts", readonly string[]>,
  { spawn }: JobPlanPorts,
): void {
  if (job.creator.kind !== "run") return;
  const { env_names: named, ...run } = job.run;
  const { env = {}, add = [] } = placedRequest({ ...job, run }, { plain: {}, user: {} }).request;
  const delivered = (job.deliver ?? []).map(({ to }) => to);
  const targets = [job.on_failure, job.on_silence, ...delivered].filter((to) => to !== undefined);
  const commands = targets.map((to) => {
    if (/^https?:/i.test(to)) return `curl --data-binary @- ${to}`;
    return to.startsWith("/") && delivered.includes(to) ? `tee ${to}` : to;
  });
  spawn.parent(job.creator.uuid)?.requireEffects({
    commands: [...checks, ...(job.if === undefined ? [] : [job.if]), ...commands],
    files: [...add, ...scripts],
    variables: [...Object.keys(env), ...(Array.isArray(named) ? named.map(String) : [])],
  });
}

/** A job made by a run in a sandbox has one that allows no more. */
function sandboxOfCreator({ rights }: StoredJob): Pick<PlacedSpawn, "sandbox" | "sandbox_level"> {
  const sandbox = rights?.sandbox ?? "none";
  const level = recordedLevel(sandbox);
  if (level === null) return {};
  return {
    sandbox: wasWhole(sandbox) ? "required" : "auto",
    ...(level === "read-only" && { sandbox_level: level }),
  };
}

/** A job made by a run never has more than that run had. */
function limited(opts: SpawnOpts, { rights }: StoredJob): SpawnOpts {
  if (!rights) return opts;
  return {
    ...opts,
    within: rights.permissions,
    ...inheritedOptions(rights, opts),
    ...limitsNamed((limit) => smaller(opts[limit], rights[limit])),
  };
}

/** The smaller of two limits. undefined: the default of the agent and the settings, which `above` bounds too. */
export function smaller(own: number | null | undefined, above: number | null): number | null | undefined {
  if (above === null) return own;
  return own === undefined || own === null ? above : Math.min(own, above);
}

/** An address that only the user's shell has: the run would send its key and its prompt to another server. */
function requireAddress({ provider, devices }: SpawnOpts, shell: Readonly<Record<string, string>>): void {
  const variable = provider ? addressVariable(provider, devices.namespace) : undefined;
  if (provider === null || variable === undefined || !shell[variable]) return;
  const message = `The address of ${provider.name} is in ${variable} of your shell, and a job takes nothing from there: write ${variable}=${shell[variable]} into ~/.config/rnix/env (chmod 600).`;
  throw new SyscallError("UNAVAILABLE", message);
}

/** Plans a run and releases it. `shell`: the environment of the user who makes the job. */
export async function preflightJob(
  job: StoredJob,
  ports: JobPlanPorts,
  shell: Readonly<Record<string, string>> = {},
): Promise<Preflight> {
  try {
    const { agent, opts } = await planJob(job, ports);
    let warning: string | null;
    try {
      requireAddress(opts, shell);
      warning = await checkModel(opts, ports.spawn);
    } finally {
      opts.devices.release();
    }
    if (job.creator.kind === "run")
      requireRights(
        job,
        {
          checks: [...(agent?.checks ?? []), ...(opts.check ?? [])],
          scripts: opts.provider?.plays ? scriptOf(opts.provider.model, opts.cwd) : [],
        },
        ports,
      );
    const { name = "default" } = agent ?? {};
    const { provider } = opts;
    return {
      problems: [],
      warnings: warning === null ? [] : [warning],
      resolved: { agent: name, ...(provider && { provider: provider.name, model: provider.model }) },
      graceMs: opts.limits.cron_grace,
    };
  } catch (thrown) {
    if (!(thrown instanceof SyscallError) || thrown.code === "INTERNAL") throw thrown;
    return { problems: [thrown.message] };
  }
}

/**
 * Fails with INVALID for a model that the service does not list, and for a misspelled name of the table of known models.
 * Returns a warning where no list has the name; null for a known model.
 */
async function checkModel(
  { provider: choice, devices, project, cwd, env }: SpawnOpts,
  { models }: Pick<SpawnPorts, "models">,
): Promise<string | null> {
  if (choice === null || choice.plays) return null;
  const { contextWindow, maxOutput, outputLimit, price } = choice;
  if ([contextWindow, maxOutput, outputLimit, price].some((fact) => fact !== undefined)) return null;
  const { name, model, config } = choice;
  const entry = devices.namespace.entries().find(({ path }) => path === choice.device);
  const facts = entry?.device.provider;
  const known = knownModels({ url: config.base_url, driver: facts, extra: config.extra });
  const listed = facts?.listsModels
    ? await models(choice, devices.namespace, { project, cwd, env }).catch(unlisted)
    : null;
  const names = [...(listed ?? []).map(({ id }) => id), ...known];
  if (names.includes(model)) return null;
  const near = nearestName(model, names);
  const hint = near === undefined ? "" : ` Did you mean ${near}?`;
  if (listed !== null || near !== undefined) {
    const message = `The provider ${name} has no model ${JSON.stringify(model)}.${hint} \`rnix models --provider ${name}\` lists its models.`;
    throw new SyscallError("INVALID", message);
  }
  return `no list of ${name} has the model ${JSON.stringify(model)}: the first run will show whether it exists`;
}

/** A service without a list, or one that does not answer now. */
function unlisted(error: unknown): null {
  expected(error);
  return null;
}
