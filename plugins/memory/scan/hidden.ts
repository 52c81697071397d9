/** Finds characters that hide text or change its direction, where no script needs them. */

/** What is hidden, with its code point and place; null when nothing is. The text is normalized. */
export function findHidden(text: string): string | null {
  if (!UNSEEN.test(text)) return null;
  const left = withoutPairs(withoutHarmless(masked(text, NEEDED), RIGHT_TO_LEFT.test(text)));
  const at = left.search(UNSEEN);
  if (at < 0) return null;
  const char = String.fromCodePoint(left.codePointAt(at) ?? 0);
  const [, why] = REASONS.find(([kind]) => kind.test(char)) ?? ["", "invisible character"];
  const code = (char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
  const line = text.slice(0, at).split("\n");
  return `U+${code} (${why}) in line ${line.length}, column ${[...(line.at(-1) ?? "")].length + 1}`;
}

/** The text without all of them, for a scan of its words. */
export function withoutHidden(text: string): string {
  return text.replace(ALL_UNSEEN, "");
}

/** The inside of a character class. Format characters that are drawn, such as Arabic number signs, are left out. */
const HIDDEN =
  "[\\p{Cc}\\p{Cf}\\p{Variation_Selector}\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u3164\\uffa0\\p{Noncharacter_Code_Point}]" +
  "--[\\n\\t\\u0600-\\u0605\\u06dd\\u070f\\u0890\\u0891\\u08e2\\u{110bd}\\u{110cd}\\u{13430}-\\u{1343f}]";
const UNSEEN = new RegExp(`[${HIDDEN}]`, "v");
const ALL_UNSEEN = new RegExp(`[${HIDDEN}]`, "gv");

/** Scripts that are written from right to left. */
const RIGHT_TO_LEFT = scripts("Hebrew Arabic Syriac Thaana Nko Adlam Samaritan Mandaic");
const NO_JOINERS = "Latin Greek Cyrillic Han Hiragana Katakana Hangul Armenian Georgian Hebrew Common";
/** They are written without spaces, so a zero-width space shows where a line may break. */
const NO_SPACES = "Thai Lao Khmer Myanmar Tibetan Javanese Balinese Tai_Tham New_Tai_Lue";

const LETTER = `[[\\p{L}\\p{M}\\p{N}]--[${HIDDEN}]]`;
const JOINING = `[${LETTER}--${scripts(NO_JOINERS).source}]`;
const EMOJI =
  "[\\p{Extended_Pictographic}\\p{Emoji_Modifier}\\p{Regional_Indicator}\\u20e3\\u{e007f}\\ufe0f]";
const SIGN = "[\\p{P}\\p{S}\\p{Nd}]";
const JAMO = "[\\u1100-\\u115e\\u1161-\\u11ff]";
const MARK = `[\\p{M}--[${HIDDEN}]]`;

/** Before and after a character that has no hidden neighbour. */
const ALONE = { before: `(?<![${HIDDEN}])`, after: `(?![${HIDDEN}])` };

/** Where a script, an emoji or a letter needs such a character. */
const NEEDED = anyOf(
  // The flag of a region: a black flag, letters and digits as tags, and the end tag.
  "\\u{1f3f4}[\\u{e0061}-\\u{e007a}]{2}[\\u{e0030}-\\u{e0039}\\u{e0061}-\\u{e007a}]{1,4}\\u{e007f}",
  "(?<=\\p{Script=Han})[\\u{e0100}-\\u{e01ef}]",
  "(?<=\\p{Script=Mongolian})[\\u180b-\\u180f]",
  `(?<=[0-9#*])[\\ufe0e\\ufe0f]|(?<=[[^\\0-\\x7f\\s]--[${HIDDEN}]])[\\ufe00-\\ufe0f]`,
  `(?<=${EMOJI})\\u200d(?=\\p{Extended_Pictographic})`,
  `(?<=${JOINING})[\\u200c\\u200d]|${ALONE.before}[\\u200c\\u200d](?=${JOINING})`,
  `(?<=${LETTER})\\u00ad${ALONE.after}`,
  ...beside("\\u200b", scripts(NO_SPACES).source),
  ...beside("\\u034f", MARK),
  ...beside("[\\u115f\\u1160]", JAMO),
  "(?<=\\p{Script=Khmer})[\\u17b4\\u17b5]",
);

/** Each is harmless, as in text that was copied from a page; many could carry a text. */
const HARMLESS = [
  `(?<=${SIGN})[\\u200c\\u200d]|${ALONE.before}[\\u200c\\u200d](?=${SIGN})`,
  `${ALONE.before}\\u00ad${ALONE.after}`,
  `(?<=[[^\\s]--[${HIDDEN}]])[\\u2061-\\u2064]${ALONE.after}`,
];
const COPIED = anyOf(...HARMLESS, `${ALONE.before}\\u200e|\\u200e${ALONE.after}`);
const COPIED_RIGHT_TO_LEFT = anyOf(...HARMLESS);
const DIRECTION_MARKS = anyOf(`${ALONE.before}[\\u200e\\u200f\\u061c]|[\\u200e\\u200f\\u061c]${ALONE.after}`);
const MAX_HARMLESS = 8;

function withoutHarmless(text: string, isRightToLeft: boolean): string {
  const shown = isRightToLeft ? masked(text, DIRECTION_MARKS) : text;
  const harmless = isRightToLeft ? COPIED_RIGHT_TO_LEFT : COPIED;
  return (shown.match(harmless)?.length ?? 0) > MAX_HARMLESS ? shown : masked(shown, harmless);
}

/** Embeddings and isolates of a line that are closed. Only text that is written so may be set from right to left. */
const INSIDE = "[^\\n\\u202a-\\u202e\\u2066-\\u2069]*";
const BACKWARDS = `(?=${INSIDE}${RIGHT_TO_LEFT.source})${INSIDE}`;
const PAIRS = anyOf(
  `(?:[\\u2066\\u2068]${INSIDE}|\\u2067${BACKWARDS})\\u2069`,
  `(?:\\u202a${INSIDE}|\\u202b${BACKWARDS})\\u202c`,
);
const MAX_NESTED = 4;

function withoutPairs(text: string): string {
  let left = text;
  for (let depth = 0; depth < MAX_NESTED; depth++)
    left = left.replace(PAIRS, (pair) => `x${pair.slice(1, -1)}x`);
  return left;
}

const REASONS: readonly [RegExp, string][] = [
  [/\p{Cc}/u, "control character"],
  [/\p{Noncharacter_Code_Point}/u, "no character"],
  [/[\u{e0000}-\u{e007f}]/u, "tag character, which is invisible"],
  [/\p{Variation_Selector}/u, "invisible variation selector"],
  [/[\u202a-\u202e\u2066-\u2069]/u, "changes the direction of the text"],
  [/[\u200e\u200f\u061c]/u, "invisible direction mark"],
  [/\u200b/u, "zero-width space"],
  [/\u200c|\u200d|\u034f/u, "invisible joiner"],
  [/\u00ad/u, "soft hyphen outside of a word"],
  [/[\u2061-\u2064]/u, "invisible operator"],
];

/** With a letter in place of each unit of what is allowed, so that places stay. */
function masked(text: string, allowed: RegExp): string {
  return text.replace(allowed, (found) => "x".repeat(found.length));
}

function beside(char: string, other: string): [before: string, after: string] {
  return [`(?<=${other})${char}${ALONE.after}`, `${ALONE.before}${char}(?=${other})`];
}

function anyOf(...patterns: readonly string[]): RegExp {
  return new RegExp(patterns.join("|"), "gv");
}

function scripts(names: string): RegExp {
  return new RegExp(`[${names.replace(/\S+/g, "\\p{Script=$&}").replaceAll(" ", "")}]`, "v");
}
