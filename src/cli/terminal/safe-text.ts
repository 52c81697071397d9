/** Keeps untrusted text from acting on the terminal: the cursor, the title, the clipboard, hidden links, the direction of text. */

import { isOwnStyle } from "../system/terminal-text.ts";
import { widthOf } from "./width.ts";

/**
 * Links are accepted only with this id, which no model and no program can know: a link in their text is dropped, and its
 * text stays.
 */
const LINK_ID = `rnix${crypto.randomUUID().slice(0, 13)}`;

const TAB = 8;

/** Sequences with their content, then every other control character and every control of direction. */
const ACTS =
  /\u001b\[[0-9;:]*m|\u001b\][^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)|\u001b[PX^_][^\u001b\u009c]*(?:\u001b\\|\u009c)|(?:\u001b\[|\u009b)[\u0030-\u003f]*[\u0020-\u002f]*[\u0040-\u007e]|\p{Cc}|\p{Bidi_Control}|[\p{Zl}\p{Zp}]/gu;
const HAS_ACTS = /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/u;
const ISOLATE = "\u2068";
const ISOLATE_END = "\u2069";

/** Right-to-left letters: Hebrew, Arabic and their relatives. */
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** Untrusted text without anything that a terminal executes, styles included. Newlines stay; a tab becomes spaces. */
export function plainText(text: string): string {
  if (!HAS_ACTS.test(text)) return text;
  return text
    .split("\n")
    .map((line) => expandTabs(line.replace(ACTS, (found) => (found === "\t" ? "\t" : ""))))
    .join("\n");
}

/** Text that stands between others on a line: right-to-left letters in it must not reorder what is around it. */
export function isolated(text: string): string {
  return RIGHT_TO_LEFT.test(text) ? `${ISOLATE}${text}${ISOLATE_END}` : text;
}

/** Makes a link that the screen accepts. `text` may be styled. The caller has checked the address. */
export function link(text: string, address: string): string {
  const target = encodeURI(address.toWellFormed()).replaceAll("%25", "%");
  return `\u001b]8;id=${LINK_ID}-${Bun.hash(target).toString(36)};${target}\u001b\\${text}\u001b]8;;\u001b\\`;
}

/** A line that we made: styles, our links and balanced isolates stay, everything else that acts is removed. */
export function safeLine(line: string): string {
  if (!HAS_ACTS.test(line)) return line;
  let open = 0;
  let linked = false;
  const safe = line.replace(ACTS, (found) => {
    if (isOwnStyle(found) || found === "\t") return found;
    if (found === ISOLATE) open++;
    if (found === ISOLATE) return found;
    if (found === ISOLATE_END && open > 0) {
      open--;
      return found;
    }
    if (!found.startsWith("\u001b]8;")) return found === "\n" ? " " : "";
    if (found.startsWith(`\u001b]8;id=${LINK_ID}-`)) linked = true;
    else if (!linked || !/^\u001b\]8;;(?:\u0007|\u001b\\)$/.test(found)) return "";
    else linked = false;
    return found;
  });
  const end = ISOLATE_END.repeat(open) + (linked ? "\u001b]8;;\u001b\\" : "");
  return expandTabs(safe) + end + (safe.includes("\u001b[") ? "\u001b[0m" : "");
}

function expandTabs(line: string): string {
  if (!line.includes("\t")) return line;
  const [first = "", ...rest] = line.split("\t");
  return rest.reduce((shown, part) => shown + " ".repeat(TAB - (widthOf(shown) % TAB)) + part, first);
}
