import { readFileSync } from "node:fs";
import { join } from "node:path";

export const ROOT = join(import.meta.dir, "../..");

/** One interface as docs/syscalls.md describes it. */
interface InterfaceEntry {
  name: string;
  /** Of Kernel. */
  field: string;
  /** Where its class is, from the root. */
  file: string;
  /** The methods of its class that are no syscalls. */
  beside: string[];
  syscalls: SyscallEntry[];
}

export interface SyscallEntry {
  name: string;
  text: string;
  /** On one line. */
  signature: string;
  codes: string[];
  /** Names of the recorded arguments, with "?" behind optional ones; undefined: the call is not recorded. */
  recorded: string[] | undefined;
  examples: string[];
}

interface SyscallDocument {
  text: string;
  /** Before the first interface. */
  common: string;
  /** The table at the beginning: what syscalls each interface has. */
  table: Record<string, string[]>;
  interfaces: InterfaceEntry[];
  prelude: string;
  recipe: string;
}

export function syscallDocument(): SyscallDocument {
  const text = readFileSync(join(ROOT, "docs/syscalls.md"), "utf8");
  const sections = text.split(/^## /m);
  const interfaces = sections.filter((section) => /\n`kernel\.\w+`/.test(section)).map(interfaceEntry);
  const [common = ""] = text.split(`## ${interfaces[0]?.name}\n`);
  const rows = [...common.matchAll(/^\| \[(\w+)\]\(#\w+\) \| `(\w+)` \| (.+) \|$/gm)];
  return {
    text,
    common,
    table: Object.fromEntries(rows.map(([, name = "", , calls = ""]) => [name, calls.split(", ")])),
    interfaces,
    prelude: only(fenced(text, "ts prelude"), "prelude"),
    recipe: only(fenced(text, "ts recipe"), "recipe"),
  };
}

function interfaceEntry(section: string): InterfaceEntry {
  const [head = "", ...entries] = section.split(/^### /m);
  const name = head.slice(0, head.indexOf("\n"));
  const paragraph = head.split("\n\n").find((part) => part.startsWith("`kernel.")) ?? "";
  const field = /`kernel\.(\w+)`/.exec(paragraph)?.[1] ?? "";
  const file = /\]\(\.\.\/(src\/\S+\.ts)\)/.exec(paragraph)?.[1] ?? "";
  const beside = [...paragraph.matchAll(/`(\w+)`/g)]
    .map(([, word = ""]) => word)
    .filter((word) => /^[a-z]/.test(word));
  return { name, field, file, beside, syscalls: entries.map(syscallEntry) };
}

function syscallEntry(text: string): SyscallEntry {
  const name = text.slice(0, text.indexOf("\n"));
  const recorded = /^Recorded: (?:`([^`]+)`|nothing) →/m.exec(text);
  return {
    name,
    text,
    signature: only(fenced(text, "ts signature"), `signature of ${name}`),
    codes: [...text.matchAll(/^\| ([A-Z_]+|–) \|/gm)].map(([, code = ""]) => code),
    recorded: recorded ? (recorded[1]?.split(", ") ?? []) : undefined,
    examples: fenced(text, "ts"),
  };
}

function fenced(text: string, info: string): string[] {
  const blocks = text.matchAll(new RegExp(`^\`\`\`${info}\\n([\\s\\S]*?)^\`\`\`$`, "gm"));
  return [...blocks].map(([, body = ""]) => body.trim());
}

function only(found: string[], what: string): string {
  const [one, ...more] = found;
  if (one === undefined || more.length > 0)
    throw new Error(`docs/syscalls.md: ${found.length} times: ${what}`);
  return one;
}
