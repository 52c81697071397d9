/** The operations that are written to /dev/lsp. */

import { realpath } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { type FromSchema, type LSPMeta, type OpenContext, SyscallError } from "rnix/plugin";
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
import { AnswerFile } from "../_lib/answer-file.ts";
import { answerRequest, operation } from "../_lib/operations.ts";
import type { LanguageServer } from "./language-server.ts";
import { ResultText } from "./result-text.ts";
import { MAX_FAILURES, ServerPool } from "./server-pool.ts";
import { isServed, rootOf, serverOf, serversOf } from "./servers.ts";
import { LSP, type Operation } from "./tools.ts";

/** Of all runs of this daemon. */
const pool = new ServerPool(() => performance.now());

type Request = FromSchema<(typeof LSP)["input"]>;

/** Opens /dev/lsp, which answers `{"op": "lsp", "operation": …}`. */
export function openLsp(subpath: string, context: OpenContext): AnswerFile {
  if (subpath !== "")
    throw new SyscallError("NOT_FOUND", `/dev/lsp has no ${subpath}. Write a request to /dev/lsp.`);
  return new AnswerFile({
    device: "/dev/lsp",
    answer: (text, signal) =>
      answerRequest("/dev/lsp", text, [operation(LSP, (request) => answer(request, context, signal))]),
  });
}

async function answer(request: Request, context: OpenContext, signal: AbortSignal): Promise<string> {
  const file = await permitted(request.file, context);
  const kind = serverOf(file, serversOf(context));
  const root = rootOf(file, kind, await realpath(context.project.dir));
  const server = await pool.use(kind, root, context, signal);
  await listServer(server, context);
  const lines = await server.show(file, signal);
  const text = await OPERATIONS[request.operation]({ request, file, lines, server, context, signal });
  pool.succeeded(server);
  return text === "" ? `${kind.name} found nothing.` : text;
}

/** Files of one step whose problems are asked for. */
const MAX_CHANGED = 10;

/** The new problems of changed files. Starts no server: only one that runs is asked. */
export async function newProblems(
  files: readonly string[],
  context: OpenContext,
  signal: AbortSignal,
): Promise<string | null> {
  const servers = serversOf(context);
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
  hover: async (asked) =>
    textOf(asked).hover(await ask<Hover | null>(asked, "textDocument/hover", position(asked))),
  async documentSymbol(asked) {
    const params = { textDocument: document(asked) };
    return textOf(asked).symbols(
      await ask<(DocumentSymbol | SymbolInformation)[] | null>(asked, "textDocument/documentSymbol", params),
    );
  },
  async workspaceSymbol(asked) {
    const { query } = asked.request;
    if (query === undefined)
      throw new SyscallError("INVALID", "workspaceSymbol needs `query`, a part of the name.");
    return textOf(asked).symbols(await ask<SymbolInformation[] | null>(asked, "workspace/symbol", { query }));
  },
  prepareCallHierarchy: async (asked) => textOf(asked).items(await callItems(asked)),
  incomingCalls: async (asked) =>
    textOf(asked).calls(await eachItem<CallHierarchyIncomingCall>("callHierarchy/incomingCalls", asked)),
  outgoingCalls: async (asked) =>
    textOf(asked).calls(await eachItem<CallHierarchyOutgoingCall>("callHierarchy/outgoingCalls", asked)),
  async diagnostics(asked) {
    return textOf(asked).diagnostics(asked.file, await asked.server.diagnostics(asked.file, asked.signal));
  },
};

async function locations(method: string, asked: Asked, more: object = {}): Promise<string> {
  const params = { ...position(asked), ...more };
  return await textOf(asked).locations(
    await ask<Location | (Location | LocationLink)[] | null>(asked, method, params),
  );
}

function ask<T>({ server, signal }: Asked, method: string, params: object): Promise<T> {
  return server.request<T>(method, params, signal);
}

async function callItems(asked: Asked): Promise<CallHierarchyItem[]> {
  const method = "textDocument/prepareCallHierarchy";
  return (await ask<CallHierarchyItem[] | null>(asked, method, position(asked))) ?? [];
}

async function eachItem<T>(method: string, asked: Asked): Promise<T[]> {
  const found: T[] = [];
  for (const item of await callItems(asked))
    found.push(...((await ask<T[] | null>(asked, method, { item })) ?? []));
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
  if (at >= 0)
    return {
      textDocument: document(asked),
      position: { line: line - 1, character: Math.min(at, text.length) },
    };
  const message = `symbol: line ${line} has no "${symbol}". The line is: ${text.trim().slice(0, 200)}`;
  throw new SyscallError("INVALID", message);
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
