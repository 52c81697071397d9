import { expect, test } from "bun:test";
import { Glob } from "bun";
import type { Command } from "../../src/cli/command.ts";
import { loadCommands } from "../../src/cli/commands.ts";

/** Those of the stock plugins, too. */
const COMMANDS = new Map(await loadCommands());
const ROOT = `${import.meta.dir}/../..`;

/** A command line in a message or a comment, and in a document: `rnix resume UUID --fork`. */
const IN_CODE = /(?:\\|[*/] .*)`rnix ([a-z][^`\\\n]+)\\?`/g;
const IN_TEXT = /`rnix ([a-z][^`\n]+)`/g;

interface Named {
  where: string;
  line: string;
}

async function named(): Promise<Named[]> {
  const found: Named[] = [];
  for (const files of ["{src,plugins}/**/*.ts", "docs/*.md", "README.md", "{agents,skills}/**/*.md"]) {
    for await (const file of new Glob(files).scan(ROOT)) {
      const text = await Bun.file(`${ROOT}/${file}`).text();
      const pattern = file.endsWith(".ts") ? IN_CODE : IN_TEXT;
      for (const [, line = ""] of text.matchAll(pattern)) found.push({ where: file, line });
    }
  }
  return found;
}

/** What is wrong with it; undefined when the command and its flags are there. */
async function wrong({ line }: Named): Promise<string | undefined> {
  const [name = "", ...rest] = line.split(/[\s,|]+/);
  const command = COMMANDS.get(name);
  if (command === undefined) return `no command ${name}`;
  const word = rest[0] ?? "";
  const sub: Command = command.subcommands?.[word] ?? command;
  const known = { ...command.flags, ...sub.flags };
  const flags = rest
    .filter((one) => /^--[a-z]/.test(one))
    .map((one) => one.slice(2).replace(/[^a-z-].*$/, ""));
  const missing = flags.filter((flag) => flag !== "help" && !Object.hasOwn(known, flag));
  return missing.length > 0 ? `${name} has no --${missing.join(", --")}` : undefined;
}

test("every command that a message or a document names exists, with its flags", async () => {
  const lines = await named();
  expect(lines.length).toBeGreaterThan(100);
  const problems: string[] = [];
  for (const one of lines) {
    const problem = await wrong(one);
    if (problem !== undefined) problems.push(`${one.where}: \`rnix ${one.line}\`: ${problem}`);
  }
  expect(problems).toEqual([]);
});
