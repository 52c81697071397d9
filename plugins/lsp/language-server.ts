/** One running language server: its start, the documents that it has, and requests to it. */

import { basename } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { type Child, SyscallError } from "rnix/plugin";
import { ErrorCodes, ResponseError } from "vscode-jsonrpc/node";
import type {
  Diagnostic,
  InitializeResult,
  PublishDiagnosticsParams,
  ServerCapabilities,
} from "vscode-languageserver-protocol";
import { settledWithin } from "../_lib/within.ts";
import { connect, type ServerConnection, type ServerEnd } from "./connection.ts";
import { CREATED, OpenDocuments, WatchedFiles } from "./documents.ts";
import type { ServerKind } from "./servers.ts";

const START_MS = 45_000;
const REQUEST_MS = 45_000;
const END_MS = 1_000;
/** How long a request waits for a server that reports that it still reads the project. */
const INDEXING_MS = 30_000;
/** Between the text of a file and the server's first diagnostics of it. */
const DIAGNOSTICS_MS = 30_000;
/** Servers report the kinds of diagnostics one after the other; none says which report is the last. */
const QUIET_MS = 800;
/** The DiagnosticSeverity of the protocol. */
const WARNING = 2;
/** New files that are opened at once. */
const MAX_SHOWN = 20;
/** A server names the diagnostics of whole projects. */
const MAX_FILES_WITH_DIAGNOSTICS = 1_000;

export class LanguageServer {
  readonly kind: ServerKind;
  readonly root: string;
  /** Servers of this workspace before it. */
  readonly restarts: number;
  /** Set once the program has ended. */
  end: ServerEnd | undefined;
  readonly #connection: ServerConnection;
  readonly #documents: OpenDocuments;
  readonly #watched: WatchedFiles;
  /** By URI, with the version of the document that they are of, where the server says so. */
  readonly #diagnostics = new Map<string, PublishDiagnosticsParams>();
  /** The problems of files, as they were asked for last. */
  readonly #last = new Map<string, ReadonlySet<string>>();
  readonly #listeners = new Set<() => void>();
  /** What the server works on by itself, such as reading the project. */
  readonly #progress = new Set<string | number>();
  #capabilities: ServerCapabilities = {};

  constructor(kind: ServerKind, root: string, child: Child, restarts: number) {
    this.kind = kind;
    this.root = root;
    this.restarts = restarts;
    this.#connection = connect(child);
    const { rpc, ended } = this.#connection;
    this.#documents = new OpenDocuments(rpc, kind);
    this.#watched = new WatchedFiles(root, Object.keys(kind.languages));
    void ended.then((end) => {
      this.end = end;
      this.#changed();
    });
    rpc.onNotification("textDocument/publishDiagnostics", (params: PublishDiagnosticsParams) => {
      this.#diagnostics.delete(params.uri);
      this.#diagnostics.set(params.uri, params);
      trim(this.#diagnostics);
      this.#changed();
    });
    rpc.onNotification(
      "$/progress",
      ({ token, value }: { token: string | number; value: { kind?: string } }) => {
        if (value.kind === "begin") this.#progress.add(token);
        if (value.kind === "end") this.#progress.delete(token);
        this.#changed();
      },
    );
    // A server may ask its client; each gets the answer of a client that has no settings and changes no file.
    rpc.onRequest("workspace/configuration", ({ items }: { items: unknown[] }) => items.map(() => null));
    rpc.onRequest("workspace/workspaceFolders", () => [folderOf(root)]);
    rpc.onRequest("workspace/applyEdit", () => ({
      applied: false,
      failureReason: "This client changes no files.",
    }));
    rpc.onRequest(() => null);
    rpc.listen();
  }

  async start(signal: AbortSignal): Promise<void> {
    const result: InitializeResult = await this.#ask(
      "initialize",
      initializeParams(this.kind, this.root),
      START_MS,
      signal,
    );
    this.#capabilities = result.capabilities;
    await this.#connection.rpc.sendNotification("initialized", {});
  }

  /** Sends the request once the server has the files as they are on disk. */
  async request<T>(method: string, params: object, signal: AbortSignal): Promise<T> {
    return await this.#ask(method, params, REQUEST_MS, signal);
  }

  /** Gives the server this file, and what changed on disk of those that it knows. Returns the file's lines. */
  async show(file: string, signal: AbortSignal): Promise<string[]> {
    const { rpc } = this.#connection;
    const changes = await this.#watched.changes(signal);
    if (changes.length > 0) await rpc.sendNotification("workspace/didChangeWatchedFiles", { changes });
    // Some servers read a new file a moment after they learned of it, but an open one at once.
    for (const { uri } of changes.filter(({ type }) => type === CREATED).slice(0, MAX_SHOWN))
      await this.#documents.show(fileURLToPath(uri)).catch(() => undefined);
    const before = this.#documents.versionOf(file);
    const text = await this.#documents.show(file);
    // Some servers name no version: what they reported of the text before is not of this one.
    if (this.#documents.versionOf(file) !== before) this.#diagnostics.delete(pathToFileURL(file).href);
    await this.#until(() => this.#progress.size === 0, INDEXING_MS, signal);
    return text.split("\n");
  }

  /** The diagnostics of a file that was shown, by the server's answer or its next report. */
  async diagnostics(file: string, signal: AbortSignal): Promise<Diagnostic[]> {
    const found = await this.#reported(file, signal);
    this.#last.delete(file);
    this.#last.set(file, new Set(found.map(problemOf)));
    trim(this.#last);
    return found;
  }

  /** The errors and warnings of a file as it is now that the server did not report of it before. */
  async newProblems(file: string, signal: AbortSignal): Promise<Diagnostic[]> {
    const published = this.#diagnostics.get(pathToFileURL(file).href)?.diagnostics ?? [];
    const before = this.#last.get(file) ?? new Set(published.map(problemOf));
    await this.show(file, signal);
    const found = await this.diagnostics(file, signal);
    return found.filter((one) => (one.severity ?? 1) <= WARNING && !before.has(problemOf(one)));
  }

  async #reported(file: string, signal: AbortSignal): Promise<Diagnostic[]> {
    const uri = pathToFileURL(file).href;
    if (this.#capabilities.diagnosticProvider !== undefined) {
      const report: { items?: Diagnostic[] } = await this.request(
        "textDocument/diagnostic",
        { textDocument: { uri } },
        signal,
      );
      return report.items ?? [];
    }
    const version = this.#documents.versionOf(file);
    const isNew = (): boolean => {
      const known = this.#diagnostics.get(uri);
      return known !== undefined && (known.version === undefined || known.version >= version);
    };
    await this.#until(isNew, DIAGNOSTICS_MS, signal);
    for (let seen: PublishDiagnosticsParams | undefined; isNew() && seen !== this.#diagnostics.get(uri); ) {
      seen = this.#diagnostics.get(uri);
      await this.#until(() => this.#diagnostics.get(uri) !== seen, QUIET_MS, signal);
    }
    if (isNew()) return this.#diagnostics.get(uri)?.diagnostics ?? [];
    const message = `${this.kind.name} reported nothing about ${file} within ${DIAGNOSTICS_MS / 1_000} s.`;
    throw new SyscallError("TIMEOUT", message);
  }

  async #ask<T>(method: string, params: object, limitMs: number, signal: AbortSignal): Promise<T> {
    signal.throwIfAborted();
    let isAnswered = false;
    try {
      const answer = this.#connection.rpc.sendRequest<T>(method, params).finally(() => {
        isAnswered = true;
        this.#changed();
      });
      // It fails when the program ends, which the wait below sees first.
      answer.catch(() => undefined);
      await this.#until(() => isAnswered, limitMs, signal);
      if (isAnswered || this.end !== undefined) return await answer;
      const message = `${this.kind.name} did not answer ${method} within ${limitMs / 1_000} s.`;
      throw new SyscallError("TIMEOUT", message);
    } catch (thrown) {
      signal.throwIfAborted();
      // A write fails before the end of the program is known.
      if (thrown instanceof ResponseError && thrown.code === ErrorCodes.MessageWriteError)
        await settledWithin(this.#connection.ended, END_MS);
      if (this.end !== undefined) throw this.#hasEnded(this.end);
      if (thrown instanceof ResponseError)
        throw new SyscallError("DRIVER", `${this.kind.name} refused ${method}: ${thrown.message}`, {
          cause: thrown,
        });
      throw thrown;
    }
  }

  #hasEnded({ code, signal, stderr }: ServerEnd): SyscallError {
    const how = signal === null ? `with exit code ${code}` : `by ${signal}`;
    const last = stderr === "" ? "" : ` Its last words: ${stderr}`;
    return new SyscallError("CLOSED", `${this.kind.name} ended ${how}.${last}`);
  }

  async #until(holds: () => boolean, limitMs: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const check = (): void => {
      if (holds() || signal.aborted || this.end !== undefined) resolve();
    };
    const timer = setTimeout(resolve, limitMs);
    this.#listeners.add(check);
    signal.addEventListener("abort", check, { once: true });
    check();
    await promise;
    clearTimeout(timer);
    this.#listeners.delete(check);
    signal.removeEventListener("abort", check);
    signal.throwIfAborted();
  }

  #changed(): void {
    for (const listener of [...this.#listeners]) listener();
  }
}

/** Without its place, which each edit above it moves. */
function problemOf({ severity, code, message }: Diagnostic): string {
  return JSON.stringify([severity, code, message]);
}

function trim(map: Map<string, unknown>): void {
  for (const oldest of map.keys()) {
    if (map.size <= MAX_FILES_WITH_DIAGNOSTICS) break;
    map.delete(oldest);
  }
}

function folderOf(root: string): { uri: string; name: string } {
  return { uri: pathToFileURL(root).href, name: basename(root) };
}

function initializeParams({ options = {} }: ServerKind, root: string): object {
  const dynamic = { dynamicRegistration: false };
  return {
    // A server ends when this process is gone; in a sandbox it does not see it. The kernel ends it.
    processId: null,
    clientInfo: { name: "rnix" },
    rootUri: pathToFileURL(root).href,
    workspaceFolders: [folderOf(root)],
    initializationOptions: options,
    capabilities: {
      general: { positionEncodings: ["utf-16"] },
      window: { workDoneProgress: true },
      workspace: {
        workspaceFolders: true,
        configuration: true,
        didChangeWatchedFiles: { dynamicRegistration: true },
        symbol: dynamic,
      },
      textDocument: {
        synchronization: dynamic,
        definition: { ...dynamic, linkSupport: true },
        implementation: { ...dynamic, linkSupport: true },
        references: dynamic,
        hover: { ...dynamic, contentFormat: ["markdown", "plaintext"] },
        documentSymbol: { ...dynamic, hierarchicalDocumentSymbolSupport: true },
        callHierarchy: dynamic,
        publishDiagnostics: { versionSupport: true, relatedInformation: false },
        diagnostic: dynamic,
      },
    },
  };
}
