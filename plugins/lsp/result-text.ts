/** Writes what a server answers as short text, with paths from the run's folder and lines and columns from 1. */

import { readFile } from "node:fs/promises";
import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import type {
  CallHierarchyIncomingCall,
  CallHierarchyItem,
  CallHierarchyOutgoingCall,
  Diagnostic,
  DocumentSymbol,
  Hover,
  Location,
  LocationLink,
  Position,
  Range,
  SymbolInformation,
  WorkspaceSymbol,
} from "vscode-languageserver-protocol";

/** More are counted. */
const MAX_LINES = 200;
const MAX_SOURCE = 160;

export class ResultText {
  readonly #cwd: string;
  readonly #files = new Map<string, Promise<string[]>>();

  constructor(cwd: string) {
    this.#cwd = cwd;
  }

  /** Each with its source line. */
  async locations(found: Location | (Location | LocationLink)[] | null): Promise<string> {
    const all = [found ?? []]
      .flat()
      .map((one) => ("targetUri" in one ? { uri: one.targetUri, range: one.targetSelectionRange } : one));
    const lines = all
      .slice(0, MAX_LINES)
      .map(async ({ uri, range }) => `${this.#at(uri, range.start)}  ${await this.#source(uri, range)}`);
    return listed(await Promise.all(lines), all.length);
  }

  hover(found: Hover | null): string {
    if (found === null) return "";
    const parts = [found.contents].flat().map((part) => (typeof part === "string" ? part : part.value));
    return parts.join("\n\n").trim();
  }

  symbols(found: (DocumentSymbol | SymbolInformation | WorkspaceSymbol)[] | null): string {
    const lines: string[] = [];
    const add = (symbol: DocumentSymbol | SymbolInformation | WorkspaceSymbol, depth: number): void => {
      const head = `${"  ".repeat(depth)}${kindOf(symbol.kind)} ${symbol.name}`;
      if ("location" in symbol) {
        const { uri } = symbol.location;
        const start = "range" in symbol.location ? symbol.location.range.start : undefined;
        const within = symbol.containerName ? ` (in ${symbol.containerName})` : "";
        lines.push(`${head}${within}  ${start === undefined ? this.#path(uri) : this.#at(uri, start)}`);
        return;
      }
      const { line, character } = symbol.selectionRange.start;
      lines.push(`${head}  ${line + 1}:${character + 1}`);
      for (const child of symbol.children ?? []) add(child, depth + 1);
    };
    for (const symbol of found ?? []) add(symbol, 0);
    return listed(lines);
  }

  items(found: readonly CallHierarchyItem[]): string {
    return listed(found.map((item) => this.#item(item)));
  }

  /** Callers or callees with the places of their calls. */
  calls(found: readonly (CallHierarchyIncomingCall | CallHierarchyOutgoingCall)[]): string {
    return listed(
      found.map((call) => this.#item("from" in call ? call.from : call.to) + linesOf(call.fromRanges)),
    );
  }

  diagnostics(file: string, found: readonly Diagnostic[]): string {
    const sorted = found.toSorted((a, b) => a.range.start.line - b.range.start.line);
    const lines = sorted.map(({ range, severity, message, source, code }) => {
      const of = [source, code].filter((part) => part !== undefined).join(" ");
      return `${relative(this.#cwd, file)}:${range.start.line + 1}:${range.start.character + 1}  ${SEVERITIES[severity ?? 1] ?? "error"}: ${message}${of === "" ? "" : ` [${of}]`}`;
    });
    return listed(lines);
  }

  #item({ kind, name, uri, selectionRange }: CallHierarchyItem): string {
    return `${kindOf(kind)} ${name}  ${this.#at(uri, selectionRange.start)}`;
  }

  #at(uri: string, { line, character }: Position): string {
    return `${this.#path(uri)}:${line + 1}:${character + 1}`;
  }

  #path(uri: string): string {
    if (!uri.startsWith("file:")) return uri;
    const path = fileURLToPath(uri);
    const short = relative(this.#cwd, path);
    return short.startsWith("..") ? path : short;
  }

  async #source(uri: string, { start }: Range): Promise<string> {
    if (!uri.startsWith("file:")) return "";
    const known =
      this.#files.get(uri) ??
      readFile(fileURLToPath(uri), "utf8").then(
        (text) => text.split("\n"),
        () => [],
      );
    this.#files.set(uri, known);
    return ((await known)[start.line] ?? "").trim().slice(0, MAX_SOURCE);
  }
}

function linesOf(ranges: readonly Range[]): string {
  const lines = [...new Set(ranges.map(({ start }) => start.line + 1))];
  return lines.length === 0 ? "" : `  (called in line ${lines.join(", ")})`;
}

function listed(lines: readonly string[], count = lines.length): string {
  const more = count > MAX_LINES ? `\n[${count - MAX_LINES} more]` : "";
  return lines.slice(0, MAX_LINES).join("\n") + more;
}

const SEVERITIES: Readonly<Record<number, string>> = { 1: "error", 2: "warning", 3: "info", 4: "hint" };

function kindOf(kind: number): string {
  return KINDS[kind - 1] ?? "symbol";
}

/** In the order of the protocol's SymbolKind, from 1. */
const KINDS =
  "file module namespace package class method property field constructor enum interface function variable constant string number boolean array object key null enum-member struct event operator type-parameter".split(
    " ",
  );
