/** /dev/memory/recall: searches entries and the conversations of past runs. */

import { type OpenContext, type Search, type SearchHit, SyscallError } from "rnix/plugin";
import { hashOf } from "./entry-file.ts";
import type { Found } from "./found.ts";
import { Memory, type Note, type Notes } from "./memory.ts";
import { momentOf } from "./moment.ts";
import type { Request } from "./request.ts";
import type { Answers } from "./request-file.ts";
import { withoutHidden } from "./scan/hidden.ts";
import { PLACES, type Place, TARGETS } from "./scopes.ts";
import { summaryOf } from "./summary.ts";
import { shortUuid } from "./texts.ts";

export const RECALL = "/dev/memory/recall";

const COLLECTION = "entries";
const MAX_RESULTS = 100;
/** Of the entries that were found, so much text is returned whole; of the others the part with the words. */
const MAX_TEXT = 12_000;

export function recall(context: OpenContext): Answers {
  return {
    device: RECALL,
    async answer(request, signal) {
      const query = request.needed("query", "the words to search for");
      const { results, pending } = await find(context, query, request, signal);
      const summary = request.flag("summarize") ? await summaryOf(context, query, results) : {};
      if (request.text("as") === "text") return resultText(results, pending, summary);
      return JSON.stringify({ results, pending, ...summary }, null, 1);
    },
  };
}

async function find(
  context: OpenContext,
  query: string,
  request: Request,
  signal: AbortSignal,
): Promise<{ results: Found[]; pending: number }> {
  const { search } = context;
  if (!search)
    throw new SyscallError("UNAVAILABLE", `${RECALL}: nothing can be searched here (no search service).`);
  const memory = new Memory(context);
  const now = Date.now();
  const limit = request.count("max_results", 20, MAX_RESULTS);
  const project = projectOf(request.text("project"), memory, context);
  const filters = {
    agent: request.text("agent"),
    since_ms: momentOf("since", request.text("since"), now),
    until_ms: momentOf("until", request.text("until"), now),
  };
  const known = new Map<string, Notes>();
  for (const target of TARGETS) {
    const notes = await memory.read(PLACES[target], signal);
    known.set(await synced(search, context, notes), notes);
  }
  // The run's own conversation is no memory, and entries of another project that shares the index are left out.
  const { hits, pending } = await search.find({
    text: query,
    collections: [COLLECTION],
    runs: true,
    project,
    ...filters,
    limit: Math.min(1_000, limit * 2 + 10),
  });
  const results: Found[] = [];
  let left = MAX_TEXT;
  for (const hit of hits) {
    if (results.length === limit) break;
    const one = hit.run ? runFound(hit, context) : entryFound(hit, known.get(hit.source), left);
    if (!one) continue;
    left -= one.text.length;
    results.push(one);
  }
  return { results, pending };
}

/** Writes entries that changed since into the index; returns the name of their source. */
async function synced(search: Search, { project }: OpenContext, { place, used }: Notes): Promise<string> {
  const source = place.scope === "project" ? `${project.id}/${place.doc}` : place.doc;
  const version = hashOf(used.map(({ id, written }) => `${id} ${written?.at ?? ""}`).join("\n"));
  const there = (await search.sources(place.scope, COLLECTION)).find((one) => one.source === source);
  if (there?.version === version || (!there && used.length === 0)) return source;
  const documents = uniqueById(used).map(({ id, text, written }) => ({
    id,
    text,
    ...(written && { time_ms: Date.parse(written.at) }),
    fields: { target: place.target, ...(written?.agent && { agent: written.agent }) },
  }));
  await search.put(place.scope, COLLECTION, source, version, documents);
  return source;
}

function uniqueById(notes: readonly Note[]): Note[] {
  return [...new Map(notes.map((note) => [note.id, note])).values()];
}

function entryFound(hit: SearchHit, notes: Notes | undefined, left: number): Found | null {
  const note = notes?.used.find(({ id }) => id === hit.id);
  if (!note || !notes) return null;
  const text = note.text.length <= left ? note.text : hit.snippet;
  return { kind: "entry", id: note.id, target: notes.place.target, time: note.written?.at ?? null, text };
}

function runFound({ run, snippet, time_ms }: SearchHit, { process }: OpenContext): Found | null {
  if (!run || run.uuid === process.uuid) return null;
  const { uuid, pid, agent, project, step } = run;
  const time = time_ms === null ? null : new Date(time_ms).toISOString();
  return { kind: "run", uuid, pid, agent, project, step, time, text: withoutHidden(snippet) };
}

/** The folder to search in; undefined for all. Runs search in their own project, unless the user allows more. */
function projectOf(
  wanted: string | undefined,
  memory: Memory,
  { process, project }: OpenContext,
): string | undefined {
  if (wanted === undefined || wanted === project.dir) return project.dir;
  if (!process.operator && !memory.limits.recall_all_projects) {
    throw new SyscallError(
      "PERMISSION",
      "project: a run searches only in its own project. To allow others, the user sets `recall_all_projects: true` for the plugin memory in config.yaml.",
    );
  }
  return wanted === "*" ? undefined : wanted;
}

function resultText(
  results: readonly Found[],
  pending: number,
  { summary, no_summary }: { summary?: string; no_summary?: string },
): string {
  const rest = pending === 0 ? [] : [`${pending} runs are not indexed yet: a later search may find more.`];
  if (results.length === 0) return ["Nothing found.", ...rest].join("\n");
  const lines = results.map(({ kind, id, target, uuid, agent, time, text }) => {
    const of =
      kind === "run" ? `run ${shortUuid(uuid)}, ${agent}` : `${id}, ${placeOf(target)?.what ?? target}`;
    return `${of}${time === null ? "" : `, ${time.slice(0, 10)}`}\n${text.replace(/^(?=.)/gm, "  ")}`;
  });
  return [
    ...(summary === undefined ? [] : [summary]),
    ...lines,
    ...(no_summary ? [no_summary] : []),
    ...rest,
  ].join("\n\n");
}

function placeOf(target: string | undefined): Place | undefined {
  return TARGETS.map((one) => PLACES[one]).find((place) => place.target === target);
}
