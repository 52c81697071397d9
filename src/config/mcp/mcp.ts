/** The MCP servers of configuration files: where they are defined, and how they are mounted. */

import { join } from "node:path";
import { z } from "zod";
import type { MountRequest } from "../../options/definitions.ts";
import type { SettingValues } from "../../options/settings.ts";
import { SyscallError } from "../../plugin/index.ts";
import { type ConfigSources, refuseEscape, unreadable, workTreeOf } from "../config-sources.ts";
import type { Env } from "../environment/paths.ts";
import { digestText, readText } from "../files/file.ts";
import { allNamed, type NamedFiles } from "../files/named-files.ts";
import { suggestion } from "../files/suggestion.ts";
import { mapping, shown, strict } from "../files/values.ts";
import { parseYaml, type YamlText, yamlError } from "../files/yaml.ts";
import type { Project } from "../project/project.ts";
import { asksTrust } from "../trust/project-keys.ts";
import type { TrustRequest } from "../trust/trust.ts";
import {
  filesOfServer,
  type McpEntry,
  mcpEntry,
  SERVER_NAME,
  saidServer,
  targetOfServer,
  type Wrong,
} from "./mcp-entry.ts";

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
  const { servers, problems } = await knownServers(context.sources);
  const [problem] = problems;
  // The file may define a server that is named.
  if (problem && references.some(({ had }) => !had)) throw problem;
  result.notices.push(...problems.map(({ message }) => `MCP servers are left out: ${message}`));
  for (const reference of references) {
    const found = findServer(reference, servers, context);
    if ("mount" in found) result.mounts.push(found.mount);
    else if (reference.required) throw new SyscallError("INVALID", found.why);
    else result.notices.push(found.why);
  }
  if (mcpAll) offerOthers(references, servers, context, result);
  return result;
}

/** Every server that no reference names: one that is wrong keeps no run from beginning. */
function offerOthers(
  references: readonly McpServerRef[],
  servers: readonly KnownServer[],
  context: McpContext,
  result: McpMounts,
): void {
  const all = new Set([...servers.map(({ name }) => name), ...(context.services ?? [])]);
  const waiting = new Map<string, string[]>();
  for (const name of all) {
    if (references.some((reference) => reference.name === name)) continue;
    const wrong = (message: string): SyscallError => new SyscallError("INVALID", message);
    try {
      const found = findServer({ name, required: false, wrong }, servers, context);
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
  all: readonly KnownServer[],
  { sources, envs, timeouts, services = [] }: McpContext,
): { mount: MountRequest } | { why: string; waits?: string } {
  const named = all.filter((one) => one.name === name);
  const server = named.find((one) => one.isTrusted());
  const waitMs = required || had ? undefined : timeouts.mcp_wait;
  if (untrusted !== undefined && (server || services.includes(name))) return leftOut(name, untrusted);
  if (services.includes(name)) return { mount: { type: MCP, name, config: { name }, required, waitMs } };
  if (server) {
    try {
      const entry = outsideCheckout(server, sources);
      const request = mcpRequest(name, entry, server.wrong, { timeouts, envs, sources });
      return { mount: { ...request, required, waitMs } };
    } catch (thrown) {
      if (thrown instanceof MissingVariable) return { why: thrown.message };
      throw thrown;
    }
  }
  const [withheld] = named;
  if (withheld?.isChanged()) {
    return { why: `The MCP server ${name} is left out: the checkout changes a file that its command names.` };
  }
  if (withheld) {
    const { path, isFileTrusted } = withheld;
    return leftOut(name, isFileTrusted ? `a file that its command names in ${path}` : path);
  }
  if (had)
    return {
      why: `The MCP server ${name}, which the run had, is in no mcp.yaml any more. It continues without the server.`,
    };
  const names = all.map((one) => one.name);
  const where = `.rnix/mcp.yaml, .mcp.json or ~/.config/rnix/mcp.yaml`;
  throw wrong(
    `expected an MCP server of ${where}, got ${JSON.stringify(name)}${names.length === 0 ? "; there is none" : "."}${suggestion(name, names)}`,
  );
}

/**
 * With `--base`, a server that gets variables starts beside the checkout, unless its command names files there. In the
 * checkout, a package manager would read where packages come from, and could find the server itself.
 */
function outsideCheckout(server: KnownServer, sources: McpContext["sources"]): McpEntry {
  const entry = server.entry();
  const { env = {}, args = [], cwd } = entry;
  const takes = Object.keys(env).length > 0 || args.some((arg) => arg.includes("${"));
  if (sources.base === undefined || !takes || cwd !== undefined) return entry;
  const stays = filesOfServer(server.written, workTreeOf(sources)).files.length > 0;
  return stays ? entry : { ...entry, cwd: sources.project.dir };
}

function leftOut(name: string, waits: string): { why: string; waits: string } {
  const why = `The MCP server ${name} is left out: ${waits} is not trusted. Look at it, then run \`rnix trust\`, or give --trust for this run.`;
  return { why, waits };
}

/**
 * The mount of a server. `${NAME}` and `${NAME:-default}` in its entry are replaced by variables. Fails with INVALID
 * unless it has either a command or a URL, and with MissingVariable for a variable that is not set.
 */
export function mcpRequest(
  name: string,
  entry: McpEntry,
  wrong: Wrong,
  {
    timeouts,
    envs,
    sources,
  }: Pick<McpContext, "timeouts" | "envs"> & { sources: Pick<ConfigSources, "configDir"> },
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
    ? atAddress(expand(url ?? "", "url"), all(entry.headers, "headers"), sources)
    : {
        command: expand(command ?? "", "command"),
        args: (entry.args ?? []).map((value, index) => expand(value, "args", index)),
        env: all(entry.env, "env"),
        ...(entry.cwd !== undefined && { cwd: expand(entry.cwd, "cwd") }),
      };
  if ("url" in how && !/^https?:\/\//.test(how.url)) throw wrong(["url"], "expected a URL of http or https");
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
      ...(entry.elicitation !== undefined && { elicitation: entry.elicitation }),
      ...(entry.sampling !== undefined && { sampling: entry.sampling }),
    },
    // The plugin's own deadline comes first: its message says more.
    timeoutMs: mountTimeoutMs + MARGIN_MS,
    shared: entry.shared,
    ...(entry.sandbox && { sandbox: entry.sandbox }),
  };
}

/** A server without a key in its headers may have tokens of a login. */
function atAddress(
  url: string,
  headers: Record<string, string>,
  { configDir }: Pick<ConfigSources, "configDir">,
) {
  const hasKey = Object.keys(headers).some((name) => name.toLowerCase() === "authorization");
  return { url, headers, ...(!hasKey && { tokens: tokenFile(configDir, url) }) };
}

/** The keys in the headers of these mounts: whole values, and what follows a scheme such as `Bearer`. */
export function headerKeys(mounts: readonly MountRequest[]): string[] {
  return mounts.flatMap(({ config }) => {
    const headers: unknown = Reflect.get(config, "headers");
    if (typeof headers !== "object" || headers === null) return [];
    const values = Object.entries(headers).filter(([name]) => /auth|key|token|secret|cookie/i.test(name));
    return values.map(([, value]) => String(value).replace(/^(?:bearer|basic|token) +/i, ""));
  });
}

/** The file with the OAuth tokens for this URL. */
export function tokenFile(configDir: string, url: string): string {
  return join(configDir, "mcp-tokens", `${Bun.CryptoHasher.hash("sha256", url, "hex").slice(0, 32)}.json`);
}

/** How much later the kernel's deadline is than the plugin's own. */
const MARGIN_MS = 1_000;

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

/** A server as a file has it. */
interface WrittenServer {
  name: string;
  written: unknown;
  wrong: Wrong;
  /** Fails with INVALID for a name or an entry that is malformed. */
  entry(): McpEntry;
}

/** The same of a file of the user or the project. */
interface KnownServer extends WrittenServer {
  path: string;
  isFileTrusted: boolean;
  /** Whether the checkout has changed a file that the server's command names, since the base revision. */
  isChanged(): boolean;
  /** Whether it is trusted, with the files that its command names in the project. */
  isTrusted(): boolean;
}

type Sources = Pick<ConfigSources, "project" | "base" | "configDir" | "trust">;

/** The servers of all files, the nearest first, and why other files can't be read. */
async function knownServers(sources: Sources): Promise<{ servers: KnownServer[]; problems: SyscallError[] }> {
  const { project, base, configDir, trust } = sources;
  const own = ownFiles(project);
  const read = async (path: string): Promise<KnownServer[]> => {
    const isOwn = own.includes(path);
    if (isOwn) refuseEscape(path, project);
    const source = readText(path);
    if (source === null) return [];
    const asks =
      isOwn &&
      (path.endsWith(FOREIGN) ? asksTrust(".mcp.json", FOREIGN_KEY) : asksTrust(".rnix/mcp.yaml", KEY));
    // Over the text that was read: the file may have changed since.
    const digest = digestText(source).replace("sha256:", "");
    const isFileTrusted = !asks || trust.allows({ files: [{ path, digest }] });
    return (await readMcpFile(source, path)).map((server) => {
      const named = (): NamedFiles => filesOfServer(server.written, workTreeOf(sources));
      const isChanged = (): boolean => asks && base?.isUnchanged(named()) === false;
      const isTrusted = (): boolean =>
        isFileTrusted && (!asks || (!isChanged() && trust.allows({ named: named() })));
      return { ...server, path, isFileTrusted, isChanged, isTrusted };
    });
  };
  const servers: KnownServer[] = [];
  const problems: SyscallError[] = [];
  for (const path of [...own, join(configDir, FILE)]) {
    try {
      servers.push(...(await read(path)));
    } catch (error) {
      if (!(error instanceof SyscallError)) throw error;
      problems.push(error);
    }
  }
  return { servers, problems };
}

/** The names of all servers of the user and the project, trusted or not. */
export async function mcpServerNames(sources: Sources): Promise<string[]> {
  const { servers, problems } = await knownServers(sources);
  // A file that can't be read may define the server that is asked for.
  const [problem] = problems;
  if (problem) throw problem;
  return [...new Set(servers.map(({ name }) => name))];
}

/** All servers that files name. */
export interface McpServerList {
  servers: {
    name: string;
    file: string;
    /** `unused`: a nearer file has a trusted server of this name. */
    state: "trusted" | "withheld" | "unused" | "malformed";
    target: string;
  }[];
  /** Why files or servers can't be used. */
  problems: SyscallError[];
}

/** Every server of the user and the project, the nearest file first. Starts none. */
export async function listMcpServers(sources: Sources): Promise<McpServerList> {
  const { servers, problems } = await knownServers(sources);
  const used = new Set<string>();
  const stateOf = ({ name, entry, isTrusted }: KnownServer) => {
    try {
      entry();
    } catch (error) {
      if (!(error instanceof SyscallError)) throw error;
      problems.push(error);
      return "malformed";
    }
    if (!isTrusted()) return "withheld";
    if (used.has(name)) return "unused";
    used.add(name);
    return "trusted";
  };
  return {
    servers: servers.map((server) => ({
      name: server.name,
      file: server.path,
      state: stateOf(server),
      target: targetOfServer(server.written),
    })),
    problems,
  };
}

/** What of the project's files with servers needs trust: each as a whole, with the files that its commands name. */
export async function projectMcpFiles({ project }: Pick<ConfigSources, "project">): Promise<TrustRequest[]> {
  const requests: TrustRequest[] = [];
  for (const file of ownFiles(project)) {
    refuseEscape(file, project);
    const source = readText(file);
    if (source === null) continue;
    // None of the servers of a malformed file is ever mounted.
    const servers = (await readMcpFile(source, file).catch(unreadable)) ?? [];
    const says = servers.map(({ name, written }) => saidServer(name, written)).join("; ");
    requests.push({
      kind: "mcp",
      name: file.slice(project.dir.length + 1),
      file,
      files: [{ path: file }],
      what: `MCP servers: ${says || "none that can be read"}`,
      named: allNamed(servers.map(({ written }) => filesOfServer(written, project.dir))),
    });
  }
  return requests;
}

function ownFiles({ dir, kind }: Project): string[] {
  return kind === "none" ? [] : [join(dir, ".rnix", FILE), join(dir, FOREIGN)];
}

/** The name of the file, in the user's and the project's folder of configuration. */
export const FILE = "mcp.yaml";
/** The schema of `.mcp.json`. Other programs have keys of their own in it, so unknown keys are ignored. */
const FOREIGN = ".mcp.json";
/** The key below which our own file has its servers. */
export const KEY = "servers";
const FOREIGN_KEY = "mcpServers";

const servers = () => mapping("server names", z.unknown()).default({});
const OwnFile = z.lazy(() => strict({ servers: servers() }).transform((file) => file.servers));
const ForeignFile = z.lazy(() =>
  z.looseObject({ mcpServers: servers() }).transform((file) => file.mcpServers),
);

/** Parses both formats as YAML, which includes JSON and reports positions. A broken `.mcp.json` is explained as JSON. */
export async function readMcpFile(source: string, path: string): Promise<WrittenServer[]> {
  const foreign = path.endsWith(FOREIGN);
  const { value: byName, text: yaml } = foreign
    ? await explainedAsJson(source, path, () => parseYaml(ForeignFile, source, path))
    : await parseYaml(OwnFile, source, path);
  return Object.entries(byName).map(([name, written]) => {
    const at = [foreign ? FOREIGN_KEY : KEY, name];
    return {
      name,
      written,
      wrong: (path, message) => yamlError(yaml, [...at, ...path], message),
      entry() {
        if (!SERVER_NAME.test(name)) {
          const wanted = 'a name of at most 64 letters, digits, ".", "_" and "-", without "__"';
          throw yamlError(yaml, at, `expected ${wanted}, got ${shown(name)}`, "key");
        }
        const parsed = mcpEntry().safeParse(foreign ? known(written) : written);
        if (parsed.success) return parsed.data;
        throw issueError(yaml, at, parsed.error.issues[0]);
      },
    };
  });
}

async function explainedAsJson<T>(source: string, path: string, parse: () => Promise<T>): Promise<T> {
  try {
    return await parse();
  } catch (error) {
    if (!(error instanceof SyscallError)) throw error;
    const { findJsonProblem } = await import("../../lib/json-problem.ts");
    const problem = findJsonProblem(source);
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
