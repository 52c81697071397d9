/** MCP servers of configuration files, and how they are mounted. */

import { join, resolve } from "node:path";
import { z } from "zod";
import type { MountRequest } from "../kernel/types.ts";
import { findJsonProblem } from "../lib/json-problem.ts";
import { visibleWords } from "../lib/visible.ts";
import { SyscallError } from "../plugin/index.ts";
import { type ConfigSources, refuseEscape, workTreeOf } from "./config-sources.ts";
import { SETTINGS, type SettingValues } from "./defaults.ts";
import { digestText, readText } from "./file.ts";
import { allNamed, filesOfWords, type NamedFiles } from "./named-files.ts";
import type { Env } from "./paths.ts";
import { asksTrust } from "./project-keys.ts";
import { suggestion } from "./suggestion.ts";
import { anyText, choice, flag, list, mapping, number, shown, strict, text } from "./values.ts";
import { parseYaml, type YamlText, yamlError } from "./yaml.ts";

/** A server that an agent names. `wrong` makes an error at that position. */
export interface McpServerRef {
  name: string;
  required: boolean;
  /** The agent's file, if its servers are not trusted. */
  untrusted?: string;
  /** The resumed run had it. If it no longer exists, it is left out with a notice. */
  had?: true;
  wrong(message: string): SyscallError;
}

/** For servers that set no timeouts of their own. */
type McpTimeouts = Pick<SettingValues, "mcp_mount_timeout" | "mcp_request_timeout" | "mcp_wait">;

interface McpMounts {
  mounts: MountRequest[];
  /** What waits for trust, as shown to the user. */
  untrusted: string[];
  /** Shown to the user: which servers are left out, and why. */
  notices: string[];
}

interface McpContext {
  sources: Pick<ConfigSources, "project" | "base" | "configDir" | "trust">;
  /** The environments for `${NAME}`. The first that has the variable counts. */
  envs: readonly Env[];
  timeouts: McpTimeouts;
  /** Servers that already run for the project. */
  services?: readonly string[];
}

/** The mount type, and the name of its plugin. */
export const MCP = "mcp";

/**
 * Makes the mounts of the servers that an agent names, and with `all` of every other one that is trusted. Fails with
 * INVALID, line and column, for a named server that is unknown or malformed, and for a required one that is not trusted
 * or whose variable is not set. What else is wrong is in the notices.
 */
export async function mcpMounts(
  { mcp: references, mcpAll }: { mcp: readonly McpServerRef[]; mcpAll: boolean },
  context: McpContext,
): Promise<McpMounts> {
  const result: McpMounts = { mounts: [], untrusted: [], notices: [] };
  if (references.length === 0 && !mcpAll) return result;
  const { files, problems } = await mcpFiles(context.sources);
  const [problem] = problems;
  // The file may define a server that is named.
  if (problem && references.some(({ had }) => !had)) throw problem;
  result.notices.push(...problems.map(({ message }) => `MCP servers are left out: ${message}`));
  for (const reference of references) {
    const found = findServer(reference, files, context);
    if ("mount" in found) result.mounts.push(found.mount);
    else if (reference.required) throw new SyscallError("INVALID", found.why);
    else result.notices.push(found.why);
  }
  if (mcpAll) offerOthers(references, files, context, result);
  return result;
}

/** Every server that no reference names: one that is wrong keeps no run from beginning. */
function offerOthers(
  references: readonly McpServerRef[],
  files: readonly McpFile[],
  context: McpContext,
  result: McpMounts,
): void {
  const all = new Set([...files.flatMap(({ names }) => names), ...(context.services ?? [])]);
  const waiting = new Map<string, string[]>();
  for (const name of all) {
    if (references.some((reference) => reference.name === name)) continue;
    const wrong = (message: string): SyscallError => new SyscallError("INVALID", message);
    try {
      const found = findServer({ name, required: false, wrong }, files, context);
      if ("mount" in found) result.mounts.push({ ...found.mount, offered: true });
      else if (!found.waits) result.notices.push(found.why);
      else waiting.set(found.waits, [...(waiting.get(found.waits) ?? []), name]);
    } catch (error) {
      if (!(error instanceof SyscallError)) throw error;
      result.notices.push(`The MCP server ${name} is left out: ${error.message}`);
    }
  }
  for (const [what, names] of waiting) {
    result.untrusted.push(
      `the MCP ${names.length === 1 ? "server" : "servers"} ${names.join(", ")} of ${what}`,
    );
  }
}

/** The mount of one server, or why there is none. `waits`: what must be trusted first. */
function findServer(
  { name, required, untrusted, had, wrong }: McpServerRef,
  files: readonly McpFile[],
  { sources, envs, timeouts, services = [] }: McpContext,
): { mount: MountRequest } | { why: string; waits?: string } {
  const naming = files.filter((file) => file.names.includes(name));
  const file = naming.find(({ trusts }) => trusts(name));
  const waitMs = required || had ? undefined : timeouts.mcp_wait;
  if (untrusted !== undefined && (file || services.includes(name))) return leftOut(name, untrusted);
  if (services.includes(name)) return { mount: { type: MCP, name, config: { name }, required, waitMs } };
  if (file) {
    try {
      const entry = outsideCheckout(name, file, sources);
      const request = mcpRequest(name, entry, file.wrong(name), { timeouts, envs });
      return { mount: { ...request, required, waitMs } };
    } catch (thrown) {
      if (thrown instanceof MissingVariable) return { why: thrown.message };
      throw thrown;
    }
  }
  const [withheld] = naming;
  if (withheld?.changed(name)) {
    return { why: `The MCP server ${name} is left out: the checkout changes a file that its command names.` };
  }
  if (withheld) {
    const what = withheld.trusted ? `a file that its command names in ${withheld.path}` : withheld.path;
    return leftOut(name, what);
  }
  if (had)
    return {
      why: `The MCP server ${name}, which the run had, is in no mcp.yaml any more. It continues without the server.`,
    };
  const names = files.flatMap((known) => known.names);
  const where = `.rnix/mcp.yaml, .mcp.json or ~/.config/rnix/mcp.yaml`;
  throw wrong(
    `expected an MCP server of ${where}, got ${JSON.stringify(name)}${names.length === 0 ? "; there is none" : "."}${suggestion(name, names)}`,
  );
}

/**
 * With `--base`, a server that gets variables starts beside the checkout, unless its command names files there. In the
 * checkout, a package manager would read where packages come from, and could find the server itself.
 */
function outsideCheckout(name: string, file: McpFile, sources: McpContext["sources"]): McpEntry {
  const entry = file.entry(name);
  const { env = {}, args = [], cwd } = entry;
  const takes = Object.keys(env).length > 0 || args.some((arg) => arg.includes("${"));
  if (sources.base === undefined || !takes || cwd !== undefined) return entry;
  const stays = file.named(name, workTreeOf(sources)).files.length > 0;
  return stays ? entry : { ...entry, cwd: sources.project.dir };
}

function leftOut(name: string, waits: string): { why: string; waits: string } {
  const why = `The MCP server ${name} is left out: ${waits} is not trusted. Look at it, then run \`rnix trust\`, or give --trust for this run.`;
  return { why, waits };
}

/** The entry of one server in a file. */
export type McpEntry = z.infer<ReturnType<typeof mcpEntry>>;

/** Makes an INVALID error at a part of a server's entry. */
type Wrong = (path: readonly PropertyKey[], message: string) => SyscallError;

/**
 * The mount of a server. `${NAME}` and `${NAME:-default}` in its entry are replaced by variables. Fails with INVALID
 * unless it has either a command or a URL, and with MissingVariable for a variable that is not set.
 */
export function mcpRequest(
  name: string,
  entry: McpEntry,
  wrong: Wrong,
  { timeouts, envs }: Pick<McpContext, "timeouts" | "envs">,
): MountRequest {
  const { command, url, type } = entry;
  const http = type === undefined ? url !== undefined : type !== "stdio";
  if (http ? url === undefined || command !== undefined : command === undefined || url !== undefined) {
    throw wrong([], "expected either a command (stdio) or a url (http)");
  }
  const expand = (value: string, ...path: PropertyKey[]): string =>
    expanded(value, envs, (message) => wrong(path, message));
  const all = (values: Record<string, string> | undefined, field: string): Record<string, string> =>
    Object.fromEntries(Object.entries(values ?? {}).map(([key, value]) => [key, expand(value, field, key)]));
  const how = http
    ? { url: expand(url ?? "", "url"), headers: all(entry.headers, "headers") }
    : {
        command: expand(command ?? "", "command"),
        args: (entry.args ?? []).map((value, index) => expand(value, "args", index)),
        env: all(entry.env, "env"),
        ...(entry.cwd !== undefined && { cwd: expand(entry.cwd, "cwd") }),
      };
  if (http && !/^https?:\/\//.test(how.url ?? "")) throw wrong(["url"], "expected a URL of http or https");
  const mountTimeoutMs = entry.mount_timeout ?? timeouts.mcp_mount_timeout;
  return {
    type: MCP,
    name,
    config: {
      name,
      ...how,
      mountTimeoutMs,
      requestTimeoutMs: entry.request_timeout ?? timeouts.mcp_request_timeout,
      ...(entry.max_output !== undefined && { maxOutputBytes: entry.max_output }),
    },
    // The plugin's own deadline comes first: its message says more.
    timeoutMs: mountTimeoutMs + MARGIN_MS,
    shared: entry.shared,
  };
}

/** How much later the kernel's deadline is than the plugin's own. */
const MARGIN_MS = 1_000;
const Command = z.lazy(() =>
  z.object({
    command: z.string().optional(),
    args: z.array(z.coerce.string()).optional(),
    cwd: z.string().optional(),
    url: z.string().optional(),
    env: z.record(z.string(), z.coerce.string()).optional(),
  }),
);
const KIB = 1024;
const MIB = 1024 * KIB;
const NAME = /^(?!.*__)[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const TYPES = ["stdio", "http", "streamable-http"] as const;

/** The schema of one server, in mcp.yaml and as a service of init.yaml. */
export function mcpEntry() {
  return strict({
    type: choice(TYPES).optional(),
    command: text("a program").optional(),
    args: list("arguments", anyText()).optional(),
    env: mapping("variables", anyText()).optional(),
    cwd: text("a folder").optional(),
    url: text("a URL of http or https").optional(),
    headers: mapping("headers", anyText()).optional(),
    mount_timeout: number(SETTINGS.mcp_mount_timeout).optional(),
    request_timeout: number(SETTINGS.mcp_request_timeout).optional(),
    max_output: number({ measure: "size", min: KIB, max: 64 * MIB }).optional(),
    shared: flag().optional(),
  });
}

/** A file that defines servers. */
interface McpFile {
  path: string;
  trusted: boolean;
  /** Whether the checkout has changed a file that the server's command names, since the base revision. */
  changed(name: string): boolean;
  /** Whether this server is trusted, with the files that its command names in the project. */
  trusts(name: string): boolean;
  names: readonly string[];
  /** The files of the project that the server's command names. */
  named(name: string, projectDir: string): NamedFiles;
  entry(name: string): McpEntry;
  wrong(name: string): Wrong;
}

/** The files that define servers, nearest first, and why others can't be read. */
async function mcpFiles(
  sources: McpContext["sources"],
): Promise<{ files: McpFile[]; problems: SyscallError[] }> {
  const { project, base, configDir, trust } = sources;
  const own = project.kind === "none" ? [] : [join(project.dir, ".rnix", FILE), join(project.dir, FOREIGN)];
  const asks = (path: string): boolean =>
    own.includes(path) &&
    (path.endsWith(FOREIGN) ? asksTrust(".mcp.json", FOREIGN_KEY) : asksTrust(".rnix/mcp.yaml", KEY));
  const read = async (path: string): Promise<McpFile | null> => {
    if (own.includes(path)) refuseEscape(path, project);
    const source = readText(path);
    if (source === null) return null;
    // Over the text that was read: the file may have changed since.
    const digest = digestText(source).replace("sha256:", "");
    const trusted = !asks(path) || trust.allowsContent([{ path, digest }]);
    const servers = await serversOf(source, path);
    const named = (name: string): NamedFiles => servers.named(name, workTreeOf(sources));
    const changed = (name: string): boolean => asks(path) && base?.isUnchanged(named(name)) === false;
    const trusts = (name: string): boolean =>
      trusted && (!asks(path) || (!changed(name) && trust.allowsNamed(named(name))));
    return { path, trusted, changed, trusts, ...servers };
  };
  const files: McpFile[] = [];
  const problems: SyscallError[] = [];
  for (const path of [...own, join(configDir, FILE)]) {
    try {
      const file = await read(path);
      if (file) files.push(file);
    } catch (error) {
      if (!(error instanceof SyscallError)) throw error;
      problems.push(error);
    }
  }
  return { files, problems };
}

/** The names of all servers of the user and the project, trusted or not. */
export async function mcpServerNames(sources: McpContext["sources"]): Promise<string[]> {
  const { files, problems } = await mcpFiles(sources);
  // A file that can't be read may define the server that is asked for.
  const [problem] = problems;
  if (problem) throw problem;
  return [...new Set(files.flatMap(({ names }) => names))];
}

/** Each file of the project that defines servers, with the files that their commands name. */
export async function projectMcpFiles({
  project,
}: Pick<ConfigSources, "project">): Promise<{ path: string; named: NamedFiles; says: string[] }[]> {
  const paths = project.kind === "none" ? [] : [join(project.dir, ".rnix", FILE), join(project.dir, FOREIGN)];
  const files: { path: string; named: NamedFiles; says: string[] }[] = [];
  for (const path of paths) {
    refuseEscape(path, project);
    const source = readText(path);
    if (source === null) continue;
    files.push({ path, ...(await readIn(source, path, project.dir)) });
  }
  return files;
}

/** Empty for a malformed file: none of its servers is ever mounted. */
async function readIn(
  source: string,
  path: string,
  projectDir: string,
): Promise<{ named: NamedFiles; says: string[] }> {
  try {
    const { names, named, says } = await serversOf(source, path);
    return { named: allNamed(names.map((name) => named(name, projectDir))), says: names.map(says) };
  } catch (error) {
    if (error instanceof SyscallError) return { named: allNamed([]), says: [] };
    throw error;
  }
}

/** What a server runs or connects to, as shown to the user. `entry`: as written in the file. */
export function saidServer(name: string, entry: unknown): string {
  const { success, data } = Command.safeParse(entry);
  if (!success) return `${name} can't be read`;
  const { command, args = [], url, env = {} } = data;
  if (command === undefined) return `${name} is at ${url ?? "no address"}`;
  const set = Object.entries(env).map(([key, value]) => `${key}=${value}`);
  return `${name} runs ${visibleWords([...set, command, ...args])}`;
}

/** The files that an entry's command names. Empty for a malformed entry, which is never mounted. */
export function filesOfServer(entry: unknown, projectDir: string): NamedFiles {
  const { success, data } = Command.safeParse(entry);
  if (!success) return allNamed([]);
  const base = resolve(projectDir, data.cwd ?? ".");
  return filesOfWords([data.command ?? "", ...(data.args ?? [])], base, projectDir);
}

const FILE = "mcp.yaml";
/** The schema of `.mcp.json`. Other programs have keys of their own in it, so unknown keys are ignored. */
const FOREIGN = ".mcp.json";
const KEY = "servers";
const FOREIGN_KEY = "mcpServers";

const servers = () => mapping("server names", z.unknown()).optional();
const OwnFile = z.lazy(() => strict({ servers: servers() }).transform((file) => file.servers ?? {}));
const ForeignFile = z.lazy(() =>
  z.looseObject({ mcpServers: servers() }).transform((file) => file.mcpServers ?? {}),
);

/** Parses both formats as YAML, which includes JSON and reports positions. A broken `.mcp.json` is explained as JSON. */
async function serversOf(
  source: string,
  path: string,
): Promise<Pick<McpFile, "names" | "named" | "entry" | "wrong"> & { says(name: string): string }> {
  const foreign = path.endsWith(FOREIGN);
  const key = foreign ? FOREIGN_KEY : KEY;
  const { value: byName, text: yaml } = foreign
    ? await explainedAsJson(source, path, () => parseYaml(ForeignFile, source, path))
    : await parseYaml(OwnFile, source, path);
  const wrong = (name: string): Wrong => {
    return (at, message) => yamlError(yaml, [key, name, ...at], message);
  };
  return {
    names: Object.keys(byName),
    named: (name, projectDir) => filesOfServer(byName[name], projectDir),
    says: (name) => saidServer(name, byName[name]),
    wrong,
    entry: (name) => {
      if (!NAME.test(name)) {
        throw yamlError(
          yaml,
          [key, name],
          `expected a name of at most 64 letters, digits, ".", "_" and "-", without "__", got ${shown(name)}`,
          "key",
        );
      }
      const parsed = mcpEntry().safeParse(foreign ? known(byName[name]) : byName[name]);
      if (parsed.success) return parsed.data;
      throw issueError(yaml, [key, name], parsed.error.issues[0]);
    },
  };
}

async function explainedAsJson<T>(source: string, path: string, parse: () => Promise<T>): Promise<T> {
  try {
    return await parse();
  } catch (error) {
    const problem = error instanceof SyscallError ? findJsonProblem(source) : null;
    if (!problem) throw error;
    const { line, column, message } = problem;
    throw new SyscallError("INVALID", `${path}:${line}:${column}: expected JSON: ${message}`, {
      cause: error,
    });
  }
}

function issueError(
  yaml: YamlText,
  at: readonly PropertyKey[],
  issue: z.core.$ZodIssue | undefined,
): SyscallError {
  const { path = [], message = "expected a server" } = issue ?? {};
  if (issue?.code !== "unrecognized_keys") return yamlError(yaml, [...at, ...path], message);
  return yamlError(yaml, [...at, ...path, issue.keys[0] ?? ""], message, "key");
}

/** The known keys of an entry that may be written for another program. */
function known(entry: unknown): unknown {
  if (typeof entry !== "object" || entry === null || Array.isArray(entry)) return entry;
  const keys = Object.keys(mcpEntry().shape);
  return Object.fromEntries(Object.entries(entry).filter(([key]) => keys.includes(key)));
}

/** An INVALID error for which an optional server is left out. */
class MissingVariable extends SyscallError {}

const VARIABLE = /\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g;

function expanded(value: string, envs: readonly Env[], wrong: (message: string) => SyscallError): string {
  return value.replaceAll(VARIABLE, (_whole, name: string, otherwise: string | undefined) => {
    const set = envs.map((env) => env[name]).find((text) => text !== undefined && text !== "");
    if (set !== undefined) return set;
    if (otherwise !== undefined) return otherwise;
    const { code, message } = wrong(
      `the variable ${name} is not set; set it, or write \${${name}:-} for nothing`,
    );
    throw new MissingVariable(code, message);
  });
}
