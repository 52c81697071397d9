/** The files that define MCP servers: mcp.yaml of the user and the project, and the project's .mcp.json. */

import { join } from "node:path";
import { z } from "zod";
import { SyscallError } from "../../plugin/index.ts";
import { type ConfigSources, refuseEscape, unreadable, workTreeOf } from "../config-sources.ts";
import { digestText, readText } from "../files/file.ts";
import { allNamed, type NamedFiles } from "../files/named-files.ts";
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
