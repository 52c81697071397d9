import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./syscall-document.ts";

/** The signatures of a class's public methods by name, each on one line, as they stand in its source. */
export function publicMethods(file: string): Map<string, string> {
  const source = readFileSync(join(ROOT, file), "utf8");
  const body = /^export class [\s\S]*?^}$/m.exec(source)?.[0];
  if (!body) throw new Error(`no class in ${file}`);
  const methods = new Map<string, string>();
  for (const match of body.matchAll(/^ {2}((?:async )?([a-z]\w*)(?:<[^(]*>)?\()/gm)) {
    const [, , name = ""] = match;
    if (name === "constructor") continue;
    const from = body.slice(match.index);
    const signature = onOneLine(from.slice(0, from.search(/ \{\n/)));
    methods.set(name, signature.replace(/^async /, ""));
  }
  return methods;
}

/** The same text, whether a formatter has broken its lines or not. */
export function onOneLine(text: string): string {
  return text.replace(/\s+/g, " ").replace(/\( /g, "(").replace(/,? \)/g, ")").trim();
}

/** What records a syscall: the Debugger's methods, and what the managers have in front of them. */
const RECORDS = /(?:debug\.(?:call|callFor|callNow)|#(?:call|own|create|run|event|note))\(/g;
/** How the name of a syscall is written. */
const NAME = /^"([A-Z][a-z]+[A-Za-z]*)"$/;

/** Every name that the kernel records. */
export function recordedNames(): Set<string> {
  const names = new Set<string>();
  for (const file of new Bun.Glob("src/kernel/**/*.ts").scanSync(ROOT)) {
    const source = readFileSync(join(ROOT, file), "utf8");
    for (const match of source.matchAll(RECORDS)) {
      const given = argumentsAt(source, match.index + match[0].length);
      const [name] = given.flatMap((argument) => NAME.exec(argument)?.[1] ?? []);
      if (name !== undefined) names.add(name);
    }
  }
  return names;
}

/** The arguments of a call whose "(" stands before `start`. */
function argumentsAt(source: string, start: number): string[] {
  const found: string[] = [];
  let depth = 0;
  let from = start;
  for (let at = start; at < source.length; at++) {
    const char = source[at] ?? "";
    if (`"'\``.includes(char)) at = endOfString(source, at);
    else if ("([{".includes(char)) depth++;
    else if (")]}".includes(char)) depth--;
    if (depth >= 0 && !(char === "," && depth === 0)) continue;
    found.push(source.slice(from, at).trim());
    if (depth < 0) return found;
    from = at + 1;
  }
  throw new Error("a call that does not end");
}

function endOfString(source: string, start: number): number {
  const quote = source[start];
  for (let at = start + 1; at < source.length; at++) {
    if (source[at] === "\\") at++;
    else if (source[at] === quote) return at;
  }
  throw new Error("a string that does not end");
}
