/** What a driver finds in the runs of its project. */

import { z } from "zod";
import type { ProcInfo } from "../../kernel/types.ts";
import { issueText } from "../../lib/issue-text.ts";
import {
  type History as HistoryService,
  type RunInfo,
  type Search,
  type SearchHit,
  type SearchQuery,
  type SearchScope,
  SyscallError,
} from "../../plugin/index.ts";
import { foreignLines, requireOwn } from "../../store/runs/own-run.ts";
import { STEPS } from "../../store/runs/run-files.ts";
import { matchesFilter } from "../../store/runs/run-row.ts";
import type { DocumentTarget, IndexHit } from "../../store/search/requests.ts";
import type { SearchIndex } from "../../store/search/search-index.ts";
import type { History } from "./history.ts";

const MAX_HITS = 1_000;
const MAX_PUT_CHARS = 16 * 1024 * 1024;

const Name = z.string().max(1_024);
const Time = z.number().optional();
const Collection = z.string().regex(/^[A-Za-z0-9._-]{1,64}$/);
const Scope = z.enum(["project", "user"]);
/** What a plugin puts: texts are split by the plugin. */
const Put = z.lazy(() =>
  z.object({
    scope: Scope,
    collection: Collection,
    source: Name,
    version: Name,
    documents: z
      .array(
        z.object({
          id: Name,
          text: z.string().max(65_536),
          time_ms: Time,
          fields: z.record(Name, Name).optional(),
        }),
      )
      .max(10_000)
      .refine((all) => all.reduce((sum, { text }) => sum + text.length, 0) <= MAX_PUT_CHARS, {
        error: `expected at most ${MAX_PUT_CHARS} characters of one source`,
      }),
  }),
);
const Query = z.lazy(() =>
  z.object({
    text: z.string().max(4_096),
    collections: z.array(Collection).optional(),
    project: z.string().max(4_096).optional(),
    agent: Name.optional(),
    since_ms: Time,
    until_ms: Time,
    runs: z.boolean().optional(),
    limit: z.number().int().min(1),
  }),
);
const Place = z.object({ scope: Scope, collection: Collection });

interface SearchPorts {
  index: Pick<SearchIndex, "ask">;
  userDataDir: string;
  /** The projects that the user has run something in. */
  projects(): readonly { dir: string; data_dir: string }[];
  /** All data folders with runs. */
  dataDirs(): readonly string[];
}

/** Each plugin sees its own collections only. */
export function driverSearch(
  { index, userDataDir, projects, dataDirs }: SearchPorts,
  plugin: string,
  own: { dir: string; dataDir: string },
): Search {
  const dataDirOf = (scope: SearchScope): string => (scope === "user" ? userDataDir : own.dataDir);
  /** The data folder of a project; undefined for an unknown one. */
  const dataDirOfProject = (project: string): string | undefined =>
    project === own.dir ? own.dataDir : projects().find(({ dir }) => dir === project)?.data_dir;
  const runsOf = ({ runs, project }: SearchQuery): string[] => {
    if (!runs) return [];
    if (project === undefined) return [...new Set([own.dataDir, ...dataDirs()])];
    return [dataDirOfProject(project) ?? []].flat();
  };
  const targets = ({ collections = [], project = own.dir }: SearchQuery): DocumentTarget[] => {
    const dataDir = dataDirOfProject(project);
    const inScope = (scope: SearchScope): string[] =>
      collections.map((collection) => nameOf(plugin, { scope, collection }));
    if (collections.length === 0) return [];
    return [
      ...(dataDir === undefined ? [] : [{ dataDir, collections: inScope("project") }]),
      { dataDir: userDataDir, collections: inScope("user") },
    ];
  };
  return {
    async sources(scope, collection) {
      const place = checked(Place, { scope, collection });
      return index.ask("sources", { dataDir: dataDirOf(place.scope), collection: nameOf(plugin, place) });
    },
    async put(scope, collection, source, version, documents) {
      const put = checked(Put, { scope, collection, source, version, documents });
      return index.ask("put", { ...put, dataDir: dataDirOf(put.scope), collection: nameOf(plugin, put) });
    },
    async find(query) {
      const { collections: _collections, project, runs: _runs, ...wanted } = checked(Query, query);
      const { hits, pending } = await index.ask("find", {
        ...wanted,
        project,
        documents: targets(query),
        runs: runsOf(query),
        limit: Math.min(wanted.limit, MAX_HITS),
      });
      return { hits: hits.map(asHit), pending };
    },
  };
}

/** The name of a collection in the index: a data folder may be the user's and a project's at once. */
function nameOf(plugin: string, { scope, collection }: z.infer<typeof Place>): string {
  return `${plugin}/${scope}/${collection}`;
}

function asHit({ collection, ...hit }: IndexHit): SearchHit {
  if (hit.run) return { kind: "run", collection: null, scope: null, ...hit };
  const [, scope, ...name] = collection?.split("/") ?? [];
  return {
    kind: "document",
    collection: name.join("/"),
    scope: scope === "user" ? "user" : "project",
    ...hit,
  };
}

function checked<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new SyscallError("INVALID", `search: ${issueText(result.error, "the request")}.`);
}

/** Maximum page, whatever a driver requests. */
const MAX_PAGE = 1000;

/** The service `history` of drivers: the recorded runs of all the user's projects. */
export function driverHistory(history: History): HistoryService {
  return {
    async runs({ uuid, ...query }) {
      const limit = Math.min(count("limit", query.limit), MAX_PAGE);
      const { parent, project, agent, verdict, since_ms, until_ms } = query;
      const filter = { parent: parent?.toLowerCase(), project, agent, verdict, since_ms, until_ms };
      const after = query.after?.toLowerCase();
      if (uuid === undefined) return (await history.runs({ ...filter, after, limit })).map(runInfo);
      if (!/^[0-9a-f][0-9a-f-]{0,35}$/i.test(uuid)) {
        const message = `history.runs: expected the beginning of a UUID, got ${JSON.stringify(uuid)}.`;
        throw new SyscallError("INVALID", message);
      }
      const named = (await history.find(uuid.toLowerCase())).toSorted();
      const found: RunInfo[] = [];
      for (const one of named.filter((name) => after === undefined || name > after)) {
        if (found.length >= limit) break;
        const run = await history.byUuid(one);
        if (run && matchesFilter(run.info, filter)) found.push(runInfo(run.info));
      }
      return found;
    },
    async steps(uuid, after, max) {
      const run = await history.byUuid(uuid);
      if (run === undefined) throw new SyscallError("NOT_FOUND", `There is no run ${uuid}.`);
      // Foreign runs are excluded, because a driver executes what it replays.
      requireOwn(run.info);
      const wanted = Math.min(count("max", max), MAX_PAGE);
      const found: object[] = [];
      // A step is never before the line with its number.
      for (let line = count("after", after); found.length < wanted; ) {
        const page = await run.records.steps(uuid, { after: line, limit: wanted });
        if (page.foreign > 0) throw foreignLines(uuid, STEPS, page.foreign);
        found.push(...page.records.filter(({ step }) => step > after));
        if (page.next.after === line) break;
        line = page.next.after;
      }
      return found.slice(0, wanted);
    },
  };
}

function runInfo(info: ProcInfo): RunInfo {
  const { uuid, pid, parent_uuid, kind, agent, intent, provider, model, cwd, project } = info;
  const { created_at_ms, ended_at_ms, exit_code, exit_reason } = info;
  return {
    uuid,
    pid,
    parent_uuid,
    kind,
    agent,
    intent,
    provider,
    model,
    cwd,
    project,
    created_at_ms,
    ended_at_ms,
    exit_code,
    exit_reason,
  };
}

function count(name: string, value: number): number {
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new SyscallError("INVALID", `history: expected ${name} to be 0 or more, got ${value}.`);
}
