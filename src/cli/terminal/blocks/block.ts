/** The lines of each part of the transcript. */

import { callText } from "../../output/call-text.ts";
import { formatElapsed, formatSeconds, oneLine, plural } from "../../output/format.ts";
import type { Paint } from "../../output/style.ts";
import type { Block, CallBlock, RunHead } from "../../transcript/transcript.ts";
import { type BlockSize, cutTo, type Look, plainLines, wrapTo } from "../look.ts";
import { callLines, hasMore } from "./call.ts";
import { childLine } from "./child.ts";

type Shown = Exclude<Block, { kind: "end" }>;
type Of<Kind extends Block["kind"]> = Extract<Block, { kind: Kind }>;

export function blockLines(block: Shown, size: BlockSize, look: Look): string[] {
  const { columns } = size;
  switch (block.kind) {
    case "head":
      return headLines(block.run, columns, look);
    case "thought":
      return thoughtLines(block, size, look);
    case "call":
      return callLines(block.call, size, look);
    case "agent":
      return [childLine(block.child, { columns, now: block.child.endedMs ?? 0 }, look)];
    case "reads":
      return readLines(block.calls, size, look);
    case "message":
      return messageLines(block, size, look);
    case "note": {
      const [paint, mark] = block.tone === "warning" ? [look.yellow, "!"] : [look.dim, look.mark.bar];
      return textLines(block.text, paint(mark), size, paint, look);
    }
  }
}

/** Whether Ctrl+O has more to show than these lines. */
export function isFolded(block: Block): boolean {
  if (block.kind === "call") return hasMore(block.call);
  if (block.kind === "message" || block.kind === "note") return plainLines(block.text).length > TEXT_LINES;
  return block.kind === "reads" || block.kind === "thought";
}

/** Whether it takes one line only: such blocks follow each other without an empty line. A turn of the user stands apart. */
export function isBrief(block: Block, lines: readonly string[]): boolean {
  const standsApart = block.kind === "head" || (block.kind === "message" && block.from === "user");
  return lines.length <= 1 && !standsApart;
}

function headLines(run: RunHead, columns: number, look: Look): string[] {
  const { pid, uuid, provider, model, agent, because, intent } = run;
  const what =
    provider === ""
      ? [agent, oneLine(intent, 200)]
      : [agent, model, because === "" ? provider : `${provider} (${because})`];
  const parts = [...what, `process ${pid}`].join(look.glyph.dot);
  const rest = columns - Bun.stringWidth(parts) - look.glyph.dot.length;
  return [look.dim(cutTo(rest >= uuid.length ? `${parts}${look.glyph.dot}${uuid}` : parts, columns, look))];
}

function thoughtLines({ text, ms }: Of<"thought">, { columns, full }: BlockSize, look: Look): string[] {
  const time = ms === null ? "thought" : `thought for ${ms < 1000 ? formatElapsed(ms) : formatSeconds(ms)}`;
  const title = look.dim(`${look.mark.thought} ${time}`);
  return full ? [title, ...thoughtText(text, columns).map((line) => look.dim(look.italic(line)))] : [title];
}

/** Reasoning as lines, indented. */
export function thoughtText(text: string, columns: number): string[] {
  return plainLines(text).flatMap((line) => wrapTo(line, columns - 2).map((part) => `  ${part}`.trimEnd()));
}

/** One file: a line as of any call. More: one line for all. */
function readLines(calls: readonly CallBlock[], size: BlockSize, look: Look): string[] {
  const [only] = calls;
  if (size.full || (calls.length === 1 && only !== undefined))
    return calls.flatMap((call) => callLines(call, size, look));
  const title = `Read ${plural(calls.length, "file")}`;
  const names = calls
    .map(({ name, input }) => oneLine(callText(name, input, look.cwd).argument, 100))
    .join(", ");
  const ms = Math.max(...calls.map((call) => call.duration_ms ?? 0));
  const time = look.glyph.dot + formatElapsed(ms);
  const room = size.columns - 3 - title.length - look.glyph.dot.length - time.length;
  return [
    `${look.green(look.mark.done)} ${look.bold(title)}${look.dim(look.glyph.dot)}${cutTo(names, room, look)}${look.dim(time)}`,
  ];
}

function messageLines({ from, text }: Of<"message">, size: BlockSize, look: Look): string[] {
  if (from === "system") return textLines(text, look.dim(look.mark.bar), size, look.dim, look);
  const shown = from === "user" ? text : `from process ${from}: ${text}`;
  return textLines(shown, look.cyan(look.mark.message), size, look.bold, look);
}

/** Lines of a message or note that are shown unless all are asked for. */
const TEXT_LINES = 6;

function textLines(
  text: string,
  mark: string,
  { columns, full }: BlockSize,
  paint: Paint,
  look: Look,
): string[] {
  const lines = plainLines(text).flatMap((line) => wrapTo(line, columns - 2));
  const shown = full ? lines : lines.slice(0, TEXT_LINES);
  if (shown.length < lines.length)
    shown.push(`${look.mark.ellipsis} ${plural(lines.length - shown.length, "more line")}`);
  return shown.map((line, i) => `${i === 0 ? mark : " "} ${paint(line)}`);
}
