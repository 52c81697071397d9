import { mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { isAbsolute, join, relative } from "node:path";
import { z } from "zod";
import { SyscallError } from "../plugin/index.ts";
import { digestFile, digestText, FileCache, fileError, systemCode, writeAtomic } from "./file.ts";
import { type NamedFiles, SCRIPTS, scriptsOf } from "./named-files.ts";
import type { Project } from "./project.ts";

/** Followed projects in folders below this one: what a run writes there is a run's as well. */
export function followedBelow(userDataDir: string, dir: string): { id: string; dir: string }[] {
  const folder = join(userDataDir, "trust");
  return namesIn(folder).flatMap((name) => {
    const record = name.endsWith(".json") ? readable(join(folder, name)) : null;
    if (!record?.follow || !record.project.startsWith(join(dir, "/"))) return [];
    return [{ id: name.slice(0, -".json".length), dir: record.project }];
  });
}

/** Whether what a project brings along may run code or move a key (design §5, "Trust"). */
export interface TrustView {
  /** Every one of them, absolute, has exactly the content that was trusted. Never true for no file. */
  allowsFiles(files: readonly string[]): boolean;
  /** The same of content that was read already: `digest` is its SHA-256 in hex. What was judged is what runs. */
  allowsContent(files: readonly { path: string; digest: string }[]): boolean;
  /** One part of a file, such as the checks of an agent: the rest of the file may change freely. */
  allowsPart(file: string, part: string, value: unknown): boolean;
  /** Every file that a command names has the content that was trusted; true where it names none. */
  allowsNamed(named: NamedFiles): boolean;
}

type TrustKind = "plugin" | "config" | "provider" | "mcp" | "init" | "agent" | "checks" | "skill" | "scripts";

/** One thing that trust is asked for. */
export interface TrustItem {
  kind: TrustKind;
  name: string;
  /** For the person who decides: what it does. */
  what: string;
  file: string;
  /** What is bound: by file or part of a file, the digest of its content. */
  digests: Record<string, string>;
  /** The same where the folder is followed: by whole files, but for the scripts of a package.json. */
  followed: Record<string, string>;
}

/** An item before its content is bound. */
type ItemText = Omit<TrustItem, "digests" | "followed">;

export interface ReviewedItem extends TrustItem {
  /** "by a run": the folder is followed, and this changed while a run was active in it. */
  state: "trusted" | "new" | "changed" | "by a run";
}

const VERSION = 1;
const TrustRecordSchema = z.lazy(() =>
  z.object({
    v: z.literal(VERSION),
    project: z.string(),
    /** The folder is trusted with what its author changes; not with what a run changes. */
    follow: z.boolean(),
    since: z.string(),
    digests: z.record(z.string(), z.string()),
    /** Under `follow`: keys whose content a run has changed. Only the content in `digests` counts for them. */
    distrusted: z.array(z.string()).optional(),
    /** Which folder is followed: another one at the same path is not. */
    folder: z.string().optional(),
  }),
);
type TrustRecord = z.infer<typeof TrustRecordSchema>;

/**
 * What the user has trusted of one project: a list of digests, kept in the user's data folder and never in
 * the project. Outside a project nothing is trusted.
 *
 * Under `--follow` the list is renewed by itself: what changes while no run is active in the project is its author's,
 * and counts at once. While one is active, or was and has not been settled, only what is in the list counts; what
 * differs from it when the run ends is distrusted until a person trusts it. In a folder that has taken the place of
 * the one that was trusted, such as another clone, only what is in the list counts.
 */
export class Trust implements TrustView {
  readonly #file: string;
  readonly #project: Project;
  readonly #hasRuns: boolean;
  #record: TrustRecord | null;

  /** `hasRuns`: a run is active in the project, whatever other kernels have left to read. */
  constructor(userDataDir: string, project: Project, { hasRuns = false } = {}) {
    this.#hasRuns = hasRuns;
    this.#file = join(userDataDir, "trust", `${project.id}.json`);
    this.#project = project;
    this.#record = project.kind === "none" ? null : records.get(this.#file);
  }

  /** What its author changes in the folder is trusted (`rnix trust --follow`). */
  get follows(): boolean {
    return this.#record?.follow === true;
  }

  /** When it was given; null when never, or revoked. */
  get since(): string | null {
    return this.#record?.since ?? null;
  }

  allowsFiles(files: readonly string[]): boolean {
    return files.length > 0 && files.every((file) => this.#has(this.#key(file), digestFile(file)));
  }

  allowsContent(files: readonly { path: string; digest: string }[]): boolean {
    return (
      files.length > 0 && files.every(({ path, digest }) => this.#has(this.#key(path), `sha256:${digest}`))
    );
  }

  allowsPart(file: string, part: string, value: unknown): boolean {
    // A followed file is its author's as a whole: what else a run wrote into it decides as well.
    return this.follows && part !== SCRIPTS
      ? this.#has(this.#key(file), digestFile(file))
      : this.#has(this.#key(file, part), digestValue(value));
  }

  allowsNamed({ files, manifests, unbound }: NamedFiles): boolean {
    return (
      unbound === undefined &&
      (files.length === 0 || this.allowsFiles(files)) &&
      manifests.every((file) => this.allowsPart(file, SCRIPTS, scriptsOf(file)))
    );
  }

  /** An item over whole files, absolute. One that cannot be read is bound as missing and never allowed. */
  files(item: ItemText, files: readonly string[]): TrustItem {
    const digests = this.#digestsOf(files);
    return { ...item, digests, followed: digests };
  }

  /** An item over parts of `item.file`. */
  parts(item: ItemText, parts: Readonly<Record<string, unknown>>): TrustItem {
    const digests = Object.entries(parts).map(([part, value]) => [
      this.#key(item.file, part),
      digestValue(value),
    ]);
    return { ...item, digests: Object.fromEntries(digests), followed: this.#digestsOf([item.file]) };
  }

  /** The item, and what its commands name. */
  withNamed(item: TrustItem, { files, manifests, unbound }: NamedFiles): TrustItem {
    const scripts = manifests.map((file) => [this.#key(file, SCRIPTS), digestValue(scriptsOf(file))]);
    const never = unbound === undefined ? {} : { [unbound]: MISSING };
    const named = { ...this.#digestsOf(files), ...Object.fromEntries(scripts), ...never };
    return { ...item, digests: { ...item.digests, ...named }, followed: { ...item.followed, ...named } };
  }

  /** Each item's state; "changed": something under the same names was trusted before. */
  review(items: readonly TrustItem[]): ReviewedItem[] {
    return items.map((item) => ({ ...item, state: this.#state(item) }));
  }

  /**
   * Trusts exactly these and nothing that was trusted before. A folder that is followed stays so, with what it has
   * now. `now`: unix ms.
   */
  accept(items: readonly TrustItem[], now: number): void {
    const { follows } = this;
    const all = items.map(({ digests, followed }) => (follows ? followed : digests));
    this.#write({ follow: follows, digests: Object.assign({}, ...all) }, now);
  }

  /** Trusts the folder, for its author: what they change later needs no question. */
  follow(items: readonly TrustItem[], now: number): void {
    this.#write({ follow: true, digests: followedOf(items) }, now);
  }

  revoke(): void {
    rmSync(this.#file, { force: true });
    this.#record = null;
  }

  /** Kernels that have, or had when they died, a run in this followed project. */
  activeKernels(): string[] {
    return namesIn(this.#active);
  }

  /**
   * A run of this kernel begins, the first one. `items`: what there is by now; null where other runs are active, and
   * nothing can be said of who changed what.
   */
  beginRuns(kernelId: string, items: readonly TrustItem[] | null): void {
    if (items) this.#adopt(followedOf(items));
    try {
      mkdirSync(this.#active, { recursive: true, mode: 0o700 });
      writeFileSync(join(this.#active, kernelId), "", { mode: 0o600 });
    } catch (cause) {
      throw fileError(cause, this.#active, "write");
    }
  }

  /** The last run of these kernels has ended: what differs from the list by now is distrusted. Answers those keys. */
  settleRuns(kernelIds: readonly string[], items: readonly TrustItem[]): string[] {
    const record = this.#record;
    const known = record?.distrusted ?? [];
    const fresh = record?.follow
      ? Object.entries(followedOf(items))
          .filter(([key, digest]) => record.digests[key] !== digest && !known.includes(key))
          .map(([key]) => key)
      : [];
    if (record && fresh.length > 0) this.#replace({ ...record, distrusted: [...known, ...fresh] });
    for (const kernelId of kernelIds) rmSync(join(this.#active, kernelId), { force: true });
    if (this.activeKernels().length === 0) rmSync(this.#active, { recursive: true, force: true });
    return fresh;
  }

  /** What there is becomes the list, but for what a run has changed. */
  #adopt(now: Readonly<Record<string, string>>): void {
    const record = this.#record;
    if (!record || this.isReplaced) return;
    const distrusted = (record.distrusted ?? []).filter(
      (key) => now[key] !== undefined && now[key] !== record.digests[key],
    );
    const held = distrusted.flatMap((key) => {
      const before = record.digests[key];
      return before === undefined ? [] : [[key, before] as const];
    });
    const taken = Object.entries(now).filter(([key]) => !distrusted.includes(key));
    const digests = Object.fromEntries([...taken, ...held]);
    const same =
      digestValue([digests, distrusted]) === digestValue([record.digests, record.distrusted ?? []]);
    if (!same) this.#replace({ ...record, digests, distrusted });
  }

  #state({ digests, followed }: TrustItem): ReviewedItem["state"] {
    const entries = Object.entries(this.follows ? followed : digests);
    if (entries.length > 0 && entries.every(([key, digest]) => this.#has(key, digest))) return "trusted";
    if (this.follows && !this.isReplaced) return "by a run";
    return entries.some(([key]) => this.#record?.digests[key] !== undefined) ? "changed" : "new";
  }

  #has(key: string, digest: string | null): boolean {
    const record = this.#record;
    if (!record || digest === null || digest === MISSING) return false;
    if (record.digests[key] === digest) return true;
    if (!record.follow || record.distrusted?.includes(key)) return false;
    return !this.isReplaced && !this.#hasRuns && this.activeKernels().length === 0;
  }

  /** Another folder is there than the one that is followed. */
  get isReplaced(): boolean {
    const folder = this.#record?.folder;
    return folder !== undefined && folder !== folderOf(this.#project.dir);
  }

  /** Relative to the project where it is inside, so that a list can be read. */
  #key(file: string, part?: string): string {
    const inside = relative(this.#project.dir, file);
    const name = inside.startsWith("..") || isAbsolute(inside) ? file : inside;
    return part === undefined ? name : `${name}#${part}`;
  }

  #digestsOf(files: readonly string[]): Record<string, string> {
    return Object.fromEntries(files.map((file) => [this.#key(file), digestFile(file) ?? MISSING]));
  }

  /** One file for each kernel with active runs. */
  get #active(): string {
    return this.#file.replace(/\.json$/, ".active");
  }

  #write(what: Pick<TrustRecord, "follow" | "digests">, now: number): void {
    if (this.#project.kind === "none") {
      throw new SyscallError(
        "INVALID",
        `${this.#project.dir} is not a project, so there is nothing to trust. Make it one with \`rnix init\`, or change to one.`,
      );
    }
    const since = new Date(now).toISOString();
    const folder = what.follow ? { folder: folderOf(this.#project.dir) } : {};
    this.#replace({ v: VERSION, project: this.#project.dir, since, ...folder, ...what });
  }

  #replace(record: TrustRecord): void {
    this.#record = record;
    writeAtomic(this.#file, `${JSON.stringify(record, null, 2)}\n`);
  }
}

/** For one run whose user has said `--trust`: nothing is written down. */
export const trustAll: TrustView = {
  allowsFiles: () => true,
  allowsContent: () => true,
  allowsPart: () => true,
  allowsNamed: () => true,
};

const MISSING = "missing";

/** A number alone would be given to the next folder that is made. */
function folderOf(dir: string): string {
  try {
    const { ino, birthtimeNs } = statSync(dir, { bigint: true });
    return `${ino}:${birthtimeNs}`;
  } catch (error) {
    throw fileError(error, dir, "look at");
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (systemCode(error) === "ENOENT") return [];
    throw fileError(error, folder, "list");
  }
}

/** One that cannot be read follows nothing. */
function readable(file: string): TrustRecord | null {
  try {
    return records.get(file);
  } catch (error) {
    if (error instanceof SyscallError) return null;
    throw error;
  }
}

function followedOf(items: readonly TrustItem[]): Record<string, string> {
  return Object.assign({}, ...items.map(({ followed }) => followed));
}

const records = new FileCache((text, file): TrustRecord => {
  const result = TrustRecordSchema.safeParse(parseJson(text, file));
  if (result.success) return result.data;
  throw new SyscallError(
    "INVALID",
    `${file}: expected a trust record of version ${VERSION}; it may have been written by a newer rnix. \`rnix trust\` writes it anew once it is moved away.`,
  );
});

function parseJson(text: string, file: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new SyscallError("INVALID", `${file}: expected JSON. Move it away and run \`rnix trust\` again.`, {
      cause,
    });
  }
}

/** The same for two values that differ only in the order of their keys. */
function digestValue(value: unknown): string {
  return digestText(JSON.stringify(value, sorted) ?? "undefined");
}

function sorted(_: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
