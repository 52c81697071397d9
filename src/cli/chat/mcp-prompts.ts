/** The prompts of MCP servers as commands of a conversation: `/SERVER:PROMPT arguments`. */

import { z } from "zod";
import { SyscallError } from "../../plugin/index.ts";
import { usageError } from "../exit.ts";
import { environment, type Io, project } from "../io.ts";
import { oneLine } from "../output/format.ts";
import type { CompletableCommand } from "../terminal/completion.ts";
import type { Link } from "./link.ts";
import { wordsOf } from "./prompt-commands.ts";

const ABOUT_WIDTH = 200;

const Prompts = z.array(
  z.object({
    name: z.string(),
    description: z.string().default(""),
    arguments: z.array(z.object({ name: z.string(), required: z.boolean().default(false) })).default([]),
  }),
);
type Prompt = z.infer<typeof Prompts>[number];

interface McpPromptsParts {
  io: Io;
  link: Link;
  /** Trusts what the project brings, as the conversation does. */
  trust: boolean | undefined;
}

/** A server is started when its prompts are asked for, and stays for the runs. */
export class McpPrompts {
  readonly #p: McpPromptsParts;
  #servers: CompletableCommand[] = [];
  #reading: Promise<void> | null = null;

  constructor(parts: McpPromptsParts) {
    this.#p = parts;
  }

  /** A command `SERVER:` for each trusted server, whose values are its prompts. Known after the first call. */
  get commands(): readonly CompletableCommand[] {
    // A file that can't be read offers nothing here: `rnix mcp list` explains it.
    this.#reading ??= this.#read().finally(() => {
      this.#reading = null;
    });
    this.#reading.catch(() => undefined);
    return this.#servers;
  }

  /** The text of a prompt, filled by its server. */
  async text(command: string, args: string): Promise<string> {
    const at = command.indexOf(":");
    const [server, name] = [command.slice(0, at), command.slice(at + 1)];
    const prompts = await this.#prompts(server);
    const prompt = prompts.find((one) => one.name === name);
    if (prompt === undefined) {
      const names = prompts.map((one) => `/${server}:${one.name}`).join(", ");
      throw new SyscallError("NOT_FOUND", `there is no /${command}; ${server} has ${names || "no prompts"}`);
    }
    const segment = name.replaceAll(/[^A-Za-z0-9._-]/g, "_");
    return this.#call(`/mnt/mcp/${server}/prompts/${segment}`, argumentsOf(prompt, command, args));
  }

  async #read(): Promise<void> {
    const { io } = this.#p;
    const { mcpServers } = await import("../../server/offline-commands.ts");
    const { servers } = await mcpServers({ cwd: io.cwd, env: environment(io) });
    this.#servers = servers
      .filter(({ state }) => state === "trusted")
      .map(({ name }) => ({
        name: `${name}:`,
        about: "prompts of this MCP server",
        values: async () => (await this.#prompts(name)).flatMap(suggestion),
      }));
  }

  async #prompts(server: string): Promise<Prompt[]> {
    const path = `/mnt/mcp/${server}`;
    const has = z.array(z.string()).parse(JSON.parse(await this.#call(path)));
    return has.includes("prompts") ? Prompts.parse(JSON.parse(await this.#call(`${path}/prompts`))) : [];
  }

  async #call(path: string, input?: Record<string, string>): Promise<string> {
    const { io, link, trust } = this.#p;
    // The server has its own time limits.
    const made = await link.request("call", { ...project(io), path, input, trust }, { timeoutMs: null });
    if (made.error !== null) throw new SyscallError(made.error_code ?? "INTERNAL", made.error);
    return made.result ?? "";
  }
}

/** Nothing for a name that can't be typed: the server may have written anything. */
function suggestion(prompt: Prompt): { value: string; about: string }[] {
  const isTypeable = /^[^\s\p{C}]+$/u.test(prompt.name);
  return isTypeable ? [{ value: prompt.name, about: oneLine(about(prompt), ABOUT_WIDTH) }] : [];
}

/** Such as `<path> [style]: Reviews a file`. */
function about({ arguments: parts, description }: Prompt): string {
  const words = parts.map(({ name, required }) => (required ? `<${name}>` : `[${name}]`)).join(" ");
  return [words, description].filter(Boolean).join(": ");
}

/** `name=value` sets that argument; other words fill the rest in order, and the last one gets all that are left. */
function argumentsOf(prompt: Prompt, command: string, text: string): Record<string, string> {
  const args: Record<string, string> = {};
  const rest: string[] = [];
  for (const word of wordsOf(text)) {
    const [, name = "", value = ""] = /^([^=]+)=(.*)$/s.exec(word) ?? [];
    if (prompt.arguments.some((one) => one.name === name)) args[name] = value;
    else rest.push(word);
  }
  const open = prompt.arguments.filter(({ name }) => args[name] === undefined);
  for (const [index, { name }] of open.entries()) {
    const value = index === open.length - 1 ? rest.splice(0).join(" ") : rest.shift();
    if (value) args[name] = value;
  }
  const usage = `/${command} ${about({ ...prompt, description: "" })}`.trimEnd();
  if (rest.length > 0) throw usageError(`${usage}: it takes no ${rest.join(" ")}`);
  const missing = prompt.arguments.filter(({ name, required }) => required && args[name] === undefined);
  if (missing.length === 0) return args;
  throw usageError(`${usage}: expected ${missing.map(({ name }) => name).join(", ")}`);
}
