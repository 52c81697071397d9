/** The entries of one scope of memory, and the changes that a run or a person makes to them. */

import { type OpenContext, type Store, SyscallError } from "rnix/plugin";
import { changeStored, parsedOr, readStored } from "./document.ts";
import {
  type Entry,
  idOf,
  normalized,
  parseEntries,
  replaceEntry,
  withEntry,
  withoutEntry,
} from "./entry-file.ts";
import { type Limits, limitsOf, MAX_ENTRY } from "./limits.ts";
import { isOwned, own } from "./ownership.ts";
import { mergeRecovered } from "./recovered.ts";
import { approvedOf, decide, quarantine } from "./review-list.ts";
import type { Finding } from "./scan/scan.ts";
import { scanned } from "./scan-cache.ts";
import type { Place } from "./scopes.ts";

/** An entry with what is known of it. */
export interface Note extends Entry {
  /** Why it is held back until a person has decided; null for an entry that is used. */
  held: string | null;
  /** null for an entry that a person wrote into the file. */
  written: { at: string; agent: string; run: string } | null;
}

/** The state of a scope at one moment. */
export interface Notes {
  place: Place;
  /** Entries that are used, in the file's order: the newest last. */
  used: Note[];
  held: Note[];
  characters: number;
  limit: number;
}

/** What became of a change. */
export interface Change {
  id: string;
  state: "added" | "there already" | "replaced" | "removed" | "waits for review";
  /** Why it waits. */
  why?: string;
  characters: number;
  limit: number;
}

/** Why an entry of a file that came with the project waits. */
export const FOREIGN = "it came with the project's files, and was not written here";
/** More than any limit of the settings: a file that is larger was not made by hand. */
const MAX_FILE = 2_000_000;
const UNATTENDED = "a run without a user wrote it, and it would count in all projects";

export class Memory {
  readonly #context: OpenContext;
  readonly #store: Store;
  readonly #limits: Limits;

  constructor(context: OpenContext) {
    if (!context.store)
      throw new SyscallError("UNAVAILABLE", "Memory can't be stored here (no store service).");
    this.#context = context;
    this.#store = context.store;
    this.#limits = limitsOf(context.config);
  }

  get limits(): Limits {
    return this.#limits;
  }

  get store(): Store {
    return this.#store;
  }

  /** Where the entries are, for the user. */
  pathOf({ scope, doc }: Place): Promise<string> {
    return this.#store.path(scope, doc);
  }

  async read(place: Place, signal: AbortSignal): Promise<Notes> {
    await mergeRecovered(this.#store, place, signal);
    const { text } = await readStored(this.#store, place.scope, place.doc);
    const limit = place.limit(this.#limits);
    const characters = lengthOf(text);
    if (characters > MAX_FILE) {
      throw new SyscallError(
        "EXHAUSTED",
        `${await this.pathOf(place)} has ${characters} characters; at most ${MAX_FILE} are read. Shorten it.`,
      );
    }
    const { entries } = parseEntries(text);
    if (entries.length === 0) return { place, used: [], held: [], characters, limit };
    const isForeign = place.scope === "project" && !(await isOwned(this.#store));
    const { entries: writers } = await this.#journal(place);
    const approved = once(() => approvedOf(this.#store));
    const notes: Note[] = [];
    for (const entry of entries) {
      const why = isForeign ? FOREIGN : findingText(await scanned(entry.text, signal));
      const held = why !== null && (await approved()).has(entry.text) ? null : why;
      notes.push({ ...entry, held, written: writers[entry.id] ?? null });
    }
    const used = notes.filter(({ held }) => held === null);
    return { place, used, held: notes.filter(({ held }) => held !== null), characters, limit };
  }

  async add(place: Place, content: string, signal: AbortSignal): Promise<Change> {
    await mergeRecovered(this.#store, place, signal);
    const text = checkedText(content);
    const why = await this.#objection(place, text, signal);
    if (why !== null) return this.#wait(place, text, why, signal);
    await this.#prepare(place, text, signal);
    let isAdded = false;
    const holds = (now: string): boolean => entryWith(now, text) !== undefined;
    const change = (now: string): string | null => {
      if (holds(now)) return null;
      isAdded = true;
      return this.#within(place, now, withEntry(parseEntries(now), text));
    };
    await this.#change(place, change, holds, signal);
    if (isAdded) await this.#sign(place, text, signal);
    return this.#changed(place, idOf(text), isAdded ? "added" : "there already");
  }

  async replace(place: Place, old: string, content: string, signal: AbortSignal): Promise<Change> {
    const text = checkedText(content);
    // A call that is repeated after a crash finds its own result.
    const seen = await this.read(place, signal);
    const { used, held } = seen;
    if (used.some((note) => note.text === text) && matching(used, old).length === 0) {
      return this.#changed(place, idOf(text), "there already");
    }
    const target = this.#find(seen.place, this.#context.process.operator ? [...used, ...held] : used, old);
    const why = await this.#objection(place, text, signal);
    if (why !== null) return this.#wait(place, text, why, signal);
    await this.#prepare(place, text, signal);
    const holds = (now: string): boolean =>
      entryWith(now, text) !== undefined && entryWith(now, target.text) === undefined;
    const change = (now: string): string | null => {
      const file = parseEntries(now);
      const there = entryWith(now, target.text);
      if (there) return this.#within(place, now, replaceEntry(file, there, text));
      return entryWith(now, text) ? null : this.#within(place, now, withEntry(file, text));
    };
    await this.#change(place, change, holds, signal);
    await this.#sign(place, text, signal);
    return this.#changed(place, idOf(text), "replaced");
  }

  async remove(place: Place, old: string, signal: AbortSignal): Promise<Change> {
    const { used, held } = await this.read(place, signal);
    const target = this.#find(place, this.#context.process.operator ? [...used, ...held] : used, old);
    await this.removeText(place, target.text, signal);
    return this.#changed(place, target.id, "removed");
  }

  async removeText(place: Place, text: string, signal: AbortSignal): Promise<void> {
    const holds = (now: string): boolean => entryWith(now, text) === undefined;
    const change = (now: string): string | null => {
      const there = entryWith(now, text);
      return there ? withoutEntry(parseEntries(now), there) : null;
    };
    await this.#change(place, change, holds, signal);
  }

  /** Adds a text that a person has approved. */
  async addApproved(place: Place, text: string, signal: AbortSignal): Promise<void> {
    await this.#prepare(place, text, signal);
    const change = (now: string): string | null =>
      entryWith(now, text) ? null : this.#within(place, now, withEntry(parseEntries(now), text));
    const holds = (now: string): boolean => entryWith(now, text) !== undefined;
    await this.#change(place, change, holds, signal);
  }

  /** Why the text must wait for a person; null when it may be written. Throws for what is never stored. */
  async #objection(place: Place, text: string, signal: AbortSignal): Promise<string | null> {
    const finding = await scanned(text, signal);
    const { operator, attended } = this.#context.process;
    if (finding && finding.kind !== "instructions") {
      throw new SyscallError(
        "INVALID",
        `Not remembered, because the text has ${findingText(finding)}. Write it again without.`,
      );
    }
    const isAlone = place.scope === "user" && !operator && !attended;
    const why = findingText(finding) ?? (isAlone ? UNATTENDED : null);
    return why !== null && (await approvedOf(this.#store)).has(text) ? null : why;
  }

  async #wait(place: Place, text: string, why: string, signal: AbortSignal): Promise<Change> {
    const { process, project } = this.#context;
    const by = process.operator ? { agent: "", run: "" } : { agent: process.agent, run: process.uuid };
    const id = await quarantine(
      this.#store,
      { target: place.target, text, why, project: project.dir, ...by },
      signal,
    );
    return { ...(await this.#changed(place, id, "waits for review")), why };
  }

  /** A first entry makes the project's memory the user's own; in a memory that came with the files, only this entry is. */
  async #prepare(place: Place, text: string, signal: AbortSignal): Promise<void> {
    if (place.scope !== "project" || (await isOwned(this.#store))) return;
    const { text: there } = await readStored(this.#store, place.scope, place.doc);
    if (parseEntries(there).entries.length === 0) await own(this.#store, this.#context.project.dir, signal);
    else await decide(this.#store, { approve: [text], ids: [] }, signal);
  }

  #within(place: Place, before: string, after: string): string {
    const limit = place.limit(this.#limits);
    const length = lengthOf(after);
    if (length <= limit || length <= lengthOf(before)) return after;
    throw new SyscallError(
      "EXHAUSTED",
      `The ${place.what} are full: ${lengthOf(before)} of ${limit} characters are used, and ${length} would be. Remove or replace entries that are no longer needed, or put several into a shorter one.`,
    );
  }

  #find(place: Place, notes: readonly Note[], old: string): Note {
    const found = matching(notes, old);
    const [first, second] = found;
    if (first && !second) return first;
    if (!first) {
      throw new SyscallError(
        "NOT_FOUND",
        `No entry of the ${place.what} matches ${JSON.stringify(old.slice(0, 100))}: expected its id, its text or a part of it. ${this.#context.process.operator ? "`rnix memory show`" : "The action snapshot"} lists all.`,
      );
    }
    const list = found.slice(0, 5).map(({ id, text }) => `${id}: ${text.split("\n")[0]?.slice(0, 60)}`);
    throw new SyscallError(
      "INVALID",
      `${found.length} entries match ${JSON.stringify(old.slice(0, 100))}. Name one by its id: ${list.join("; ")}`,
    );
  }

  async #changed(place: Place, id: string, state: Change["state"]): Promise<Change> {
    const { text } = await readStored(this.#store, place.scope, place.doc);
    return { id, state, characters: lengthOf(text), limit: place.limit(this.#limits) };
  }

  async #change(
    { scope, doc }: Place,
    change: (now: string) => string | null,
    holds: (now: string) => boolean,
    signal: AbortSignal,
  ): Promise<void> {
    await changeStored(this.#store, { scope, doc }, change, { signal, holds });
  }

  async #journal({ scope, doc }: Place): Promise<Journal> {
    const { text } = await readStored(this.#store, scope, journalDoc(doc));
    return parsedOr<Journal>(text, { v: 1, entries: {} });
  }

  /** Notes who wrote an entry. Of entries that are gone nothing is kept. */
  async #sign({ scope, doc }: Place, text: string, signal: AbortSignal): Promise<void> {
    const { process } = this.#context;
    const written = {
      at: new Date().toISOString(),
      agent: process.operator ? "" : process.agent,
      run: process.operator ? "" : process.uuid,
    };
    const now = parseEntries((await readStored(this.#store, scope, doc)).text);
    const ids = new Set(now.entries.map(({ id }) => id));
    const change = (before: string): string => {
      const { entries } = parsedOr<Journal>(before, { v: 1, entries: {} });
      const kept = Object.entries(entries).filter(([id]) => ids.has(id));
      const all = { ...Object.fromEntries(kept), [idOf(text)]: written };
      return `${JSON.stringify({ v: 1, entries: all }, null, 1)}\n`;
    };
    await changeStored(this.#store, { scope, doc: journalDoc(doc) }, change, { signal });
  }
}

/** Who wrote an entry and when. */
interface Journal {
  v: 1;
  entries: Record<string, NonNullable<Note["written"]>>;
}

/** As a part of a sentence. */
function findingText(finding: Finding | null): string | null {
  return finding && `${finding.kind}: ${finding.what}`;
}

/** Beside the file of the entries, hidden from listings. */
function journalDoc(doc: string): string {
  return `.${doc}.json`;
}

function checkedText(content: string): string {
  const text = normalized(content);
  if (text === "") throw new SyscallError("INVALID", "content: expected the text of an entry, got nothing.");
  const length = lengthOf(text);
  if (length <= MAX_ENTRY) return text;
  throw new SyscallError(
    "INVALID",
    `content: expected at most ${MAX_ENTRY} characters, got ${length}. Keep what matters, or make several entries of it.`,
  );
}

function entryWith(file: string, text: string): Entry | undefined {
  return parseEntries(file).entries.find((entry) => entry.text === text);
}

function matching(notes: readonly Note[], old: string): Note[] {
  const wanted = normalized(old);
  if (wanted === "") return [];
  const exact = notes.filter(({ id, text }) => text === wanted || id === wanted);
  return exact.length > 0 ? exact.slice(0, 1) : notes.filter(({ text }) => text.includes(wanted));
}

/** Code points. */
export function lengthOf(text: string): number {
  return text.length - (text.match(/[\ud800-\udbff][\udc00-\udfff]/g)?.length ?? 0);
}

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make();
    return made;
  };
}
