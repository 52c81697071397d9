/** What only the page asks: methods that no client of the socket has. */

import { z } from "zod";
import type { ProcInfo } from "../../kernel/types.ts";
import { SyscallError } from "../../plugin/index.ts";
import { Uuid } from "../../protocol/fields.ts";
import { statusOf } from "../../store/runs/run-row.ts";
import type { Caller } from "../connection/connection.ts";
import { call } from "../methods/call.ts";
import { method } from "../methods/method.ts";
import type { METHODS } from "../methods/method-table.ts";
import { silentJobs } from "../methods/shared/silent-jobs.ts";
import type { Services } from "../services.ts";

const MAX_TEXT = 200;
const MAX_ATTEMPTS = 5000;
const STRIP = 60;
const MAX_RUNS = 20_000;
const MAX_HITS = 500;
const NEXT = 3;

/** The agents and workflows that a run has started: Gantt bars beside its own. */
const children = method({
  payload: () => z.object({ uuid: Uuid() }),
  async handle({ uuid }, { history }) {
    const found = await (await history()).childrenOf(uuid, 1000);
    return {
      children: found.map(({ uuid, agent, intent, created_at_ms, ended_at_ms, exit_code }) => ({
        uuid,
        agent,
        created_at_ms,
        ended_at_ms,
        exit_code,
        intent: intent.slice(0, MAX_TEXT),
      })),
    };
  },
});

/** All jobs with their next instants and their latest attempts; which of them are silent. */
const jobs = method({
  payload: () => z.object({}),
  async handle(_payload, services) {
    const { schedules, clock } = services;
    const found = (await schedules?.list({ all_projects: true })) ?? [];
    const rows = (await schedules?.history({ limit: MAX_ATTEMPTS, all_projects: true })) ?? [];
    const silent = new Set((await silentJobs(services, found, clock.now())).map(({ job_id }) => job_id));
    const byJob = Map.groupBy(rows, ({ job_id }) => job_id);
    const listed = found.map(
      async ({ id, name, project, trigger, intent, state, reason, next_at, expect_every }) => {
        const isClock = "cron" in trigger && state === "enabled";
        const query = isClock && { expression: trigger.cron, tz: trigger.tz, count: NEXT };
        const next = query ? (await schedules?.next(query))?.instants : undefined;
        const attempts = (byJob.get(id) ?? []).slice(-STRIP).map(({ due, state, reason, uuid }) => ({
          due,
          state,
          reason,
          uuid,
        }));
        return {
          id,
          name,
          project,
          trigger,
          state,
          reason,
          expect_every,
          attempts,
          is_silent: silent.has(id),
          intent: intent.slice(0, MAX_TEXT),
          next: next ?? (next_at === null ? [] : [next_at]),
        };
      },
    );
    return { jobs: await Promise.all(listed) };
  },
});

/** The newest runs of all projects since a time, in short. */
const history = method({
  payload: () =>
    z.object({ since_ms: z.number().optional(), limit: z.int().positive().max(MAX_RUNS).optional() }),
  async handle({ since_ms, limit = MAX_RUNS }, { kernel, history }) {
    const live = () => kernel.processes.listProcs();
    const { runs, total } = await (await history()).list({ since_ms, newest: true, limit, live });
    return { runs: runs.map(shortRun), total };
  },
});

/** The runs in whose conversation a text is. `pending`: runs that are not indexed yet. */
const search = method({
  payload: () => z.object({ text: z.string().min(1).max(1000) }),
  async handle({ text }, { searchRuns }) {
    const { hits = [], pending = 0 } = (await searchRuns?.({ text, limit: MAX_HITS })) ?? {};
    return { hits: hits.flatMap(({ run, snippet }) => (run ? [{ uuid: run.uuid, snippet }] : [])), pending };
  },
});

function shortRun(info: ProcInfo) {
  const { uuid, pid, agent, project, exit_code, exit_reason, created_at_ms, ended_at_ms } = info;
  const { elapsed_ms, tokens_used, cost_usd } = info;
  return {
    uuid,
    pid,
    agent,
    project,
    exit_code,
    exit_reason,
    created_at_ms,
    ended_at_ms,
    elapsed_ms,
    tokens_used,
    cost_usd,
    status: statusOf(info),
    title: (info.workflow?.label ?? info.intent).slice(0, MAX_TEXT),
  };
}

/** The folders of the projects of the newest runs. */
const projects = method({
  payload: () => z.object({}),
  async handle(_payload, { history, kernel }) {
    const live = () => kernel.processes.listProcs();
    const { runs } = await (await history()).list({ newest: true, limit: 1000, live });
    return { projects: [...new Set(runs.map(({ project }) => project))].sort() };
  },
});

const Project = () => z.object({ project: z.string().startsWith("/") });

/** What a run in a project would have, and what of it failed; mounts of live runs that are down; units of init.yaml. */
const parts = method({
  payload: Project,
  async handle({ project: cwd }, services) {
    const { kernel, init } = services;
    const catalog = await services.catalog();
    const [{ plugins }, { servers, problems }] = await Promise.all([
      catalog.plugins({ cwd }),
      catalog.mcpServers({ cwd }),
    ]);
    const down = kernel.processes.listProcs().flatMap(({ pid, uuid, ended_at_ms }) => {
      const mounts = ended_at_ms === null ? kernel.detail(pid).mounts : [];
      return mounts.filter((mount) => mount.down !== null).map((mount) => ({ pid, uuid, ...mount }));
    });
    return {
      plugins: plugins.map(({ name, layer, state, problems }) => ({ name, layer, state, problems })),
      servers: servers.map(({ name, state, file }) => ({ name, state, file })),
      problems: problems.map(({ message }) => message),
      down,
      init: init?.status() ?? { units: [], problems: [] },
    };
  },
});

/** The entries of one scope, as the plugin memory answers. */
interface Remembered {
  target: string;
  entries: { id: string; text: string; at?: string; agent?: string }[];
}

interface Waiting {
  id: string;
  target: string;
  text: string;
  why: string;
  agent: string | null;
}

/** What agents remember in a project, and what waits for a person. */
const memory = method({
  payload: Project,
  async handle({ project }, services, caller) {
    const read = (path: string, input: object) => called(services, caller, { project, path, input });
    const scopes: Remembered[] = JSON.parse(await read("/dev/memory/commit", { action: "show" }));
    const waiting: Waiting[] = JSON.parse(await read("/dev/memory/review", {}));
    return { scopes, waiting };
  },
});

/** A person's decision on an entry: it becomes visible to agents, or it goes. */
const decideMemory = method({
  payload: () =>
    Project().extend({
      approve: z.string().optional(),
      reject: z.string().optional(),
      remove: z.string().optional(),
    }),
  async handle({ project, remove, ...decision }, services, caller) {
    const call =
      remove === undefined
        ? { path: "/dev/memory/review", input: decision }
        : { path: "/dev/memory/commit", input: { action: "remove", old: remove } };
    return { answer: await called(services, caller, { project, ...call }) };
  },
});

async function called(
  services: Services,
  caller: Caller,
  { project: cwd, path, input }: { project: string; path: string; input: object },
): Promise<string> {
  const made = await call.handle({ cwd, path, input: { ...input } }, services, caller);
  if (made.error !== null) throw new SyscallError(made.error_code ?? "INTERNAL", made.error);
  return made.result ?? "";
}

/** Methods of the page alone, in the form of the table of methods. */
export const PAGE_METHODS = {
  children: async () => children,
  jobs: async () => jobs,
  history: async () => history,
  search: async () => search,
  projects: async () => projects,
  parts: async () => parts,
  memory: async () => memory,
  decide_memory: async () => decideMemory,
};

type Table = typeof METHODS & typeof PAGE_METHODS;
type Handlers = { [M in keyof Table]: Awaited<ReturnType<Table[M]>>["handle"] };

/** What the page can ask for, with what it gives and gets. */
export type PageMethod = keyof Handlers;
export type PagePayload<M extends PageMethod> = Parameters<Handlers[M]>[0];
export type PageAnswer<M extends PageMethod> = Awaited<ReturnType<Handlers[M]>>;
