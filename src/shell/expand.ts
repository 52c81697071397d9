/** Expands the words of a command: parameters, substitutions and field splitting. */

import { SyscallError } from "../plugin/errors.ts";
import type { Part, Word } from "./lexer.ts";

/** One argument: its text, and the text that gives it to bash, where patterns of file names are open. */
export interface Field {
  text: string;
  line: string;
}

/** What expansions read. */
export interface Scope {
  /** undefined: not set. `name` may be `?`, `1`, `#` and the like. */
  parameter(name: string): string | undefined;
  /** `$1` and the following. */
  readonly args: readonly string[];
  /** The output of these commands. */
  substitute(commands: string): Promise<string>;
}

/** The arguments that a word becomes: none, one or several. */
export async function fieldsOf({ parts = [] }: Word, scope: Scope): Promise<Field[]> {
  const fields: Field[] = [];
  let open: Field | null = null;
  const add = (text: string, line: string): void => {
    open = { text: (open?.text ?? "") + text, line: (open?.line ?? "") + line };
  };
  const close = (): void => {
    if (open) fields.push({ ...open, line: open.line || "''" });
    open = null;
  };
  for (const part of parts) {
    if ("text" in part) {
      add(part.text, part.quoted ? quoted(part.text) : part.text.replaceAll("$", "\\$"));
    } else if (part.quoted && "name" in part && part.name === "@") {
      for (const [index, arg] of scope.args.entries()) {
        if (index > 0) close();
        add(arg, quoted(arg));
      }
    } else {
      const value = await valueOfPart(part, scope);
      if (part.quoted) add(value, quoted(value));
      else {
        if (/^[ \t\n]/.test(value)) close();
        for (const [index, piece] of value
          .split(/[ \t\n]+/)
          .filter(Boolean)
          .entries()) {
          if (index > 0) close();
          add(piece, quoted(piece));
        }
        if (/[ \t\n]$/.test(value)) close();
      }
    }
  }
  close();
  return fields;
}

/** The text of a word that stays one: the value of a variable, the file of a redirection. */
export async function textOf({ parts = [] }: Word, scope: Scope): Promise<string> {
  let text = "";
  for (const part of parts) text += "text" in part ? part.text : await valueOfPart(part, scope);
  return text;
}

/** The text in quotes, where bash needs them. */
export function quoted(text: string): string {
  return text === "" || /^[\w@%+:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

async function valueOfPart(part: Exclude<Part, { text: string }>, scope: Scope): Promise<string> {
  if ("commands" in part) return (await scope.substitute(part.commands)).replace(/\n+$/, "");
  const { name, rest } = part;
  if (name.length > 1 && name.startsWith("#")) return String((scope.parameter(name.slice(1)) ?? "").length);
  const value = scope.parameter(name);
  if (rest === "") return value ?? "";
  const [, colon, operator, word = ""] = /^(:?)([-+])(.*)$/s.exec(rest) ?? [];
  if (operator === undefined)
    throw new SyscallError(
      "INVALID",
      `$\{${name}${rest}} is not read: expected $\{NAME:-word} or $\{NAME:+word}.`,
    );
  const isSet = value !== undefined && !(colon && value === "");
  if (operator === "-") return isSet ? value : word;
  return isSet ? word : "";
}
