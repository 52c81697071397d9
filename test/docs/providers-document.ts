import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const FILE = join(import.meta.dir, "../../docs/providers.md");

/** docs/providers.md. */
export function providersDocument(): string {
  return readFileSync(FILE, "utf8");
}

/** Returns the document with the given tables between their marks. */
export function withTables(document: string, tables: Record<string, string>): string {
  let text = document;
  for (const [name, table] of Object.entries(tables)) {
    const between = new RegExp(`(<!-- conformance: ${name} -->\n)[\\s\\S]*?(<!-- /conformance -->)`);
    if (!between.test(text)) throw new Error(`docs/providers.md has no place for the table "${name}"`);
    text = text.replace(between, (_all, head: string, foot: string) => `${head}${table}\n${foot}`);
  }
  return text;
}

export function writeProvidersDocument(text: string): void {
  writeFileSync(FILE, text);
}
