/** Finds characters that hide text or change its direction, where no script needs them. */

/** What is hidden, with its code point and place; null when nothing is. The text is normalized. */
export function findHidden(text: string): string | null {
  if (!UNSEEN.test(text)) return null;
  const found = new HiddenCharacters(text).find();
  if (found === null) return null;
  const { at, char, why } = found;
  const line = text.slice(0, at).split("\n");
  return `${codeOf(char)} (${why}) in line ${line.length}, column ${[...(line.at(-1) ?? "")].length + 1}`;
}

/** The text without all of them, for a scan of its words. */
export function withoutHidden(text: string): string {
  return text.replace(ALL_UNSEEN, "");
}

interface Hidden {
  at: number;
  char: string;
  why: string;
}

const UNSEEN_SET =
  "\\p{Cc}\\p{Cf}\\p{Variation_Selector}\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u3164\\uffa0\\p{Noncharacter_Code_Point}";
const UNSEEN = new RegExp(`(?![\\n\\t])[${UNSEEN_SET}]`, "u");
const ALL_UNSEEN = new RegExp(`(?![\\n\\t])[${UNSEEN_SET}]`, "gu");

/** Scripts that are written from right to left, and those whose letters need joiners. */
const RIGHT_TO_LEFT =
  /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}\p{Script=Samaritan}\p{Script=Mandaic}]/u;
const NO_JOINERS =
  /[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Armenian}\p{Script=Georgian}\p{Script=Hebrew}\p{Script=Common}]/u;
/** They are written without spaces, so a zero-width space shows where a line may break. */
const NO_SPACES =
  /[\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}\p{Script=Tibetan}\p{Script=Javanese}\p{Script=Balinese}\p{Script=Tai_Tham}\p{Script=New_Tai_Lue}]/u;
const EMOJI =
  /[\p{Extended_Pictographic}\p{Emoji_Modifier}\p{Regional_Indicator}]|[\u20e3]|[\u{e007f}]|[\ufe0f]/u;
const LETTER = /[\p{L}\p{M}\p{N}]/u;

/** Marks without a script that needs them: each is harmless, many could carry a text. */
const MAX_HARMLESS = 8;
const MAX_ISOLATES = 4;

class HiddenCharacters {
  readonly #text: string;
  readonly #chars: readonly string[];
  readonly #isRightToLeft: boolean;
  /** Open embeddings and isolates of the line. */
  #open: { char: string; at: number }[] = [];
  #harmless = 0;

  constructor(text: string) {
    this.#text = text;
    this.#chars = [...text];
    this.#isRightToLeft = RIGHT_TO_LEFT.test(text);
  }

  find(): Hidden | null {
    let at = 0;
    for (let i = 0; i < this.#chars.length; i++) {
      const char = this.#chars[i] ?? "";
      const why = char === "\n" ? this.#endOfLine() : UNSEEN.test(char) ? this.#judge(char, i, at) : null;
      if (why !== null) return { at, char: char === "\n" ? (this.#open.at(-1)?.char ?? char) : char, why };
      at += char.length;
    }
    const why = this.#endOfLine();
    const last = this.#open.at(-1);
    return why !== null && last ? { ...last, why } : null;
  }

  #judge(char: string, i: number, at: number): string | null {
    const before = this.#chars[i - 1] ?? "";
    const after = this.#chars[i + 1] ?? "";
    const code = char.codePointAt(0) ?? 0;
    if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return "control character";
    if (/\p{Noncharacter_Code_Point}/u.test(char)) return "no character";
    if (VISIBLE_FORMAT.test(char)) return null;
    if (code >= 0xe0000 && code <= 0xe007f)
      return this.#isFlag(i) ? null : "tag character, which is invisible";
    if (/\p{Variation_Selector}/u.test(char)) return variation(char, before);
    if (code === 0x200c || code === 0x200d) return this.#joiner(before, after, code);
    if (code === 0x200e || code === 0x200f || code === 0x61c) return this.#mark(code, before, after);
    if (code === 0x202d || code === 0x202e) return "changes the direction of the text";
    if ((code >= 0x202a && code <= 0x202c) || (code >= 0x2066 && code <= 0x2069))
      return this.#embedding(char, at);
    return this.#other(code, before, after);
  }

  /** A flag of a region: a black flag, letters and digits as tags, and the end tag. */
  #isFlag(i: number): boolean {
    let from = i;
    while (isTag(this.#chars[from - 1])) from--;
    let to = i;
    while (isTag(this.#chars[to + 1])) to++;
    const tags = this.#chars.slice(from, to + 1).map((char) => (char.codePointAt(0) ?? 0) - 0xe0000);
    const word = String.fromCharCode(...tags.slice(0, -1));
    return (
      this.#chars[from - 1] === "\u{1f3f4}" && tags.at(-1) === 0x7f && /^[a-z]{2}[a-z0-9]{1,4}$/.test(word)
    );
  }

  #joiner(before: string, after: string, code: number): string | null {
    if (isUnseen(before) && !EMOJI.test(before)) return "one of several invisible characters in a row";
    if (code === 0x200d && EMOJI.test(before) && /\p{Extended_Pictographic}/u.test(after)) return null;
    const joins = (char: string): boolean => LETTER.test(char) && !NO_JOINERS.test(char);
    if (joins(before) || joins(after)) return null;
    // Beside a sign or a digit, as in numbers that were copied from a page.
    const isSign = (char: string): boolean => /[\p{P}\p{S}\p{Nd}]/u.test(char);
    return isSign(before) || isSign(after) ? this.#allowed("invisible joiner") : "invisible joiner";
  }

  #mark(code: number, before: string, after: string): string | null {
    if (isUnseen(before) && isUnseen(after)) return "one of several invisible characters in a row";
    if (this.#isRightToLeft) return null;
    return code === 0x200e
      ? this.#allowed("invisible mark")
      : "direction mark without text from right to left";
  }

  #embedding(char: string, at: number): string | null {
    const why = "changes the direction of the text";
    const isEnd = char === "\u202c" || char === "\u2069";
    if (!isEnd) {
      this.#open.push({ char, at });
      return this.#open.length > MAX_ISOLATES ? why : null;
    }
    const opened = this.#open.pop();
    if (!opened || ISOLATES.has(opened.char) !== (char === "\u2069")) return why;
    const inside = this.#text.slice(opened.at + 1, at);
    // Only text that is written so may be set from right to left.
    return BACKWARDS.has(opened.char) && !RIGHT_TO_LEFT.test(inside) ? why : null;
  }

  #endOfLine(): string | null {
    return this.#open.length > 0 ? "changes the direction of the text, and is not closed" : null;
  }

  #other(code: number, before: string, after: string): string | null {
    const repeated = isUnseen(before) || isUnseen(after);
    switch (code) {
      case 0xad:
        if (repeated) return "one of several invisible characters in a row";
        return LETTER.test(before) ? null : this.#allowed("soft hyphen outside of a word");
      case 0x200b:
        return !repeated && (NO_SPACES.test(before) || NO_SPACES.test(after)) ? null : "zero-width space";
      case 0x34f:
        return !repeated && /\p{M}/u.test(before + after) ? null : "invisible joiner";
      case 0x115f:
      case 0x1160:
        return /[\u1100-\u115e\u1161-\u11ff]/.test(before + after) ? null : "invisible letter";
      case 0x17b4:
      case 0x17b5:
        return /\p{Script=Khmer}/u.test(before) ? null : "invisible letter";
      case 0x180e:
        return /\p{Script=Mongolian}/u.test(before) ? null : "invisible separator";
      case 0x2061:
      case 0x2062:
      case 0x2063:
      case 0x2064:
        // As in formulas that were copied from a page.
        return !repeated && before.trim() !== "" ? this.#allowed("invisible operator") : "invisible operator";
      default:
        return code === 0x3164 || code === 0xffa0 ? "invisible letter" : "invisible character";
    }
  }

  #allowed(why: string): string | null {
    return ++this.#harmless > MAX_HARMLESS ? `${why}, one of many` : null;
  }
}

/** Signs that are drawn, though their class is that of format characters. */
const VISIBLE_FORMAT =
  /[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u{110bd}\u{110cd}\u{13430}-\u{1343f}\ufffc\ufffd]/u;
const ISOLATES = new Set(["\u2066", "\u2067", "\u2068"]);
const BACKWARDS = new Set(["\u202b", "\u2067"]);

/** One selector chooses the form of the character before it. */
function variation(char: string, before: string): string | null {
  const code = char.codePointAt(0) ?? 0;
  const why = "invisible variation selector";
  if (isUnseen(before) || before.trim() === "") return why;
  if (code >= 0xe0100) return /\p{Script=Han}/u.test(before) ? null : why;
  if (code >= 0x180b && code <= 0x180f) return /\p{Script=Mongolian}/u.test(before) ? null : why;
  if (/[0-9#*]/.test(before)) return code >= 0xfe0e ? null : why;
  return before > "\u007f" ? null : why;
}

function isTag(char: string | undefined): boolean {
  const code = char?.codePointAt(0) ?? 0;
  return code >= 0xe0020 && code <= 0xe007f;
}

function isUnseen(char: string): boolean {
  return char !== "\n" && char !== "\t" && UNSEEN.test(char) && !VISIBLE_FORMAT.test(char);
}

function codeOf(char: string): string {
  return `U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}
