/** The operations that are written to /dev/lsp. */

import { realpath } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { type LSPMeta, type OpenContext, SyscallError } from "rnix/plugin";
import type {
  CallHierarchyIncomingCall,
  CallHierarchyItem,
  CallHierarchyOutgoingCall,
  DocumentSymbol,
  Hover,
  Location,
  LocationLink,
  SymbolInformation,
} from "vscode-languageserver-protocol";
import { z } from "zod";
import { AnswerFile } from "../_lib/answer-file.ts";
import { checkedInput } from "../_lib/checked-input.ts";
import { jsonObject } from "../_lib/json.ts";
import type { LanguageServer } from "./language-server.ts";
import { ResultText } from "./result-text.ts";
import { MAX_FAILURES, ServerPool } from "./server-pool.ts";
import { isServed, rootOf, ServerSettings, serverOf } from "./servers.ts";
import { LSP, type Operation } from "./tools.ts";

/** Of all runs of this daemon. */
const pool = new ServerPool(() => performance.now());

const Settings = z.object({ servers: ServerSettings.optional() });

interface Request {
  operation: Operation;
  file: string;
  line?: number;
  character?: number;
  symbol?: string;
  query?: string;
}

/** Opens /dev/lsp, which answers `{"op": "lsp", "operation": …}`. */
export function openLsp(subpath: string, context: OpenContext): AnswerFile {
  if (subpath !== "")
    throw new SyscallError("NOT_FOUND", `/dev/lsp has no ${subpath}. Write a request to /dev/lsp.`);
  return new AnswerFile({
    device: "/dev/lsp",
    async answer(text, signal) {
      const { op, ...input } = jsonObject("/dev/lsp", text);
      if (op !== LSP.op)
        throw new SyscallError("INVALID", `/dev/lsp: expected the op lsp, got ${JSON.stringify(op)}.`);
      const request = checkedInput(LSP, input);
      const file = await permitted(request.file, context);
      const { servers = {} } = Settings.parse(context.config ?? {});
      const kind = serverOf(file, servers);
      const server = await pool.use(
        kind,
        rootOf(file, kind, await realpath(context.project.dir)),
        context,
        signal,
      );
      await listServer(server, context);
      const lines = await server.show(file, signal);
      const answer = await OPERATIONS[request.operation]({ request, file, lines, server, context, signal });
      pool.succeeded(server);
      return answer === "" ? `${kind.name} found nothing.` : answer;
    },
  });
}

/** Files of one step whose problems are asked for. */
const MAX_CHANGED = 10;

/** The new problems of changed files. Starts no server: only one that runs is asked. */
export async function newProblems(
  files: readonly string[],
  context: OpenContext,
  signal: AbortSignal,
): Promise<string | null> {
  const { servers = {} } = Settings.parse(context.config ?? {});
  const project = await realpath(context.project.dir);
  const texts: string[] = [];
  for (const changed of files.filter((file) => isServed(file, servers)).slice(0, MAX_CHANGED)) {
    const file = await realpath(changed);
    const kind = serverOf(file, servers);
    const server = pool.running(kind, rootOf(file, kind, project), context);
    const found = (await server?.newProblems(file, signal)) ?? [];
    if (found.length > 0) texts.push(new ResultText(context.cwd).diagnostics(file, found));
  }
  return texts.length === 0 ? null : `New problems in files that you have changed:\n${texts.join("\n")}`;
}

/** The file's real path: a server reads it as Read would, and only below the run's folders. */
async function permitted(file: string, { cwd, folders, project, access }: OpenContext): Promise<string> {
  const path = await realpath(resolve(cwd, file)).catch((cause: unknown) => {
    throw new SyscallError("NOT_FOUND", `${file} does not exist.`, { cause });
  });
  const within = await Promise.all(
    [cwd, project.dir, ...folders].map((folder) => realpath(folder).catch(() => folder)),
  );
  if (!within.some((folder) => path.startsWith(`${folder}/`)))
    throw new SyscallError("PERMISSION", `${file} lies outside the run's folders.`);
  const [refused] = await access([path], ["Read"]);
  if (refused) throw new SyscallError("PERMISSION", refused);
  return path;
}

interface Asked {
  request: Request;
  file: string;
  lines: readonly string[];
  server: LanguageServer;
  context: OpenContext;
  signal: AbortSignal;
}

const OPERATIONS: Readonly<Record<Operation, (asked: Asked) => Promise<string>>> = {
  goToDefinition: (asked) => locations("textDocument/definition", asked),
  goToImplementation: (asked) => locations("textDocument/implementation", asked),
  findReferences: (asked) =>
    locations("textDocument/references", asked, { context: { includeDeclaration: true } }),
  async hover(asked) {
    const found = await asked.server.request<Hover | null>(
      "textDocument/hover",
      position(asked),
      asked.signal,
    );
    return textOf(asked).hover(found);
  },
  async documentSymbol(asked) {
    const params = { textDocument: document(asked) };
    const found = await asked.server.request<(DocumentSymbol | SymbolInformation)[] | null>(
      "textDocument/documentSymbol",
      params,
      asked.signal,
    );
    return textOf(asked).symbols(found);
  },
  async workspaceSymbol(asked) {
    const { query } = asked.request;
    if (query === undefined)
      throw new SyscallError("INVALID", "workspaceSymbol needs `query`, a part of the name.");
    const found = await asked.server.request<SymbolInformation[] | null>(
      "workspace/symbol",
      { query },
      asked.signal,
    );
    return textOf(asked).symbols(found);
  },
  prepareCallHierarchy: async (asked) => textOf(asked).items(await callItems(asked)),
  async incomingCalls(asked) {
    const calls = await eachItem<CallHierarchyIncomingCall>("callHierarchy/incomingCalls", asked);
    return textOf(asked).incoming(calls);
  },
  async outgoingCalls(asked) {
    const calls = await eachItem<CallHierarchyOutgoingCall>("callHierarchy/outgoingCalls", asked);
    return textOf(asked).outgoing(calls);
  },
  async diagnostics(asked) {
    return textOf(asked).diagnostics(asked.file, await asked.server.diagnostics(asked.file, asked.signal));
  },
};

async function locations(method: string, asked: Asked, more: object = {}): Promise<string> {
  const found = await asked.server.request<Location | (Location | LocationLink)[] | null>(
    method,
    { ...position(asked), ...more },
    asked.signal,
  );
  return await textOf(asked).locations(found);
}

async function callItems(asked: Asked): Promise<CallHierarchyItem[]> {
  const method = "textDocument/prepareCallHierarchy";
  return (
    (await asked.server.request<CallHierarchyItem[] | null>(method, position(asked), asked.signal)) ?? []
  );
}

async function eachItem<T>(method: string, asked: Asked): Promise<T[]> {
  const found: T[] = [];
  for (const item of await callItems(asked))
    found.push(...((await asked.server.request<T[] | null>(method, { item }, asked.signal)) ?? []));
  return found;
}

function textOf({ context }: Asked): ResultText {
  return new ResultText(context.cwd);
}

function document({ file }: Asked): { uri: string } {
  return { uri: pathToFileURL(file).href };
}

/** The protocol counts lines and UTF-16 units from 0. */
function position(asked: Asked): object {
  const { request, lines } = asked;
  const { operation, line, character, symbol } = request;
  if (line === undefined || (character === undefined && symbol === undefined))
    throw new SyscallError("INVALID", `${operation} needs \`line\`, and \`character\` or \`symbol\`.`);
  const text = lines[line - 1];
  if (text === undefined)
    throw new SyscallError("INVALID", `line: ${request.file} has ${lines.length} lines, got ${line}.`);
  const at = character === undefined ? columnOf(symbol ?? "", text) : character - 1;
  if (at < 0)
    throw new SyscallError(
      "INVALID",
      `symbol: line ${line} has no "${symbol}". The line is: ${text.trim().slice(0, 200)}`,
    );
  return {
    textDocument: document(asked),
    position: { line: line - 1, character: Math.min(at, text.length) },
  };
}

/** Where the name stands as a whole word, else where it stands at all; -1 where it does not. */
function columnOf(symbol: string, text: string): number {
  const word = text.search(new RegExp(`(?<![\\w$])${RegExp.escape(symbol)}(?![\\w$])`));
  return word === -1 ? text.indexOf(symbol) : word;
}

/** Units by run and server. A unit leaves when its run ends. */
const listed = new Map<string, string>();

/** Lists the server as a unit of the run that calls, or brings its unit up to date. */
async function listServer(
  { kind, root, end, restarts }: LanguageServer,
  { units, process }: OpenContext,
): Promise<void> {
  if (units === undefined) return;
  const metadata: LSPMeta = {
    server_name: kind.name,
    command: kind.command.join(" "),
    state: end === undefined ? "running" : "error",
    exit_code: end?.code ?? null,
    restart_count: restarts,
    max_restarts: MAX_FAILURES,
  };
  const key = JSON.stringify([process.uuid, root, kind.name]);
  const known = listed.get(key);
  if (known !== undefined) return await units.update(known, { metadata });
  try {
    const { id } = await units.register({ kind: "lsp", description: `${kind.name} in ${root}`, metadata });
    listed.set(key, id);
    // The server is shared: the run leaves it, and the kernel ends it when no run uses it any more.
    void units.killed(id).then(async () => {
      listed.delete(key);
      await units.update(id, { status: "completed" });
    });
  } catch (thrown) {
    // Without room for a unit, or where no units can run, the server answers all the same.
    if (!(thrown instanceof SyscallError) || !["EXHAUSTED", "UNAVAILABLE"].includes(thrown.code))
      throw thrown;
  }
}
