/** Reads what the user types, and makes messages of it: of plain text, and of commands that are prompts. */

import { nearestName } from "../../lib/edit-distance.ts";
import type { Draft } from "../terminal/draft.ts";
import { attachedFiles } from "./attached-files.ts";
import type { McpPrompts } from "./mcp-prompts.ts";
import type { Outgoing } from "./outbox.ts";
import {
  type CommandFolders,
  expandPrompt,
  findPromptCommands,
  type PromptCommand,
} from "./prompt-commands.ts";

interface ComposerParts {
  /** The folder in which names of files are looked up. */
  cwd: string;
  folders: CommandFolders;
  mcp: Pick<McpPrompts, "text">;
  print(text: string): void;
}

export class Composer {
  readonly #p: ComposerParts;

  constructor(parts: ComposerParts) {
    this.#p = parts;
  }

  get prompts(): PromptCommand[] {
    return findPromptCommands(this.#p.folders);
  }

  message(draft: Draft, text: string): Outgoing {
    return { draft, text, files: () => this.#files({ text: draft.shown }) };
  }

  /** The message of a prompt command: of a file, or of an MCP server. */
  async prompt(name: string, args: string, draft: Draft): Promise<Outgoing> {
    const prompt = this.prompts.find((command) => command.name === name);
    // A server's text attaches no files.
    if (prompt === undefined) {
      const text = await this.#p.mcp.text(name, args);
      return { draft, text, files: () => this.#files({ text: args }) };
    }
    const { text, note } = expandPrompt(prompt, args);
    if (note !== undefined) this.#p.print(note);
    const mentions = prompt.of === "project" ? { text: args, inside: text } : { text: `${text}\n${args}` };
    return { draft, text, files: () => this.#files(mentions) };
  }

  /** `inside`: text of another author, which attaches files of the project only. */
  async #files({ text, inside = "" }: { text: string; inside?: string }): Promise<string[]> {
    const { cwd, folders } = this.#p;
    const own = await attachedFiles(text, cwd);
    const others = await attachedFiles(inside, cwd, folders.project ?? cwd);
    for (const note of [...own.notes, ...others.notes]) this.#p.print(note);
    return [...new Set([...own.files, ...others.files])];
  }
}

type Typed =
  | { kind: "message"; text: string }
  | { kind: "command"; name: string; args: string }
  | { kind: "unknown"; name: string; nearest: string | undefined };

/**
 * A line that begins with a slash is a command, unless its first word is a path. Nothing of an unknown command is sent to
 * the model. `isPath`: whether a word such as "/tmp" names something on disk.
 */
export function readTyped(text: string, names: Iterable<string>, isPath: (word: string) => boolean): Typed {
  const match = /^\/([^\s/]*)(?:\s+([\s\S]*))?$/.exec(text.trim());
  if (match === null) return { kind: "message", text };
  const name = match[1] ?? "";
  const known = new Set(names);
  if (known.has(name)) return { kind: "command", name, args: (match[2] ?? "").trim() };
  if (name === "" || isPath(`/${name}`)) return { kind: "message", text };
  return { kind: "unknown", name, nearest: nearestName(name, known) };
}
