/** Reads init.yaml: the services and supervisors that start with the daemon. */

import { isAbsolute, join, resolve } from "node:path";
import { z } from "zod";
import { namesWith } from "../options/option-list.ts";
import { SETTINGS } from "../options/settings.ts";
import type { SyscallError } from "../plugin/index.ts";
import { allNamed, filesOfLine, filesOfWords, type NamedFiles } from "./files/named-files.ts";
import {
  anyText,
  choice,
  commandLine,
  expecting,
  flag,
  list,
  mapping,
  number,
  optionKeys,
  optionsIn,
  shown,
  strict,
  text,
  texts,
  variable,
} from "./files/values.ts";
import { type Checked, readYaml, type YamlText, yamlError } from "./files/yaml.ts";
import { filesOfServer, mcpEntry, SERVER_NAME } from "./mcp/mcp-entry.ts";
import type { Project } from "./project/project.ts";

/** The content of an init.yaml: the services and supervisors that start with the daemon, in order. */
export interface InitFile {
  file: string;
  services: InitService[];
  supervisors: InitSupervisor[];
}

/** A program that is kept running. Absent numbers come from the settings. */
export type CommandService = z.infer<ReturnType<typeof CommandService>>;

/** An MCP server that all runs of the project, or of the user, share. */
export interface McpService extends z.infer<ReturnType<typeof McpService>> {
  /** An INVALID error at a part of its config. */
  wrong(path: readonly PropertyKey[], message: string): SyscallError;
}

type InitService = CommandService | McpService;

/** A supervisor with the agents that it keeps running. */
export interface InitSupervisor extends z.infer<ReturnType<typeof Supervisor>> {
  /** Absolute. Required in the user's file, not allowed in a project's. */
  project?: string;
}

export type InitChild = z.infer<ReturnType<typeof Child>>;

/** The path of the project's init.yaml, which needs trust. null without a project. */
export function projectInitFile({ dir, kind }: Project): string | null {
  return kind === "none" ? null : join(dir, ".rnix", FILE);
}

/** Loads the user's init.yaml. `home`: the value of `~`. null when there is none. INVALID names file, line and column. */
export async function loadUserInit(configDir: string, home: string): Promise<InitFile | null> {
  const read = await readYaml(UserFile, join(configDir, FILE));
  if (!read) return null;
  const supervisors = read.value.supervisors.map((supervisor, index) => ({
    ...supervisor,
    project: projectOf(supervisor.project, home, read.text, ["supervisors", index, "project"]),
  }));
  return { ...contentOf(read), supervisors };
}

/** Loads the project's init.yaml; null when there is none. INVALID names file, line and column. */
export async function loadProjectInit(file: string): Promise<InitFile | null> {
  const read = await readYaml(ProjectFile, file);
  return read && contentOf(read);
}

/** The files of the project that the commands of its services name. */
export function filesOfInit({ services }: InitFile, dir: string): NamedFiles {
  return allNamed(
    services.map(({ type, config }) => {
      if (type === "mcp") return filesOfServer(config, dir);
      const base = resolve(dir, config.cwd ?? ".");
      const [program, option, line] = config.argv;
      return program === "/bin/sh" && option === "-c" && line !== undefined
        ? filesOfLine(line, base, dir)
        : filesOfWords(config.argv, base, dir);
    }),
  );
}

const FILE = "init.yaml";

const name = (what: string) =>
  text(what).regex(SERVER_NAME, {
    error: ({ input }) =>
      `expected ${what} of at most 64 letters, digits, ".", "_" and "-", without "__", got ${shown(input)}`,
  });

const required = () => flag().default(false);

const restart = () => choice(["permanent", "transient", "temporary"]).default("permanent");

/** How often something may be restarted. */
const restarts = () => ({
  max_restarts: number(SETTINGS.supervisor_restarts).optional(),
  period: number(SETTINGS.supervisor_window).optional(),
});

const renamed = <S extends { max_restarts?: number; period?: number }>(written: S) => {
  const { max_restarts: maxRestarts, period: periodMs, ...same } = written;
  return { ...same, maxRestarts, periodMs };
};

const shutdown = () =>
  z
    .union(
      [z.literal("brutal_kill"), number({ measure: "duration" })],
      expecting("a duration of at least 1ms, or brutal_kill"),
    )
    .optional();

/** A text is a command line for the shell, as in an agent's checks. A list is a program and its arguments. */
const command = () =>
  z.union(
    [
      commandLine("a command line").transform((line) => ["/bin/sh", "-c", line]),
      texts().min(1, { error: "expected a program and its arguments, got an empty list" }),
    ],
    expecting("a command line, or a list of a program and its arguments"),
  );

const service = () => ({ name: name("the service's name"), required: required() });

const CommandService = () =>
  strict({
    ...service(),
    type: z.literal("command"),
    config: strict({
      command: command(),
      cwd: text("a folder").optional(),
      env: mapping("variables", anyText(), variable()).default({}),
      restart: restart(),
      ...restarts(),
      shutdown: shutdown(),
    }).transform(({ command: argv, ...same }) => ({ ...renamed(same), argv })),
  });

const McpService = () => strict({ ...service(), type: z.literal("mcp"), config: mcpEntry() });

const TYPES = ["command", "mcp"];

const Service = () =>
  z.discriminatedUnion("type", [CommandService(), McpService()], {
    error: ({ input }) =>
      typeof input === "object" && input !== null && !Array.isArray(input)
        ? `expected one of ${TYPES.join(", ")}, got ${shown(Reflect.get(input, "type"))}`
        : `expected a mapping of name, type, required, config, got ${shown(input)}`,
  });

const Child = () =>
  strict({
    id: name("the child's id"),
    intent: text("what the agent is to do"),
    restart: restart(),
    shutdown: shutdown(),
    ...optionKeys(CHILD_OPTIONS),
  }).transform(({ id, intent, restart, shutdown, ...options }) => ({
    id,
    intent,
    restart,
    shutdown,
    options: optionsIn(options, CHILD_OPTIONS),
  }));

/** The run options of a supervisor's child. */
const CHILD_OPTIONS = namesWith({ init: true });

const supervisor = () => ({
  name: name("the supervisor's name"),
  strategy: choice(["one_for_one", "one_for_all", "rest_for_one"]).default("one_for_one"),
  ...restarts(),
  required: required(),
  children: list("children", Child()).min(1, { error: "expected at least one child" }),
});

const Supervisor = () => strict(supervisor()).transform(renamed);

/** A list of services or supervisors, in the order of the file. */
const file = <S extends z.ZodType>(supervisors: S) =>
  strict({
    services: list("services", Service()).default([]),
    supervisors: list("supervisors", supervisors).default([]),
  });

const UserFile = z.lazy(() => {
  const project = text("the folder of the project that its agents work in");
  return file(strict({ ...supervisor(), project }).transform(renamed));
});
export const ProjectFile = z.lazy(() => file(Supervisor()));

/** What both files have, once their names and ids are unique: these identify what runs. */
function contentOf({ value, text }: Checked<typeof ProjectFile | typeof UserFile>): InitFile {
  requireNames(value, text);
  const services = value.services.map((written, index): InitService => {
    if (written.type === "command") return written;
    const wrong: McpService["wrong"] = (path, message) =>
      yamlError(text, ["services", index, "config", ...path], message);
    return { ...written, wrong };
  });
  return { file: text.file, services, supervisors: value.supervisors };
}

function requireNames({ services, supervisors }: z.infer<typeof ProjectFile>, yaml: YamlText): void {
  const seen = new Set<string>();
  const once = (path: PropertyKey[], key: "name" | "id", value: string, known: Set<string>): void => {
    if (known.has(value)) {
      throw yamlError(yaml, [...path, key], `expected another ${key}: "${value}" is taken`);
    }
    known.add(value);
  };
  for (const [index, service] of services.entries()) once(["services", index], "name", service.name, seen);
  for (const [index, { name, children }] of supervisors.entries()) {
    once(["supervisors", index], "name", name, seen);
    const ids = new Set<string>();
    for (const [at, { id }] of children.entries()) {
      once(["supervisors", index, "children", at], "id", id, ids);
    }
  }
}

function projectOf(written: string, home: string, yaml: YamlText, path: readonly PropertyKey[]): string {
  const dir = written === "~" || written.startsWith("~/") ? join(home, written.slice(1)) : written;
  if (isAbsolute(dir)) return dir;
  throw yamlError(yaml, path, `expected an absolute path, or one that begins with ~/, got ${shown(written)}`);
}
