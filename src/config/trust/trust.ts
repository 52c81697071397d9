/** Decides whether a project's content is trusted. */

import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { isAbsolute, join, relative } from "node:path";
import { z } from "zod";
import { SyscallError } from "../../plugin/index.ts";
import {
  digestFile,
  digestText,
  entriesIn,
  FileCache,
  fileError,
  folderIdentity,
  jsonOf,
  writeAtomic,
} from "../files/file.ts";
import { type NamedFiles, NO_FILES, SCRIPTS, scriptsOf } from "../files/named-files.ts";
import { type Project, ProjectAnswers } from "../project/project.ts";

/** Content of a project. All that is named of it must be trusted. */
interface Content {
  /** The file that has `parts`. */
  file?: string;
  /** Parts of the file, such as the checks of an agent. The rest of it may change freely. */
  parts?: Readonly<Record<string, unknown>>;
  /** Whole files, absolute. `digest`: the SHA-256, in hex, of what was already read. An empty list is never trusted. */
  files?: readonly { path: string; digest?: string }[];
  /** The files that its commands name. */
  named?: NamedFiles;
}

/** Decides whether a project's content may run code or redirect a key. */
export interface TrustView {
  allows(content: Content): boolean;
}

type TrustKind =
  | ("plugin" | "config" | "always" | "provider" | "mcp" | "init")
  | ("agent" | "checks" | "skill" | "workflow" | "scripts");

/** Content that has no effect until the user trusts it. */
export interface TrustRequest extends Content {
  kind: TrustKind;
  name: string;
  /** What it does, as shown to the user who decides. */
  what: string;
  file: string;
}

/** One item that needs trust. */
export interface TrustItem extends Pick<TrustRequest, "kind" | "name" | "what" | "file"> {
  /** The digest of each file, or part of a file, that trust binds. */
  digests: Record<string, string>;
  /** The digests in a followed folder: of whole files, except the scripts of a package.json. */
  followed: Record<string, string>;
}

export interface ReviewedItem extends TrustItem {
  /** "by a run": the folder is followed, and the item changed while a run was active in it. */
  state: "trusted" | "new" | "changed" | "by a run";
}

/**
 * The trust of one project: a list of digests in the user's data folder, never in the project. Without a project nothing
 * is trusted.
 *
 * With `--follow` the list renews itself. A change while no run is active in the project is its author's and counts at
 * once. While a run is active or not yet settled, only listed content counts. Content that differs when the run ends is
 * distrusted until the user trusts it. In a folder that replaced the trusted one, such as another clone, only listed
 * content counts.
 */
export class Trust implements TrustView {
  readonly #file: string;
  readonly #project: Project;
  readonly #hasRuns: boolean;
  readonly #answers: ProjectAnswers;
  /** Folders from which the names of files count. */
  readonly #roots: readonly string[];
  #record: TrustRecord | null;

  /** `hasRuns`: this kernel has an active run in the project. `definitions`: a folder with its files of another revision. */
  constructor(
    userDataDir: string,
    project: Project,
    { hasRuns = false, definitions }: { hasRuns?: boolean; definitions?: string } = {},
  ) {
    this.#hasRuns = hasRuns;
    this.#roots = [...(definitions === undefined ? [] : [definitions]), project.dir];
    this.#file = recordFile(userDataDir, project.id);
    this.#project = project;
    this.#answers = new ProjectAnswers(userDataDir, project);
    this.#record = project.kind === "none" ? null : records.get(this.#file);
  }

  /** Changes by its author are trusted (`rnix trust --follow`). */
  get follows(): boolean {
    return this.#record?.follow === true;
  }

  /** When trust was given; null without trust. */
  get since(): string | null {
    return this.#record?.since ?? null;
  }

  allows({ file = "", parts = {}, files, named = NO_FILES }: Content): boolean {
    const { manifests, unbound } = named;
    const whole = [...(files ?? []), ...named.files.map((path) => ({ path, digest: undefined }))];
    return (
      files?.length !== 0 &&
      unbound === undefined &&
      whole.every(({ path, digest }) =>
        this.#has(this.#key(path), digest ? `sha256:${digest}` : digestFile(path)),
      ) &&
      Object.entries(parts).every(([part, value]) => this.#allowsPart(file, part, value)) &&
      manifests.every((manifest) => this.#has(this.#key(manifest, SCRIPTS), digestValue(scriptsOf(manifest))))
    );
  }

  #allowsPart(file: string, part: string, value: unknown): boolean {
    if (this.#isAnswer(part, value)) return true;
    // A followed file is trusted as a whole: a run may have changed another part of it.
    return this.follows
      ? this.#has(this.#key(file), digestFile(file))
      : this.#has(this.#key(file, part), digestValue(value));
  }

  /** Binds the present content. An unreadable file is bound as missing and never allowed. */
  item({ kind, name, what, file, parts = {}, files = [], named = NO_FILES }: TrustRequest): TrustItem {
    const { manifests, unbound } = named;
    const bound = {
      ...this.#digestsOf([...files.map(({ path }) => path), ...named.files]),
      ...this.#partsOf(manifests.map((manifest) => [manifest, SCRIPTS, scriptsOf(manifest)])),
      ...(unbound !== undefined && { [unbound]: MISSING }),
    };
    const ofFile = Object.entries(parts).map(([part, value]) => [file, part, value] as const);
    return {
      kind,
      name,
      what,
      file,
      digests: { ...this.#partsOf(ofFile), ...bound },
      followed: { ...(ofFile.length > 0 && this.#digestsOf([file])), ...bound },
    };
  }

  /** The state of each item. "changed": other content under the same names was trusted before. */
  review(items: readonly TrustItem[]): ReviewedItem[] {
    return items.map((item) => ({ ...item, state: this.#state(item) }));
  }

  /** Trusts exactly these items. A followed folder stays followed. `now`: unix ms. */
  accept(items: readonly TrustItem[], now: number): void {
    const { follows } = this;
    const all = items.map(({ digests, followed }) => (follows ? followed : digests));
    this.#write({ follow: follows, digests: Object.assign({}, ...all) }, now);
  }

  /** Trusts the items and later changes by the folder's author. */
  follow(items: readonly TrustItem[], now: number): void {
    this.#write({ follow: true, digests: followedOf(items) }, now);
  }

  revoke(): void {
    rmSync(this.#file, { force: true });
    this.#answers.set([]);
    this.#record = null;
  }

  /** The user has changed this file through rnix: in a followed folder it stays trusted if it was. */
  rewritten(file: string, before: string | null, after: string): void {
    const record = this.#record;
    const key = this.#key(file);
    const known = record?.digests[key];
    if (!record?.follow || known !== (before === null ? undefined : digestText(before))) return;
    this.#replace({
      ...record,
      digests: { ...record.digests, [key]: after === "" ? MISSING : digestText(after) },
    });
  }

  /** Kernels with an active run in this followed project, including kernels that died with one. */
  activeKernels(): string[] {
    return entriesIn(this.#active).map(({ name }) => name);
  }

  /** Marks the first active run of this kernel. `items`: null when others are active, as then a change's author is unknown. */
  beginRuns(kernelId: string, items: readonly TrustItem[] | null): void {
    if (items) this.#adopt(followedOf(items));
    try {
      mkdirSync(this.#active, { recursive: true, mode: 0o700 });
      writeFileSync(join(this.#active, kernelId), "", { mode: 0o600 });
    } catch (cause) {
      throw fileError(cause, this.#active, "write");
    }
  }

  /** Distrusts what differs from the list after the last run of these kernels. Returns the newly distrusted keys. */
  settleRuns(kernelIds: readonly string[], items: readonly TrustItem[]): string[] {
    const record = this.#record;
    const known = record?.distrusted ?? [];
    const now = record?.follow ? Object.entries(followedOf(items)) : [];
    const fresh = now
      .filter(([key, digest]) => record?.digests[key] !== digest && !known.includes(key))
      .map(([key]) => key);
    if (record && fresh.length > 0) this.#replace({ ...record, distrusted: [...known, ...fresh] });
    for (const kernelId of kernelIds) rmSync(join(this.#active, kernelId), { force: true });
    if (this.activeKernels().length === 0) rmSync(this.#active, { recursive: true, force: true });
    return fresh;
  }

  /** Renews the list with the present content, except what a run has changed. */
  #adopt(now: Readonly<Record<string, string>>): void {
    const record = this.#record;
    if (!record || this.isReplaced) return;
    const distrusted = (record.distrusted ?? []).filter(
      (key) => now[key] !== undefined && now[key] !== record.digests[key],
    );
    const held = Object.entries(record.digests).filter(([key]) => distrusted.includes(key));
    const taken = Object.entries(now).filter(([key]) => !distrusted.includes(key));
    const digests = Object.fromEntries([...taken, ...held]);
    const before = digestValue([record.digests, record.distrusted ?? []]);
    if (digestValue([digests, distrusted]) !== before) this.#replace({ ...record, digests, distrusted });
  }

  /** A line of `allow_always` that a person has answered. */
  #isAnswer(part: string, value: unknown): boolean {
    return part === alwaysPart(value) && this.#answers.rules.some((rule) => rule === value);
  }

  #state({ kind, name, digests, followed }: TrustItem): ReviewedItem["state"] {
    if (kind === "always" && this.#isAnswer(alwaysPart(name), name)) return "trusted";
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

  /** Whether another folder has replaced the followed one. */
  get isReplaced(): boolean {
    const folder = this.#record?.folder;
    return folder !== undefined && folder !== folderIdentity(this.#project.dir);
  }

  /** Relative to the project for files inside it, so that the list is readable. */
  #key(file: string, part?: string): string {
    const inside = this.#roots.map((root) => relative(root, file));
    const name = inside.find((path) => !path.startsWith("..") && !isAbsolute(path)) ?? file;
    return part === undefined ? name : `${name}#${part}`;
  }

  #digestsOf(files: readonly string[]): Record<string, string> {
    return Object.fromEntries(files.map((file) => [this.#key(file), digestFile(file) ?? MISSING]));
  }

  #partsOf(parts: readonly (readonly [file: string, part: string, value: unknown])[]) {
    return Object.fromEntries(
      parts.map(([file, part, value]) => [this.#key(file, part), digestValue(value)]),
    );
  }

  /** A folder with one file for each kernel with active runs. */
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
    const folder = what.follow ? { folder: folderIdentity(this.#project.dir) } : {};
    this.#replace({ v: TRUST_VERSION, project: this.#project.dir, since, ...folder, ...what });
  }

  #replace(record: TrustRecord): void {
    this.#record = record;
    writeAtomic(this.#file, `${JSON.stringify(record, null, 2)}\n`);
  }
}

/** The part of a config.yaml that one rule of `allow_always` is: each is trusted by itself. */
export function alwaysPart(rule: unknown): string {
  return `allow_always ${String(rule)}`;
}

/** For one run with `--trust`. Nothing is recorded. */
export const trustAll: TrustView = { allows: () => true };

/** What was left out because it is not trusted, shown to the user. */
export function leftOutText({ what, file }: TrustRequest): string {
  return `${what.length > MAX_SHOWN ? `${what.slice(0, MAX_SHOWN)}…` : what} in ${file}`;
}

const MISSING = "missing";
/** Characters of one part in a notice; `rnix trust --show` has all of it. */
const MAX_SHOWN = 300;

function followedOf(items: readonly TrustItem[]): Record<string, string> {
  return Object.assign({}, ...items.map(({ followed }) => followed));
}

/** The digest of a value. Does not depend on the order of keys. */
function digestValue(value: unknown): string {
  return digestText(JSON.stringify(value, sorted) ?? "undefined");
}

function sorted(_: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

const TRUST_VERSION = 1;
const RecordFile = z.lazy(() =>
  z.object({
    v: z.literal(TRUST_VERSION),
    project: z.string(),
    /** Whether later changes to the project are trusted, except those that a run makes. */
    follow: z.boolean(),
    since: z.string(),
    digests: z.record(z.string(), z.string()),
    /** With `follow`: keys whose content a run has changed. For them only the content in `digests` is trusted. */
    distrusted: z.array(z.string()).optional(),
    /** Identifies the followed folder: another folder at the same path is not followed. */
    folder: z.string().optional(),
  }),
);
type TrustRecord = z.infer<typeof RecordFile>;

/** Followed projects below this folder. A run in this folder can also write there. */
export function followedBelow(userDataDir: string, dir: string): { id: string; dir: string }[] {
  const folder = join(userDataDir, "trust");
  return entriesIn(folder).flatMap(({ name }) => {
    const record = name.endsWith(".json") ? readable(join(folder, name)) : null;
    if (!record?.follow || !record.project.startsWith(join(dir, "/"))) return [];
    return [{ id: name.slice(0, -".json".length), dir: record.project }];
  });
}

/** Whether the user has ever trusted anything of this project. */
export function hasTrustRecord(userDataDir: string, projectId: string): boolean {
  return existsSync(recordFile(userDataDir, projectId));
}

function recordFile(userDataDir: string, projectId: string): string {
  return join(userDataDir, "trust", `${projectId}.json`);
}

/** null for an unreadable record, which follows nothing. */
function readable(file: string): TrustRecord | null {
  try {
    return records.get(file);
  } catch (error) {
    if (error instanceof SyscallError) return null;
    throw error;
  }
}

/** null when the user has trusted nothing of a project. Fails with INVALID for an unreadable one. */
const records = new FileCache((text, file): TrustRecord => {
  const result = RecordFile.safeParse(jsonOf(text));
  if (result.success) return result.data;
  throw new SyscallError(
    "INVALID",
    `${file}: expected a trust record of version ${TRUST_VERSION}; it is damaged, or a newer rnix has written it. Move it away and run \`rnix trust\` again.`,
  );
});
