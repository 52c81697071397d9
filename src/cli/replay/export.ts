/** Writes a recorded run as a script. */

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, extname, resolve } from "node:path";
import type { ScriptEntry, ScriptHead, Target } from "../../protocol/methods.ts";
import type { Answers } from "../../server/methods/method-table.ts";
import { usageError } from "../exit.ts";
import type { Io, Wire } from "../io.ts";
import { jsonText } from "../output/print.ts";

/** A recorded run as a complete script, with the scripts of its child agents. */
interface Recording {
  head: ScriptHead;
  responses: ScriptEntry[];
  children: Recording[];
  unplayed: number;
}

/** Maximum bytes of a script; the driver has the same limit (plugins/replay/script-file.ts). */
export const LARGEST_SCRIPT = 16 * 1024 ** 2;

const PAGE = 100;

/** The written file: its number of answers and its size. */
interface Exported {
  answers: number;
  bytes: number;
  /** Steps of the run that the script does not contain. */
  unplayed: number;
}

/** Exports a recorded run as a script that can be read, edited and replayed. */
export async function exportScript(io: Io, wire: Wire, of: Target, path: string): Promise<Exported> {
  const file = resolve(io.cwd, path);
  const write = FORMS[extname(file)];
  if (!write)
    throw usageError(`--export: expected a file that ends in ${Object.keys(FORMS).join(", ")}, got ${path}`);
  // It may have been edited since it was written.
  if (existsSync(file)) throw usageError(`--export: ${path} exists already; remove it or name another file`);
  const recording = await recordingOf(wire, of);
  const text = await write(recording);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text, { flag: "wx" });
  const { responses, unplayed } = recording;
  return { answers: responses.length, bytes: Buffer.byteLength(text), unplayed };
}

async function recordingOf(wire: Wire, of: Target): Promise<Recording> {
  let head: ScriptHead | null = null;
  let children: string[] = [];
  const responses: ScriptEntry[] = [];
  let unplayed = 0;
  for (let after: number | null = 0; after !== null; ) {
    const page: Answers["export_script"] = await wire.request("export_script", { ...of, after, limit: PAGE });
    if (page.head) ({ head, children } = { head: page.head, children: page.children });
    responses.push(...page.responses);
    unplayed = page.unplayed_steps;
    after = page.next;
  }
  if (head === null) throw new Error("the first page of a script has no head");
  const parts: Recording[] = [];
  for (const uuid of children) parts.push(await recordingOf(wire, { ...of, pid: undefined, uuid }));
  return { head, responses, children: parts, unplayed };
}

type Write = (recording: Recording) => string | Promise<string>;

const FORMS: Readonly<Record<string, Write>> = {
  ".yaml": yaml,
  ".yml": yaml,
  ".json": (recording) => jsonText(whole(recording)),
  ".jsonl": jsonl,
  ".ndjson": jsonl,
};

async function yaml(recording: Recording): Promise<string> {
  const { stringify } = await import("yaml");
  const { uuid } = recording.head.recorded;
  const about = `# Run ${uuid}, as rnix replay plays it: docs/replay.md says what may stand here.\n`;
  return about + stringify(whole(recording), { lineWidth: 0, aliasDuplicateObjects: false });
}

function jsonl(recording: Recording): string {
  const { responses, ...head } = whole(recording);
  return [head, ...responses].map((line) => `${JSON.stringify(line)}\n`).join("");
}

function whole({ head, responses, children }: Recording) {
  return { ...head, ...(children.length > 0 && { children: children.map(child) }), responses };
}

function child({ head: { agent, intent }, responses, children }: Recording): object {
  return { agent, intent, ...(children.length > 0 && { children: children.map(child) }), responses };
}
