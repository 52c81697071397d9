/** The keys of a process, and their redaction. */

import { messageOf, withMessage, withOutput } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import { type BoundSecret, placeholderOf } from "../../proxy/bound-secret.ts";
import { deniesByDefault } from "../../proxy/host-rules.ts";
import type { SpawnOpts } from "../types.ts";

/** Shorter texts are no keys, and redacting them would remove words from texts. */
const MIN_LENGTH = 8;
/** At most this many fetched keys: a key command may print a new one each time. */
const MAX_FETCHED = 16;
const HIDDEN = "[key]";

interface SecretsOptions {
  /** Known at the start: keys of all providers, from the environment and the user's file. */
  keys?: Iterable<string>;
  /** Keys that other runs fetch. */
  shared?: Secrets;
  /** What is shown in place of some keys, by key. */
  labels?: ReadonlyMap<string, string>;
}

/** Provider keys to redact in all that a process reads, prints and records. They are never written to disk. */
export class Secrets {
  readonly #first: readonly string[];
  readonly #shared: Secrets | undefined;
  /** The label that replaces a key, for each form in which the key may appear. */
  readonly labels: ReadonlyMap<string, string>;
  #fetched: readonly string[] = [];
  #fetchedKeys: readonly string[] = [];
  #last: string | undefined;
  /** All keys; valid until another one is fetched. */
  #all: { fetched: readonly string[]; shared: readonly string[]; keys: readonly string[] } | undefined;
  #inLines: { keys: readonly string[]; forms: readonly FormInLines[] } | undefined;

  constructor({ keys = [], shared, labels = new Map() }: SecretsOptions = {}) {
    const given = [...keys, ...labels.keys()];
    this.labels = new Map(
      [...labels].flatMap(([key, label]) => forms(key).map((form) => [form, label] as const)),
    );
    this.#first = longestFirst(given.flatMap(forms));
    this.#shared = shared;
  }

  add(key: string): void {
    this.#last = key;
    if (key.length < MIN_LENGTH || this.#first.includes(key) || this.#fetchedKeys.includes(key)) return;
    this.#fetchedKeys = [...this.#fetchedKeys, key].slice(-MAX_FETCHED);
    this.#fetched = this.#fetchedKeys.flatMap(forms);
  }

  /** The newest fetched key. */
  get last(): string | undefined {
    return this.#last;
  }

  /** Every text to hide, as of now. */
  get keys(): readonly string[] {
    const shared = this.#shared?.keys ?? NONE;
    const fetched = this.#fetched;
    if (this.#all?.fetched !== fetched || this.#all.shared !== shared) {
      this.#all = { fetched, shared, keys: longestFirst([...this.#first, ...fetched, ...shared]) };
    }
    return this.#all.keys;
  }

  /** The encoded forms, which programs break into lines; as of now. */
  get inLines(): readonly FormInLines[] {
    const { keys } = this;
    if (this.#inLines?.keys !== keys) this.#inLines = { keys, forms: keys.flatMap(formInLines) };
    return this.#inLines.forms;
  }

  hide(text: string): string {
    return inLinesRedacted(redacted(text, this.keys, this.labels), this);
  }

  /** Returns the error with redacted text, and without its cause if that shows a key. */
  hideIn(thrown: unknown): unknown {
    const text = messageOf(thrown);
    const clean = this.hide(text);
    if (!(thrown instanceof SyscallError)) return clean === text ? thrown : new SyscallError("DRIVER", clean);
    const output = thrown.output && this.hide(thrown.output);
    if (clean === text && output === thrown.output) return thrown;
    return withOutput(clean === text ? thrown : withMessage(thrown, clean), output);
  }

  /** For a text that comes in pieces. */
  stream(): RedactedText {
    return new RedactedText(this);
  }

  /** For bytes that come in pieces. */
  byteStream(): RedactedBytes {
    return new RedactedBytes(this);
  }
}

/** Redacts a text that comes in pieces. What may be the beginning of a key, in any form, is held back until it is decided. */
class RedactedText {
  readonly #secrets: Secrets;
  #held = "";

  constructor(secrets: Secrets) {
    this.#secrets = secrets;
  }

  /** Returns the text that can be shown now. Fewer characters than the longest key are held back. */
  push(piece: string): string {
    const { keys, labels } = this.#secrets;
    if (keys.length === 0 && this.#held === "") return piece;
    const text = redacted(this.#held + piece, keys, labels);
    const at = startOfKey(text, keys);
    this.#held = text.slice(at);
    return text.slice(0, at);
  }

  end(): string {
    const rest = this.#held;
    this.#held = "";
    return rest;
  }
}

/** Redacts keys in a stream of bytes, as UTF-8. */
class RedactedBytes {
  readonly #secrets: Secrets;
  #known: readonly string[] = [];
  #keys: readonly string[] = [];
  readonly #labels: ReadonlyMap<string, string>;
  #held = EMPTY;

  constructor(secrets: Secrets) {
    this.#secrets = secrets;
    this.#labels = new Map([...secrets.labels].map(([key, label]) => [inLatin1(key), label]));
  }

  push(piece: Uint8Array): Uint8Array {
    const keys = this.#byteKeys();
    if (keys.length === 0 && this.#held.length === 0) return piece;
    const bytes = this.#held.length === 0 ? viewOf(piece) : Buffer.concat([this.#held, piece]);
    this.#held = EMPTY;
    if (!keys.some((key) => bytes.includes(key, 0, "latin1"))) return this.#holdBack(bytes, keys);
    return this.#holdBack(
      Buffer.from(redacted(bytes.toString("latin1"), keys, this.#labels), "latin1"),
      keys,
    );
  }

  end(): Uint8Array {
    const rest = this.#held;
    this.#held = EMPTY;
    return rest;
  }

  #holdBack(bytes: Buffer, keys: readonly string[]): Uint8Array {
    const longest = keys.reduce((most, key) => Math.max(most, key.length), 0);
    const tail = bytes.subarray(Math.max(0, bytes.length - longest)).toString("latin1");
    const held = tail.length - startOfKey(tail, keys);
    if (held === 0) return bytes;
    this.#held = Buffer.from(bytes.subarray(bytes.length - held));
    return bytes.subarray(0, bytes.length - held);
  }

  /** The keys in UTF-8, as texts with one character for each byte. */
  #byteKeys(): readonly string[] {
    const { keys } = this.#secrets;
    if (keys !== this.#known) {
      this.#known = keys;
      this.#keys = keys.map(inLatin1);
    }
    return this.#keys;
  }
}

const NONE: readonly string[] = [];
const EMPTY = Buffer.alloc(0);

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** The key itself, and its forms in JSON, URLs, hexadecimal digits and base64. */
function forms(key: string): string[] {
  if (key.length < MIN_LENGTH) return [];
  const bytes = Buffer.from(key);
  const hex = bytes.toString("hex");
  const url = encodeURIComponent(key);
  // Some programs leave slashes as they are.
  const urls = [url, url.replaceAll("%2F", "/")].flatMap((one) => [
    one,
    one.replace(/%../g, (code) => code.toLowerCase()),
  ]);
  const written = [key, JSON.stringify(key).slice(1, -1), ...urls, hex, hex.toUpperCase()];
  return [...new Set([...written, ...[0, 1, 2].flatMap((offset) => inBase64(bytes, offset))])];
}

/** What base64 has of the bytes, in both alphabets, wherever they stand: without the characters that a neighbour changes. */
function inBase64(bytes: Buffer, offset: number): string[] {
  const shifted = Buffer.concat([Buffer.alloc(offset), bytes]);
  const [start, end] = [[0, 2, 3][offset] ?? 0, Math.floor((shifted.length * 4) / 3)];
  return (["base64", "base64url"] as const).map((alphabet) => shifted.toString(alphabet).slice(start, end));
}

/** A key that begins with another one is hidden whole. */
function longestFirst(keys: readonly string[]): readonly string[] {
  return [...new Set(keys)].toSorted((a, b) => b.length - a.length);
}

function redacted(text: string, keys: readonly string[], labels: ReadonlyMap<string, string>): string {
  return keys.reduce(
    (shown, key) => (shown.includes(key) ? shown.replaceAll(key, () => labels.get(key) ?? HIDDEN) : shown),
    text,
  );
}

/** A form that programs break into lines, as `base64` and `xxd -p` do. */
interface FormInLines {
  form: string;
  /** Two parts of its beginning: a break between lines leaves one of them whole. */
  tiles: readonly [string, string];
  pattern: RegExp;
}

/** The longest beginning that no two breaks are in. */
const MAX_TILE = 16;

function formInLines(form: string): FormInLines[] {
  const size = Math.min(MAX_TILE, Math.floor(form.length / 2));
  if (size < MIN_LENGTH || !/^[\w+/=-]+$/.test(form)) return [];
  const pattern = new RegExp([...form].map((letter) => RegExp.escape(letter)).join("(?:\\r?\\n)?"), "g");
  return [{ form, tiles: [form.slice(0, size), form.slice(size, 2 * size)], pattern }];
}

function inLinesRedacted(text: string, { inLines, labels }: Pick<Secrets, "inLines" | "labels">): string {
  if (!text.includes("\n")) return text;
  return inLines
    .filter(({ tiles }) => tiles.some((tile) => text.includes(tile)))
    .reduce((shown, { form, pattern }) => shown.replace(pattern, () => labels.get(form) ?? HIDDEN), text);
}

/** The text in UTF-8, with one character for each byte. */
function inLatin1(text: string): string {
  return Buffer.from(text).toString("latin1");
}

/** Returns the index from which the end of the text may be the beginning of a key; the text's length if none is. */
function startOfKey(text: string, keys: readonly string[]): number {
  let start = text.length;
  for (const key of keys) {
    const first = key.charAt(0);
    const from = Math.max(0, text.length - key.length + 1);
    for (let at = text.indexOf(first, from); at >= 0 && at < start; at = text.indexOf(first, at + 1)) {
      if (key.startsWith(text.slice(at))) start = at;
    }
  }
  return start;
}

type Bound = Pick<SpawnOpts, "env" | "network" | "boundSecrets">;

/** Placeholders, where a list of hosts limits the network; else nothing: a program could send them anywhere. */
export function secretVariables({ env, network, boundSecrets = [] }: Bound): Record<string, string> {
  const isSent = deniesByDefault(network);
  const names = new Set(boundSecrets.map(({ name }) => name));
  const others = Object.entries(env).filter(([name]) => !names.has(name));
  return {
    ...Object.fromEntries(others),
    ...(isSent && Object.fromEntries(boundSecrets.map((secret) => [secret.name, placeholderOf(secret)]))),
  };
}

/** What is shown in place of each secret. */
export function secretLabels(boundSecrets: readonly BoundSecret[] = []): ReadonlyMap<string, string> {
  return new Map(boundSecrets.map((secret) => [secret.value, placeholderOf(secret)]));
}

/** Notices of a process whose network is not limited to a list. */
export function withheldSecrets({ network, boundSecrets = [] }: Bound): string[] {
  if (boundSecrets.length === 0 || deniesByDefault(network)) return [];
  const names = boundSecrets.map(({ name }) => name).join(", ");
  return [
    `not given to programs: ${names}. Secrets need a list of hosts as the network of the run (--network HOST)`,
  ];
}
