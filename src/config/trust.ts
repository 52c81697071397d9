import { rmSync } from "node:fs";
import { isAbsolute, join, relative } from "node:path";
import { z } from "zod";
import { SyscallError } from "../plugin/index.ts";
import { digestFile, digestText, FileCache, writeAtomic } from "./file.ts";
import type { Project } from "./project.ts";

/** Whether what a project brings along may run code or move a key (design §5, "Trust"). */
export interface TrustView {
  /** Every one of them, absolute, has exactly the content that was trusted. Never true for no file. */
  allowsFiles(files: readonly string[]): boolean;
  /** The same of content that was read already: `digest` is its SHA-256 in hex. What was judged is what runs. */
  allowsContent(files: readonly { path: string; digest: string }[]): boolean;
  /** One part of a file, such as the checks of an agent: the rest of the file may change freely. */
  allowsPart(file: string, part: string, value: unknown): boolean;
}

type TrustKind = "plugin" | "config" | "provider" | "mcp" | "init" | "checks" | "scripts";

/** One thing that trust is asked for. */
export interface TrustItem {
  kind: TrustKind;
  name: string;
  /** For the person who decides: what it does. */
  what: string;
  file: string;
  /** What is bound: by file or part of a file, the digest of its content. */
  digests: Record<string, string>;
}

export interface ReviewedItem extends TrustItem {
  state: "trusted" | "new" | "changed";
}

const VERSION = 1;
const Record_ = z.lazy(() =>
  z.object({
    v: z.literal(VERSION),
    project: z.string(),
    /** The folder is trusted whatever is in it. */
    follow: z.boolean(),
    since: z.string(),
    digests: z.record(z.string(), z.string()),
  }),
);
type TrustRecord = z.infer<typeof Record_>;

/**
 * What the user has trusted of one project: a list of digests, kept in the user's data folder and never in
 * the project. Outside a project nothing is trusted.
 */
export class Trust implements TrustView {
  readonly #file: string;
  readonly #project: Project;
  #record: TrustRecord | null;

  constructor(userDataDir: string, project: Project) {
    this.#file = join(userDataDir, "trust", `${project.id}.json`);
    this.#project = project;
    this.#record = project.kind === "none" ? null : records.get(this.#file);
  }

  /** The folder is trusted whatever it holds (`rnix trust --follow`). */
  get follows(): boolean {
    return this.#record?.follow === true;
  }

  /** When it was given; null when never, or revoked. */
  get since(): string | null {
    return this.#record?.since ?? null;
  }

  allowsFiles(files: readonly string[]): boolean {
    if (this.follows) return true;
    return files.length > 0 && files.every((file) => this.#has(this.#key(file), digestFile(file)));
  }

  allowsContent(files: readonly { path: string; digest: string }[]): boolean {
    if (this.follows) return true;
    return (
      files.length > 0 && files.every(({ path, digest }) => this.#has(this.#key(path), `sha256:${digest}`))
    );
  }

  allowsPart(file: string, part: string, value: unknown): boolean {
    return this.follows || this.#has(this.#key(file, part), digestValue(value));
  }

  /** An item over whole files, absolute. One that cannot be read is bound as missing and never allowed. */
  files(item: Omit<TrustItem, "digests">, files: readonly string[]): TrustItem {
    const digests = files.map((file) => [this.#key(file), digestFile(file) ?? MISSING]);
    return { ...item, digests: Object.fromEntries(digests) };
  }

  /** An item over a part of `item.file`. */
  part(item: Omit<TrustItem, "digests">, part: string, value: unknown): TrustItem {
    return { ...item, digests: { [this.#key(item.file, part)]: digestValue(value) } };
  }

  /** Each item's state; "changed": something under the same names was trusted before. */
  review(items: readonly TrustItem[]): ReviewedItem[] {
    return items.map((item) => ({ ...item, state: this.#state(item) }));
  }

  /** Trusts exactly these and nothing that was trusted before. `now`: unix ms. */
  accept(items: readonly TrustItem[], now: number): void {
    this.#write({ follow: false, digests: Object.assign({}, ...items.map(({ digests }) => digests)) }, now);
  }

  /** Trusts the folder, for its author: what is put there later needs no question. */
  follow(now: number): void {
    this.#write({ follow: true, digests: {} }, now);
  }

  revoke(): void {
    rmSync(this.#file, { force: true });
    this.#record = null;
  }

  #state({ digests }: TrustItem): ReviewedItem["state"] {
    if (this.follows) return "trusted";
    const entries = Object.entries(digests);
    if (entries.length > 0 && entries.every(([key, digest]) => this.#has(key, digest))) return "trusted";
    return entries.some(([key]) => this.#record?.digests[key] !== undefined) ? "changed" : "new";
  }

  #has(key: string, digest: string | null): boolean {
    return digest !== null && digest !== MISSING && this.#record?.digests[key] === digest;
  }

  /** Relative to the project where it is inside, so that a list can be read. */
  #key(file: string, part?: string): string {
    const inside = relative(this.#project.dir, file);
    const name = inside.startsWith("..") || isAbsolute(inside) ? file : inside;
    return part === undefined ? name : `${name}#${part}`;
  }

  #write(what: Pick<TrustRecord, "follow" | "digests">, now: number): void {
    if (this.#project.kind === "none") {
      throw new SyscallError(
        "INVALID",
        `${this.#project.dir} is not a project, so there is nothing to trust. Make it one with \`rnix init\`, or change to one.`,
      );
    }
    const since = new Date(now).toISOString();
    this.#record = { v: VERSION, project: this.#project.dir, since, ...what };
    writeAtomic(this.#file, `${JSON.stringify(this.#record, null, 2)}\n`);
  }
}

/** For one run whose user has said `--trust`: nothing is written down. */
export const trustAll: TrustView = {
  allowsFiles: () => true,
  allowsContent: () => true,
  allowsPart: () => true,
};

const MISSING = "missing";

const records = new FileCache((text, file): TrustRecord => {
  const result = Record_.safeParse(parseJson(text, file));
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
