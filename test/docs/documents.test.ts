import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { loadCommands } from "../../src/cli/commands.ts";
import { AgentFile } from "../../src/config/agents/agent-file.ts";
import { formatLimit } from "../../src/config/files/values.ts";
import { parseYaml } from "../../src/config/files/yaml.ts";
import { mcpEntry } from "../../src/config/mcp/mcp-entry.ts";
import { checkSkillFile } from "../../src/config/skills/skill-file.ts";
import type { Setting } from "../../src/options/setting.ts";
import { SETTINGS } from "../../src/options/settings.ts";
import { METHODS } from "../../src/server/methods/method-table.ts";

/** What README.md and docs/*.md name exists: links, files, flags, settings and the keys of configuration files. */
const ROOT = resolve(import.meta.dir, "../..");
/** Elsewhere plugins/ and the others may be those of a project. */
const OWN_FOLDERS = /^(?:src|test|bench|docs|plugins|agents|skills)\/[\w./-]*$/;
/** Flags of other programs, by the document that names them. */
const FOREIGN_FLAGS: Record<string, string[]> = {
  "bench/README.md": ["only", "batches"],
  "docs/providers.md": ["force"],
  "docs/sandbox.md": ["security-opt"],
  "docs/shell.md": ["label"],
};
/** A placeholder of a command. */
const KNOWN_ALONE = new Set(["help", "--help", "--version", "COMMAND", "TEXT"]);
/** `max_steps`, `tokens_used`, `RNIX_MODEL`, `EXHAUSTED`. */
const IDENTIFIER = /\b(?:[a-z]+(?:_[a-z0-9]+)+|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*[A-Z0-9]{2})\b/g;
/** Commands that a document makes up, by the document. */
const EXAMPLE_COMMANDS: Record<string, string[]> = { "docs/plugins.md": ["NAME", "crates"] };
/** Names that a document makes up, or that are of other programs. */
const EXAMPLE_NAMES: Record<string, string[]> = {
  "README.md": ["COMMAND"],
  "docs/ci.md": [
    ...["GITHUB_TOKEN", "GH_TOKEN", "CI_JOB_TOKEN", "PASSWORD"],
    ...["GITHUB_SHA", "GITHUB_REF", "GITHUB_REPOSITORY", "GITHUB_OUTPUT", "pull_request_target"],
  ],
  "docs/configuration.md": ["UID"],
  "docs/mcp.md": ["context_servers"],
  "docs/providers.md": ["top_k"],
  "docs/security.md": ["ptrace_scope"],
  // Their names are put together of a signal and a word.
  "docs/telemetry.md": ["HEADERS", "COMPRESSION"]
    .map((word) => `OTEL_EXPORTER_OTLP_${word}`)
    .concat("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"),
};
const DOCUMENTS = ["README.md", "bench/README.md", ...new Bun.Glob("docs/*.md").scanSync(ROOT)].sort();

test("README.md has at most 200 lines, names every command and links to every document", async () => {
  const readme = read("README.md");
  expect(readme.split("\n").length).toBeLessThanOrEqual(201);
  const commands = (await loadCommands()).filter(([, { hidden }]) => !hidden).map(([name]) => name);
  expect(commands.filter((name) => !readme.includes(`\`${name}\``))).toEqual([]);
  const documents = DOCUMENTS.filter((name) => name.startsWith("docs/"));
  expect(documents.filter((name) => !readme.includes(`](${name})`))).toEqual([]);
});

describe.each(DOCUMENTS)("%s", (document) => {
  const text = read(document);

  test("links only to files and headings that exist", () => {
    const broken = [...prose(text).matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)/g)].filter(
      ([, path = "", heading]) => {
        const target = path === "" ? document : join(dirname(document), path);
        if (!existsSync(join(ROOT, target))) return true;
        return heading !== undefined && !headings(read(target)).includes(heading);
      },
    );
    expect(broken.map(([link]) => link)).toEqual([]);
  });

  test("names only files of this repository that exist", () => {
    const own = document === "docs/architecture.md" ? OWN_FOLDERS : /^(?:src|test|bench|docs)\/[\w./-]+$/;
    const paths = code(text).filter((words) => own.test(words));
    expect(paths.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  });

  test("names only commands that exist, with their own subcommands and flags", async () => {
    const commands = new Map(await loadCommands());
    const wrong = commandLines(text).filter((line) => {
      // A quoted text where the command would be is an intent.
      const [name = "", word = "", ...rest] = line[0] === "TEXT" ? ["spawn", ...line] : line;
      const command = commands.get(name);
      if (KNOWN_ALONE.has(name) || EXAMPLE_COMMANDS[document]?.includes(name)) return false;
      if (!command) return true;
      const sub = command.subcommands?.[word];
      const isWord = /^[a-z]/.test(word) && command.subcommands !== undefined;
      if (isWord && !sub && command.run === undefined) return true;
      const flags = new Set([...Object.keys((sub ?? command).flags), "help"]);
      return [word, ...rest].some(
        (one) => /^--[a-z]/.test(one) && !flags.has(one.slice(2).replace(/=.*/, "")),
      );
    });
    expect(wrong.map((line) => line.join(" "))).toEqual([]);
  });

  test("names only methods of the protocol", () => {
    const named = [...text.matchAll(/\bmethods? ((?:`\w+`(?:, | and )?)+)/g)].flatMap(
      ([, names = ""]) => names.match(/\w+/g) ?? [],
    );
    expect(named.filter((one) => one !== "and" && !Object.hasOwn(METHODS, one))).toEqual([]);
  });

  test("names only settings, fields, methods, codes and variables that are in the source", () => {
    const named = code(text).flatMap((words) => words.match(IDENTIFIER) ?? []);
    const examples = new Set(EXAMPLE_NAMES[document] ?? []);
    const unknown = named.filter((one) => !sourceWords().has(one) && !examples.has(one));
    expect([...new Set(unknown)]).toEqual([]);
  });

  test("names only flags that a command has", async () => {
    const flags = code(text).flatMap((words) =>
      /^--[a-z]/.test(words) ? [words.replace(/[^a-z-].*/, "")] : [],
    );
    const known = new Set([...(await allFlags()), ...(FOREIGN_FLAGS[document] ?? [])]);
    expect(flags.filter((flag) => !known.has(flag.slice(2)))).toEqual([]);
  });
});

describe("docs/configuration.md", () => {
  const FILE = "docs/configuration.md";
  const BETWEEN = /(<!-- settings -->\n)[\s\S]*?(<!-- \/settings -->)/;

  /** With UPDATE_DOCS=1 the table is written instead of compared. */
  test("has the table of settings that is in the code", () => {
    const document = read(FILE);
    expect(document).toMatch(BETWEEN);
    const expected = document.replace(
      BETWEEN,
      (_all, head: string, foot: string) => `${head}${settingsTable()}${foot}`,
    );
    if (process.env.UPDATE_DOCS) writeFileSync(join(ROOT, FILE), expected);
    else expect(document, "UPDATE_DOCS=1 writes the table").toBe(expected);
  });
});

describe("the keys of configuration files", () => {
  test("of agent.yaml are documented, and the example is valid", async () => {
    const document = read("docs/agents-and-skills.md");
    const known = Object.keys(AgentFile.unwrap().shape).filter((key) => key !== "models");
    const models = ["provider", "preferred", "fallback", "effort"].map((key) => `models.${key}`);
    expect(keysOf(document, "agent.yaml")).toEqual([...known, ...models].sort());
    const { value } = await parseYaml(AgentFile, example(document, "agent.yaml"), "agent.yaml");
    expect(Object.keys(value).sort()).toEqual([...known, "models"].sort());
    expect(Object.keys(value.models ?? {}).map((key) => `models.${key}`)).toEqual(models);
  });

  test("of SKILL.md are documented, and the example is valid", async () => {
    const document = read("docs/agents-and-skills.md");
    const skill = example(document, "SKILL.md");
    expect(await checkSkillFile("/skills/release-notes/SKILL.md", skill)).toEqual([]);
    const [, front = ""] = /^---\n([\s\S]*?)\n---/.exec(skill) ?? [];
    const keys = [...front.matchAll(/^([a-z-]+):/gm)].map(([, key = ""]) => key);
    expect(keysOf(document, "SKILL.md")).toEqual(keys.sort());
  });

  test("of mcp.yaml are documented", () => {
    expect(keysOf(read("docs/mcp.md"), "mcp.yaml")).toEqual(Object.keys(mcpEntry().shape).sort());
  });
});

test("every suite that docs/security.md names exists, and every suite is named", () => {
  const named = code(read("docs/security.md")).filter((words) => /^[a-z-]+\/$/.test(words));
  const suites = [...new Bun.Glob("*/*.test.ts").scanSync(join(ROOT, "test/e2e/hostile"))];
  const folders = new Set(suites.map((file) => `${dirname(file)}/`));
  expect([...new Set(named)].sort()).toEqual([...folders].sort());
});

function read(name: string): string {
  return readFileSync(join(ROOT, name), "utf8");
}

/** The text without fenced blocks. */
function prose(text: string): string {
  return text.replace(/^```[\s\S]*?^```$/gm, "");
}

/** What stands in backticks. */
function code(text: string): string[] {
  return [...prose(text).matchAll(/`([^`\n]+)`/g)].map(([, words = ""]) => words);
}

/** The words of each `rnix …`, in the text and in the blocks of commands, up to what the shell makes of it. */
function commandLines(text: string): string[][] {
  const blocks = [...text.matchAll(/^```(?:sh|console|bash)\n([\s\S]*?)^```$/gm)].flatMap(([, block = ""]) =>
    block.split("\n"),
  );
  const lines = [...code(text), ...blocks];
  return lines.flatMap((line) => {
    const [, words] = /^(?:\$ )?(?:.*\| )?(?:\.\/)?rnix ((?:[^|;&>#`]|"[^"]*")+)/.exec(line) ?? [];
    return words === undefined
      ? []
      : [
          words
            .replace(/"[^"]*"|'[^']*'/g, "TEXT")
            .trim()
            .split(/\s+/),
        ];
  });
}

let words: ReadonlySet<string> | undefined;

/** Every identifier and word of the program's source. */
function sourceWords(): ReadonlySet<string> {
  words ??= new Set(
    ["src/**/*.ts", "plugins/**/*.ts", "bench/**/*.ts", "package.json", "test/suite.ts"]
      .flatMap((glob) => [...new Bun.Glob(glob).scanSync(ROOT)])
      .flatMap((file) => read(file).match(/[A-Za-z]\w*/g) ?? []),
  );
  return words;
}

/** The anchors of its headings. */
function headings(text: string): string[] {
  return [...prose(text).matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replaceAll(" ", "-")
      .replace(/[^\w-]/g, ""),
  );
}

async function allFlags(): Promise<Set<string>> {
  const commands = (await loadCommands()).map(([, command]) => command);
  const all = commands.flatMap((command) => [command, ...Object.values(command.subcommands ?? {})]);
  return new Set([...all.flatMap(({ flags }) => Object.keys(flags)), "help"]);
}

function settingsTable(): string {
  const rows = Object.entries<Setting>(SETTINGS).map(([key, setting]) => {
    const usual = formatLimit(setting.default, setting);
    const notes = [
      ...(setting.unlimited && usual !== "unlimited" ? ["`unlimited`"] : []),
      ...(setting.none ? ["`none`"] : []),
    ];
    const scope = setting.scope === "user" ? "you only" : "";
    return `| \`${key}\` | ${usual} | ${notes.join(", ")} | ${scope} | ${setting.about} |\n`;
  });
  return ["| setting | default | or | set by | what it is |\n|---|---|---|---|---|\n", ...rows].join("");
}

/** The keys in the first column of the table for a file, sorted. */
function keysOf(document: string, file: string): string[] {
  const [, table = ""] =
    new RegExp(`<!-- keys: ${file} -->\n([\\s\\S]*?)<!-- /keys -->`).exec(document) ?? [];
  const cells = [...table.matchAll(/^\| ([^|]*`[^|]*) \|/gm)].map(([, cell = ""]) => cell);
  return cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, key = ""]) => key)).sort();
}

/** The code block after `<!-- example: FILE -->`. */
function example(document: string, file: string): string {
  const [, block] =
    new RegExp(`<!-- example: ${file} -->\n\`\`\`\\w+\n([\\s\\S]*?)^\`\`\`$`, "m").exec(document) ?? [];
  if (block === undefined) throw new Error(`There is no example of ${file}.`);
  return block;
}
