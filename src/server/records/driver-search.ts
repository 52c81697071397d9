/** The service `search` of drivers: the derived index, for one plugin in one project. */

import {
  type Search,
  type SearchDocument,
  type SearchHit,
  type SearchQuery,
  type SearchScope,
  SyscallError,
} from "../../plugin/index.ts";
import type { DocumentTarget, IndexHit } from "../../store/search/requests.ts";
import type { SearchIndex } from "../../store/search/search-index.ts";

const MAX_HITS = 1_000;
const MAX_QUERY_CHARS = 4_096;
const MAX_TEXT_CHARS = 65_536;
const MAX_DOCUMENTS = 10_000;
const MAX_PUT_CHARS = 16 * 1024 * 1024;
const MAX_NAME_CHARS = 1_024;
const COLLECTION = /^[A-Za-z0-9._-]{1,64}$/;

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
    const inScope = (scope: SearchScope): string[] => collections.map((name) => nameOf(plugin, scope, name));
    if (collections.length === 0) return [];
    return [
      ...(dataDir === undefined ? [] : [{ dataDir, collections: inScope("project") }]),
      { dataDir: userDataDir, collections: inScope("user") },
    ];
  };
  return {
    async sources(scope, collection) {
      checkPlace(scope, collection);
      return index.ask("sources", {
        dataDir: dataDirOf(scope),
        collection: nameOf(plugin, scope, collection),
      });
    },
    async put(scope, collection, source, version, documents) {
      checkPlace(scope, collection);
      checkText("source", source, MAX_NAME_CHARS);
      checkText("version", version, MAX_NAME_CHARS);
      checkDocuments(documents);
      return index.ask("put", {
        dataDir: dataDirOf(scope),
        collection: nameOf(plugin, scope, collection),
        source,
        version,
        documents,
      });
    },
    async find(query) {
      checkQuery(query);
      const { text, project, agent, since_ms, until_ms, limit } = query;
      const { hits, pending } = await index.ask("find", {
        text,
        documents: targets(query),
        runs: runsOf(query),
        project,
        agent,
        since_ms,
        until_ms,
        limit: Math.min(limit, MAX_HITS),
      });
      return { hits: hits.map(asHit), pending };
    },
  };
}

/** The name of a collection in the index: a data folder may be the user's and a project's at once. */
function nameOf(plugin: string, scope: SearchScope, collection: string): string {
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

function checkPlace(scope: SearchScope, collection: string): void {
  if (scope !== "project" && scope !== "user")
    throw invalid(`scope: expected "project" or "user", got ${JSON.stringify(scope)}.`);
  if (typeof collection !== "string" || !COLLECTION.test(collection)) {
    throw invalid(
      `collection: expected at most 64 letters, digits, ".", "_" and "-", got ${JSON.stringify(collection)}.`,
    );
  }
}

function checkDocuments(documents: readonly SearchDocument[]): void {
  if (documents.length > MAX_DOCUMENTS)
    throw invalid(`expected at most ${MAX_DOCUMENTS} documents of one source, got ${documents.length}.`);
  let chars = 0;
  for (const { id, text, time_ms, fields = {} } of documents) {
    checkText("id", id, MAX_NAME_CHARS);
    if (typeof text !== "string" || text.length > MAX_TEXT_CHARS) {
      throw invalid(
        `document ${id}: expected a text of at most ${MAX_TEXT_CHARS} characters, got ${text?.length}. Split it.`,
      );
    }
    checkTime("time_ms", time_ms);
    for (const [name, value] of Object.entries(fields)) checkText(`field ${name}`, value, MAX_NAME_CHARS);
    chars += text.length;
  }
  if (chars > MAX_PUT_CHARS)
    throw invalid(`expected at most ${MAX_PUT_CHARS} characters of one source, got ${chars}.`);
}

function checkQuery({
  text,
  collections = [],
  project,
  agent,
  since_ms,
  until_ms,
  limit,
}: SearchQuery): void {
  checkText("text", text, MAX_QUERY_CHARS);
  for (const collection of collections) checkPlace("project", collection);
  if (project !== undefined) checkText("project", project, MAX_NAME_CHARS * 4);
  if (agent !== undefined) checkText("agent", agent, MAX_NAME_CHARS);
  checkTime("since_ms", since_ms);
  checkTime("until_ms", until_ms);
  if (!Number.isSafeInteger(limit) || limit < 1) throw invalid(`limit: expected 1 or more, got ${limit}.`);
}

function checkText(what: string, value: string, max: number): void {
  if (typeof value === "string" && value.length <= max) return;
  const got = typeof value === "string" ? `${value.length}` : typeof value;
  throw invalid(`${what}: expected a text of at most ${max} characters, got ${got}.`);
}

function checkTime(what: string, value: number | undefined): void {
  if (value === undefined || Number.isFinite(value)) return;
  throw invalid(`${what}: expected Unix time in ms, got ${value}.`);
}

function invalid(problem: string): SyscallError {
  return new SyscallError("INVALID", `search: ${problem}`);
}
