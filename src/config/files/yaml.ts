/** Reads YAML and reports mistakes with file, line and column. */

import type { Document, Node } from "yaml";
import type { ZodType, z } from "zod";
import { BoundedMap, lazy } from "../../lib/caches.ts";
import { SyscallError } from "../../plugin/index.ts";
import { FileCache, pathExists } from "./file.ts";

/** A parsed YAML text with the positions of its parts. Immutable, so it may be shared. */
export interface YamlText {
  /** The file's path, for messages. */
  file: string;
  /** An empty document is an empty mapping. */
  value: unknown;
  /** `key`: the position of the last part's key instead of its value. */
  position(path: readonly PropertyKey[], what?: "key" | "value"): YamlPosition;
}

interface YamlPosition {
  line: number;
  column: number;
}

type Finding = YamlPosition & { message: string };

/** The limit of aliases in one text, against exponential expansion. */
const MAX_ALIASES = 100;
const MAX_SHOWN = 5;
/** The limit of mistakes whose position is looked up: each costs a walk through the document. */
const MAX_LOCATED = 50;
/** Configuration is written by people. The parser runs in the daemon's thread, on files of untrusted projects too. */
const MAX_TEXT_BYTES = 128 * 1024;
const MAX_DEPTH = 50;

/**
 * Reads and checks a YAML file. Returns null when there is no such file. Fails with INVALID, which names file, line and
 * column of the first five mistakes. The text is parsed again only when the file has changed. `known`: what this schema
 * has made of texts, for a file that each run reads.
 */
export async function readYaml<S extends ZodType>(
  schema: S,
  file: string,
  known?: WeakMap<YamlText, Checked<S>>,
): Promise<Checked<S> | null> {
  if (!pathExists(file)) return null;
  const yaml = await library();
  cache ??= new FileCache((text, path) => parse(yaml, text, path));
  const text = cache.get(file);
  if (text === null) return null;
  const checked = known?.get(text) ?? { value: check(schema, text), text };
  known?.set(text, checked);
  return checked;
}

/** `firstLine`: the line of the file at which `text` begins. `maxBytes`: above the default only in a command. */
export async function parseYaml<S extends ZodType>(
  schema: S,
  text: string,
  file: string,
  { firstLine = 1, maxBytes = MAX_TEXT_BYTES }: { firstLine?: number; maxBytes?: number } = {},
): Promise<Checked<S>> {
  const cached = texts.get(file);
  const parsed =
    cached?.source === text ? cached.parsed : parse(await library(), text, file, { firstLine, maxBytes });
  texts.set(file, { source: text, parsed });
  return { value: check(schema, parsed), text: parsed };
}

/** By Bun's parser, which needs no loading time, but has no positions and accepts duplicate keys: for embedded files only. */
export function parseStockYaml<S extends ZodType>(schema: S, text: string, file: string): Checked<S> {
  const parsed = stockText(file, Bun.YAML.parse(text) ?? {});
  return { value: check(schema, parsed), text: parsed };
}

/** The embedded YAML as the build has parsed it (`front`), else parsed now. */
export function stockYaml<S extends ZodType>(
  schema: S,
  front: z.infer<S> | undefined,
  text: string,
  file: string,
): Checked<S> {
  return front === undefined
    ? parseStockYaml(schema, text, file)
    : { value: front, text: stockText(file, front) };
}

export interface Checked<S extends ZodType> {
  value: z.infer<S>;
  text: YamlText;
}

/** The place of a part as `file:line:column`. */
export function placeIn(text: YamlText, path: readonly PropertyKey[], what?: "key" | "value"): string {
  const { line, column } = text.position(path, what);
  return `${text.file}:${line}:${column}`;
}

/** An INVALID error at a part of the text, for rules that a schema cannot express. */
export function yamlError(
  text: YamlText,
  path: readonly PropertyKey[],
  message: string,
  what: "key" | "value" = "value",
): SyscallError {
  return invalid(text.file, [{ ...text.position(path, what), message }]);
}

function stockText(file: string, value: unknown): YamlText {
  return { file, value, position: () => ({ line: 1, column: 1 }) };
}

let cache: FileCache<YamlText> | undefined;
/** Parsed front matter by file. It is parsed again only when the text has changed. */
const texts = new BoundedMap<string, { source: string; parsed: YamlText }>(512);

type Library = typeof import("yaml");
type ZodIssue = z.core.$ZodIssue;

/** A run without configuration files does not need it. */
const library = lazy((): Promise<Library> => import("yaml"));

function parse(
  yaml: Library,
  text: string,
  file: string,
  { firstLine = 1, maxBytes = MAX_TEXT_BYTES }: { firstLine?: number; maxBytes?: number } = {},
): YamlText {
  const bytes = Buffer.byteLength(text);
  if (bytes > maxBytes) {
    throw new SyscallError(
      "INVALID",
      `${file}: expected at most ${maxBytes / 1024} KiB of YAML, found ${bytes} bytes.`,
    );
  }
  const lines = new yaml.LineCounter();
  const document = yaml.parseDocument(text, {
    lineCounter: lines,
    prettyErrors: false,
    // The library compares every pair of keys; `walk` finds duplicates in linear time.
    uniqueKeys: false,
    stringKeys: true,
  });
  const at = (offset: number): YamlPosition => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(line, 1) + firstLine - 1, column: Math.max(col, 1) };
  };
  const mistakes = [...document.errors, ...document.warnings];
  const findings = mistakes.map(({ message, pos }): Finding => ({ ...at(pos[0]), message }));
  findings.push(...walk(yaml, document.contents, at));
  if (findings.length > 0) throw invalid(file, findings);
  return {
    file,
    value: plain(document, file),
    position: (path, what = "value") => at(offsetOf(yaml, document, path, what)),
  };
}

/** Visits each node once, down to `MAX_DEPTH`. Finds unknown and circular aliases, duplicate keys and too much depth. */
function walk(yaml: Library, top: unknown, at: (offset: number) => YamlPosition): Finding[] {
  const found: Finding[] = [];
  /** The anchors so far; true while the walk is inside the anchored node. */
  const anchors = new Map<string, boolean>();
  const problem = (node: unknown, message: string): void =>
    void found.push({ ...at(startOf(yaml, node) ?? 0), message });
  const look = (node: unknown, depth: number): void => {
    if (yaml.isAlias(node)) {
      const isOpen = anchors.get(node.source);
      if (isOpen === undefined) problem(node, `there is no anchor &${node.source}`);
      if (isOpen) problem(node, `*${node.source} refers to a node that contains it`);
    }
    const anchor = yaml.isCollection(node) || yaml.isScalar(node) ? node.anchor : undefined;
    if (anchor !== undefined) anchors.set(anchor, false);
    if (!yaml.isCollection(node)) return;
    if (depth === MAX_DEPTH) return void problem(node, `expected at most ${MAX_DEPTH} levels`);
    if (anchor !== undefined) anchors.set(anchor, true);
    const keys = new Set<string>();
    for (const item of node.items) {
      if (!yaml.isPair(item)) {
        look(item, depth + 1);
        continue;
      }
      const key = yaml.isScalar(item.key) ? String(item.key.value) : undefined;
      if (key !== undefined && keys.has(key)) problem(item.key, "Map keys must be unique");
      if (key !== undefined) keys.add(key);
      look(item.key, depth + 1);
      look(item.value, depth + 1);
    }
    if (anchor !== undefined) anchors.set(anchor, false);
  };
  look(top, 0);
  return found;
}

function plain(document: Document, file: string): unknown {
  try {
    return document.toJS({ maxAliasCount: MAX_ALIASES }) ?? {};
  } catch (cause) {
    throw new SyscallError("INVALID", `${file}: expected at most ${MAX_ALIASES} uses of aliases.`, { cause });
  }
}

/** The offset of the deepest existing part of `path`. */
function offsetOf(
  yaml: Library,
  document: Document,
  path: readonly PropertyKey[],
  what: "key" | "value",
): number {
  let node: unknown = document.contents;
  let offset = startOf(yaml, node) ?? 0;
  for (const [index, part] of path.entries()) {
    if (yaml.isAlias(node)) node = node.resolve(document);
    const last = index === path.length - 1;
    if (yaml.isMap(node)) {
      const pair = node.items.find(({ key }) => yaml.isScalar(key) && String(key.value) === String(part));
      if (!pair) return offset;
      const key = startOf(yaml, pair.key);
      node = pair.value;
      offset = (last && what === "key" ? key : (startOf(yaml, node) ?? key)) ?? offset;
    } else if (yaml.isSeq(node)) {
      node = node.items[Number(part)];
      offset = startOf(yaml, node) ?? offset;
    } else {
      return offset;
    }
  }
  return offset;
}

function startOf(yaml: Library, node: unknown): number | undefined {
  return yaml.isNode(node) ? (node satisfies Node).range?.[0] : undefined;
}

function check<S extends ZodType>(schema: S, text: YamlText): z.infer<S> {
  const result = schema.safeParse(text.value);
  if (result.success) return result.data;
  const { issues } = result.error;
  // One issue reports all unknown keys of a mapping.
  const counts = issues.map((issue) => (issue.code === "unrecognized_keys" ? issue.keys.length : 1));
  const count = counts.reduce((sum, one) => sum + one, 0);
  throw invalid(text.file, findingsOf(issues.slice(0, MAX_LOCATED), text), count);
}

function findingsOf(issues: readonly ZodIssue[], text: YamlText): Finding[] {
  return issues.flatMap((issue): Finding[] => {
    if (issue.code === "unrecognized_keys") {
      // values.ts writes one line for each of the keys, in their order.
      const messages = issue.message.split("\n");
      return issue.keys.slice(0, MAX_LOCATED).map((key, index) => ({
        ...text.position([...issue.path, key], "key"),
        message: messages[index] ?? issue.message,
      }));
    }
    if (issue.code === "invalid_key") {
      const message = `"${String(issue.path.at(-1))}": ${issue.issues[0]?.message ?? issue.message}`;
      return [{ ...text.position(issue.path, "key"), message }];
    }
    const path = issue.path.length === 0 ? "" : `${issue.path.map(String).join(".")}: `;
    return [{ ...text.position(issue.path), message: `${path}${issue.message}` }];
  });
}

function invalid(file: string, findings: Finding[], count = findings.length): SyscallError {
  const sorted = findings.toSorted((a, b) => a.line - b.line || a.column - b.column);
  const lines = sorted
    .slice(0, MAX_SHOWN)
    .map(({ line, column, message }) => `${file}:${line}:${column}: ${message}`);
  if (count > MAX_SHOWN) lines.push(`${file}: and ${count - MAX_SHOWN} more`);
  return new SyscallError("INVALID", lines.join("\n"));
}

export interface FrontMatter {
  /** YAML, or what a product writes in its place. It begins in line 2 of the file. */
  front: string;
  body: string;
}

const FRONT_MATTER = /^\uFEFF?---[ \t]*\r?\n([\s\S]*?)\r?\n---[ \t]*(?:\r?\n|$)/;

/** null for a file without front matter. */
export function splitFrontMatter(content: string): FrontMatter | null {
  const match = FRONT_MATTER.exec(content);
  return match && { front: match[1] ?? "", body: content.slice(match[0].length).trim() };
}
