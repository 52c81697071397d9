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
      const request = mcpRequest(name, entry, file.wrong(name), { timeouts, envs, sources });
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

/** A file that defines servers. */
export interface McpFile {
  path: string;
  trusted: boolean;
  /** Whether the checkout has changed a file that the server's command names, since the base revision. */
  changed(name: string): boolean;
  /** Whether this server is trusted, with the files that its command names in the project. */
  trusts(name: string): boolean;
  names: readonly string[];
  /** The files of the project that the server's command names. */
  named(name: string, projectDir: string): NamedFiles;
  /** What the server runs or connects to. */
  target(name: string): string;
  entry(name: string): McpEntry;
  wrong(name: string): Wrong;
}

type Sources = Pick<ConfigSources, "project" | "base" | "configDir" | "trust">;

/** The files that define servers, nearest first, and why others can't be read. */
export async function mcpFiles(sources: Sources): Promise<{ files: McpFile[]; problems: SyscallError[] }> {
  const { project, base, configDir, trust } = sources;
  const own = ownFiles(project);
  const asks = (path: string): boolean =>
    own.includes(path) &&
    (path.endsWith(FOREIGN) ? asksTrust(".mcp.json", FOREIGN_KEY) : asksTrust(".rnix/mcp.yaml", KEY));
  const read = async (path: string): Promise<McpFile | null> => {
    if (own.includes(path)) refuseEscape(path, project);
    const source = readText(path);
    if (source === null) return null;
    // Over the text that was read: the file may have changed since.
    const digest = digestText(source).replace("sha256:", "");
    const trusted = !asks(path) || trust.allows({ files: [{ path, digest }] });
    const servers = await readMcpFile(source, path);
    const named = (name: string): NamedFiles => servers.named(name, workTreeOf(sources));
    const changed = (name: string): boolean => asks(path) && base?.isUnchanged(named(name)) === false;
    const trusts = (name: string): boolean =>
      trusted && (!asks(path) || (!changed(name) && trust.allows({ named: named(name) })));
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
export async function mcpServerNames(sources: Sources): Promise<string[]> {
  const { files, problems } = await mcpFiles(sources);
  // A file that can't be read may define the server that is asked for.
  const [problem] = problems;
  if (problem) throw problem;
  return [...new Set(files.flatMap(({ names }) => names))];
}

/** One server of a file. */
interface McpServerLine {
  name: string;
  file: string;
  /** `unused`: a nearer file has a trusted server of this name. */
  state: "trusted" | "withheld" | "unused" | "malformed";
  target: string;
}

/** All servers that files name. */
export interface McpServerList {
  servers: McpServerLine[];
  /** Why files or servers can't be used. */
  problems: SyscallError[];
}

/** Every server of the user and the project, the nearest file first. Starts none. */
export async function listMcpServers(sources: Sources): Promise<McpServerList> {
  const { files, problems } = await mcpFiles(sources);
  const used = new Set<string>();
  const stateOf = (file: McpFile, name: string): McpServerLine["state"] => {
    try {
      file.entry(name);
    } catch (error) {
      if (!(error instanceof SyscallError)) throw error;
      problems.push(error);
      return "malformed";
    }
    if (!file.trusts(name)) return "withheld";
    if (used.has(name)) return "unused";
    used.add(name);
    return "trusted";
  };
  const servers = files.flatMap((file) =>
    file.names.map((name) => ({
      name,
      file: file.path,
      state: stateOf(file, name),
      target: file.target(name),
    })),
  );
  return { servers, problems };
}

/** What of the project's files with servers needs trust: each as a whole, with the files that its commands name. */
export async function projectMcpFiles({ project }: Pick<ConfigSources, "project">): Promise<TrustRequest[]> {
  const requests: TrustRequest[] = [];
  for (const file of ownFiles(project)) {
    refuseEscape(file, project);
    const source = readText(file);
    if (source === null) continue;
    // None of the servers of a malformed file is ever mounted.
    const read = await readMcpFile(source, file).catch(unreadable);
    requests.push({
      ...{ kind: "mcp", name: file.slice(project.dir.length + 1), file, files: [{ path: file }] },
      what: `MCP servers: ${read?.names.map(read.says).join("; ") || "none that can be read"}`,
      named: allNamed(read?.names.map((name) => read.named(name, project.dir)) ?? []),
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

const servers = () => mapping("server names", z.unknown()).optional();
const OwnFile = z.lazy(() => strict({ servers: servers() }).transform((file) => file.servers ?? {}));
const ForeignFile = z.lazy(() =>
  z.looseObject({ mcpServers: servers() }).transform((file) => file.mcpServers ?? {}),
);

/** Parses both formats as YAML, which includes JSON and reports positions. A broken `.mcp.json` is explained as JSON. */
export async function readMcpFile(
  source: string,
  path: string,
): Promise<Pick<McpFile, "names" | "named" | "target" | "entry" | "wrong"> & { says(name: string): string }> {
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
    target: (name) => targetOfServer(byName[name]),
    wrong,
    entry: (name) => {
      if (!SERVER_NAME.test(name)) {
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
