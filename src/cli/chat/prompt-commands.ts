/** Commands that are prompts: Markdown files of the project and the user, sent as a message with their arguments. */

import { readdirSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { splitFrontMatter } from "../../config/files/yaml.ts";
import { errnoOf } from "../../lib/error-detail.ts";
import { readRegularSync } from "../../lib/regular-file.ts";

const MAX_PROMPT_BYTES = 256 * 1024;
/** Maximum files and depth of one folder of commands. */
const MAX_COMMANDS = 500;
const MAX_DEPTH = 4;
const NAME = /^[\w.-]+$/;

export interface PromptCommand {
  /** `name`, or `folder:name` for a file in a folder below. */
  name: string;
  about: string;
  /** What its arguments are, as its file says. */
  hint?: string;
  /** A project may come from another author: its prompts attach no files from outside of it. */
  of: "project" | "user";
  file: string;
}

export interface CommandFolders {
  /** Absolute; null outside a project. */
  project: string | null;
  configDir: string;
  home: string;
}

/** All prompt commands; those of the project come first and win over a user's command of the same name. */
export function findPromptCommands({ project, configDir, home }: CommandFolders): PromptCommand[] {
  const projects = project === null ? [] : [join(project, ".rnix"), join(project, ".claude")];
  const all = [
    ...projects.flatMap((folder) => commandsIn(join(folder, "commands"), "project", project)),
    ...[configDir, join(home, ".claude")].flatMap((folder) =>
      commandsIn(join(folder, "commands"), "user", project),
    ),
  ];
  return [...Map.groupBy(all, ({ name }) => name).values()].flatMap(([first]) => first ?? []);
}

interface ExpandedPrompt {
  text: string;
  /** Why a part of the file has no effect here. */
  note?: string;
}

/** Reads the command's file again, so that an edit counts at once. Fails with the system's error if it is gone. */
export function expandPrompt(command: Pick<PromptCommand, "file">, args: string): ExpandedPrompt {
  const content = readRegularSync(command.file, MAX_PROMPT_BYTES).toString();
  const body = splitFrontMatter(content)?.body ?? content.trim();
  const words = wordsOf(args);
  let isUsed = false;
  const filled = body.replace(/\$(?:ARGUMENTS\b|([1-9])(?!\d))/g, (_, position?: string) => {
    isUsed = true;
    return position === undefined ? args.trim() : (words[Number(position) - 1] ?? "");
  });
  const text = isUsed || args.trim() === "" ? filled : `${filled}\n\n${args.trim()}`;
  const runsCommands = /!`[^`\n]+`/.test(body);
  return {
    text: text.trim(),
    ...(runsCommands && { note: "a prompt runs no commands here: the parts in !`…` are sent as text" }),
  };
}

/** The arguments, split at spaces; quotes keep several words together. */
export function wordsOf(args: string): string[] {
  const words = args.match(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g) ?? [];
  return words.map((word) => word.replace(/"([^"]*)"|'([^']*)'/g, (_, double, single) => double ?? single));
}

function commandsIn(folder: string, of: PromptCommand["of"], project: string | null): PromptCommand[] {
  const found: PromptCommand[] = [];
  const walk = (dir: string, prefix: string, depth: number): void => {
    for (const { name, isFolder } of entriesOf(dir)) {
      if (found.length >= MAX_COMMANDS) return;
      const path = join(dir, name);
      if (isFolder) {
        if (depth < MAX_DEPTH && NAME.test(name)) walk(path, `${prefix}${name}:`, depth + 1);
      } else if (name.endsWith(".md") && NAME.test(name)) {
        const command = read(path, `${prefix}${name.slice(0, -".md".length)}`, of, project);
        if (command !== null) found.push(command);
      }
    }
  };
  walk(folder, "", 1);
  return found;
}

/** null for a file that can't be read, and for a link out of the project. */
function read(
  path: string,
  name: string,
  of: PromptCommand["of"],
  project: string | null,
): PromptCommand | null {
  try {
    const file = realpathSync(path);
    if (of === "project" && !file.startsWith(`${project}/`)) return null;
    const text = readRegularSync(file, MAX_PROMPT_BYTES).toString();
    const { front, body } = splitFrontMatter(text) ?? { front: "", body: text };
    const about = keyValue(front, "description") ?? firstLine(body);
    const hint = keyValue(front, "argument-hint");
    return { name, about, of, file, ...(hint !== undefined && { hint }) };
  } catch {
    return null;
  }
}

/** The value of a key. Not read as YAML: `argument-hint: [file] [line]`, as these files have it, is none. */
function keyValue(front: string, key: string): string | undefined {
  const lines = front.split(/\r?\n/);
  const at = lines.findIndex((line) => line.startsWith(`${key}:`));
  const value = lines[at]?.slice(key.length + 1).trim();
  if (value === undefined || value === "") return undefined;
  if (!/^[>|][+-]?$/.test(value)) return value.replace(/^(["'])(.*)\1$/, "$2");
  const block = lines.slice(at + 1);
  const end = block.findIndex((line) => /^\S/.test(line));
  return block
    .slice(0, end < 0 ? undefined : end)
    .map((line) => line.trim())
    .join(" ")
    .trim();
}

function firstLine(text: string): string {
  return (text.split("\n").find((line) => line.trim() !== "") ?? "").replace(/^#+\s*/, "").trim();
}

function entriesOf(dir: string): { name: string; isFolder: boolean }[] {
  try {
    const entries = readdirSync(dir, { withFileTypes: true });
    return entries
      .map((entry) => ({ name: entry.name, isFolder: entry.isDirectory() }))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1));
  } catch (error) {
    if (errnoOf(error) !== undefined) return [];
    throw error;
  }
}
