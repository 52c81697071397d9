/** Colours source code line by line. */

import { patchLine } from "../output/changes.ts";
import type { Look } from "./look.ts";

interface Language {
  keywords: string;
  /** What begins a comment up to the end of the line. */
  comments?: readonly string[];
  block?: readonly [string, string];
  /** Quotes of strings that end with their line. */
  quotes?: string;
  /** Quotes of strings over several lines. */
  long?: readonly string[];
  /** Words with this first character, such as `$HOME` or `@decorator`. */
  sigils?: string;
  /** What stands before a colon is a key. */
  keys?: boolean;
  ignoreCase?: boolean;
}

const C_LIKE = { comments: ["//"], block: ["/*", "*/"], quotes: "\"'" } as const;

const HASHED = { comments: ["#"], quotes: "\"'" } as const;

const SCRIPT: Language = {
  ...C_LIKE,
  long: ["`"],
  sigils: "@",
  keywords:
    "abstract as async await break case catch class const continue debugger declare default delete do else enum export extends false finally for from function get if implements import in infer instanceof interface is keyof let namespace new null of override private protected public readonly return satisfies set static super switch this throw true try type typeof undefined var void while with yield any boolean never number object string symbol unknown bigint",
};

/** By their names, with those of languages that look like them. */
const LANGUAGES: Readonly<Record<string, Language>> = {
  "ts typescript tsx js jsx javascript mjs cjs mts cts": SCRIPT,
  "py python python3 pyi": {
    ...HASHED,
    long: ['"""', "'''"],
    sigils: "@",
    keywords:
      "False None True and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return self try while with yield",
  },
  "go golang": {
    ...C_LIKE,
    long: ["`"],
    keywords:
      "break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var nil true false iota bool byte error float32 float64 int int8 int16 int32 int64 rune string uint uint8 uint16 uint32 uint64 any",
  },
  "rust rs": {
    comments: ["//"],
    block: ["/*", "*/"],
    quotes: '"',
    keywords:
      "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while bool char f32 f64 i8 i16 i32 i64 i128 isize str u8 u16 u32 u64 u128 usize String Vec Option Result Some None Ok Err",
  },
  "c cpp c++ cc h hpp java kotlin kt swift cs csharp scala dart php objc zig proto": {
    ...C_LIKE,
    sigils: "#@",
    keywords:
      "abstract auto bool boolean break byte case catch char class const constexpr continue default delete do double else enum explicit export extends extern false final finally float fn for foreach friend fun goto if implements import in inline instanceof int interface internal let long namespace native new nil null nullptr object operator override package private protected public readonly return sealed short signed sizeof static string struct super switch template this throw throws true try typedef typename union unsigned using val var virtual void volatile when while",
  },
  "sh bash shell zsh fish console shell-session": {
    comments: ["#"],
    quotes: "",
    long: ['"', "'"],
    sigils: "$",
    keywords:
      "if then else elif fi for while until do done case esac in function return local export readonly unset set source exit break continue shift trap eval exec cd echo printf test sudo",
  },
  "json jsonc json5 jsonl": { quotes: '"', keys: true, comments: ["//"], keywords: "true false null" },
  "yaml yml": {
    ...HASHED,
    keys: true,
    sigils: "&*",
    keywords: "true false null yes no on off",
  },
  sql: {
    comments: ["--"],
    block: ["/*", "*/"],
    quotes: "'\"",
    ignoreCase: true,
    keywords:
      "add all alter and as asc between by case check column constraint create cross database default delete desc distinct drop else end exists foreign from full group having if in index inner insert into is join key left like limit not null offset on or order outer primary references returning right select set table then union unique update values view when where with integer text varchar boolean timestamp",
  },
  "ruby rb": {
    ...HASHED,
    sigils: "@:$",
    keywords:
      "alias and begin break case class def defined do else elsif end ensure false for if in module next nil not or redo rescue retry return self super then true undef unless until when while yield require attr_accessor puts",
  },
  "css scss less": {
    block: ["/*", "*/"],
    quotes: "\"'",
    keys: true,
    sigils: "@#.",
    keywords: "important inherit initial auto none",
  },
  "html xml svg vue svelte": { block: ["<!--", "-->"], quotes: "\"'", keywords: "" },
  "toml ini env": { ...HASHED, long: ['"""', "'''"], keywords: "true false" },
  "make dockerfile docker makefile cmake": {
    ...HASHED,
    sigils: "$",
    keywords:
      "FROM RUN COPY ADD ENV ARG CMD ENTRYPOINT WORKDIR EXPOSE USER VOLUME LABEL ifeq ifdef ifndef else endif include define endef export",
  },
};

const NAMES = new Map(
  Object.entries(LANGUAGES).flatMap(([names, language]) =>
    names.split(" ").map((name): [string, Language] => [name, language]),
  ),
);

/** Longer lines stay plain: they are data. */
const MAX_LINE = 2000;

/** Colours the lines of one block of code, in order. A language that is not known stays as it is. */
export class Highlighter {
  readonly #language: string;
  readonly #style: Look;
  readonly #grammar: Grammar | null;
  /** The end of the comment or string that the next line begins in. */
  #inside: { end: string; isComment: boolean } | null = null;

  constructor(language: string, style: Look) {
    const name = language.toLowerCase();
    this.#language = name;
    this.#style = style;
    this.#grammar = grammarOf(name);
  }

  copy(): Highlighter {
    const copy = new Highlighter(this.#language, this.#style);
    copy.#inside = this.#inside;
    return copy;
  }

  /** The line has no escape sequences. */
  line(line: string): string {
    if (this.#language === "diff" || this.#language === "patch") return patchLine(line, this.#style);
    if (this.#grammar === null || line.length > MAX_LINE) return line;
    return this.#coloured(line, this.#grammar);
  }

  #coloured(line: string, { token, keywords, language }: Grammar): string {
    let shown = "";
    let at = 0;
    if (this.#inside !== null) {
      const part = this.#endOf(line, 0, this.#inside.end);
      shown = this.#paint(part, this.#inside.isComment);
      at = part.length;
      if (!part.endsWith(this.#inside.end)) return shown;
      this.#inside = null;
    }
    token.lastIndex = at;
    for (let match = token.exec(line); match !== null; match = token.exec(line)) {
      shown += line.slice(at, match.index);
      at = match.index + match[0].length;
      const { comment, block, long, string, number, sigil, word } = match.groups ?? {};
      if (comment !== undefined) shown += this.#style.dim(comment);
      else if (block !== undefined || long !== undefined) {
        const begin = block ?? long ?? "";
        const end = block === undefined ? begin : (language.block?.[1] ?? "");
        const part = begin + this.#endOf(line, at, end);
        shown += this.#paint(part, block !== undefined);
        at = match.index + part.length;
        if (part.length < begin.length + end.length || !part.endsWith(end))
          this.#inside = { end, isComment: block !== undefined };
        token.lastIndex = at;
      } else if (string !== undefined) {
        shown += this.#isKey(line, at, language) ? this.#style.blue(string) : this.#style.green(string);
      } else if (number !== undefined) shown += this.#style.yellow(number);
      else if (sigil !== undefined) shown += this.#style.cyan(sigil);
      else if (word !== undefined) {
        const isKeyword = keywords.has(language.ignoreCase ? word.toLowerCase() : word);
        if (this.#isKey(line, at, language)) shown += this.#style.blue(word);
        else shown += isKeyword ? this.#style.magenta(word) : word;
      }
    }
    return shown + line.slice(at);
  }

  /** From `from` up to and with `end`, or to the end of the line. */
  #endOf(line: string, from: number, end: string): string {
    for (let at = from; at < line.length; at++) {
      if (line.startsWith(end, at)) return line.slice(from, at + end.length);
      if (line[at] === "\\" && !end.startsWith("*")) at++;
    }
    return line.slice(from);
  }

  #paint(text: string, isComment: boolean): string {
    return isComment ? this.#style.dim(text) : this.#style.green(text);
  }

  #isKey(line: string, at: number, language: Language): boolean {
    return language.keys === true && /^\s*:(?:\s|$|["\d[{])/.test(line.slice(at, at + 8));
  }
}

interface Grammar {
  token: RegExp;
  keywords: ReadonlySet<string>;
  language: Language;
}

const grammars = new Map<Language, Grammar>();

function grammarOf(name: string): Grammar | null {
  const language = NAMES.get(name);
  if (language === undefined) return null;
  const keywords = new Set(language.keywords.split(" "));
  return grammars.getOrInsertComputed(language, () => ({ token: tokenOf(language), keywords, language }));
}

function tokenOf(language: Language): RegExp {
  const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
  const { comments = [], block, quotes = "", long = [], sigils = "" } = language;
  const strings = [...quotes].map((quote) => `${quote}(?:[^${quote}\\\\]|\\\\.)*${quote}`);
  const parts = [
    // Not within a word or an address, such as http://a#b.
    ...(comments.length > 0 ? [`(?<comment>(?<![\\w:$])(?:${comments.map(escaped).join("|")}).*)`] : []),
    ...(block ? [`(?<block>${escaped(block[0])})`] : []),
    ...(long.length > 0 ? [`(?<long>${long.map(escaped).join("|")})`] : []),
    ...(strings.length > 0 ? [`(?<string>${strings.join("|")})`] : []),
    "(?<number>(?<![\\w.])(?:0[xXbBoO][\\da-fA-F_]+|\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?))",
    ...(sigils === "" ? [] : [`(?<sigil>(?<!\\w)[${[...sigils].map(escaped).join("")}]\\{?[\\w-]+\\}?)`]),
    "(?<word>[A-Za-z_][\\w]*)",
  ];
  return new RegExp(parts.join("|"), "g");
}
