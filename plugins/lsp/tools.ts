/** The definition of the tool Lsp. */

import type { ToolDef } from "rnix/plugin";

export const OPERATIONS = [
  "goToDefinition",
  "findReferences",
  "hover",
  "documentSymbol",
  "workspaceSymbol",
  "goToImplementation",
  "prepareCallHierarchy",
  "incomingCalls",
  "outgoingCalls",
  "diagnostics",
] as const;
export type Operation = (typeof OPERATIONS)[number];

export const LSP = {
  name: "Lsp",
  op: "lsp",
  defer: true,
  description:
    "Ask a language server about code: definitions, references, types (hover), symbols, implementations, callers and callees, errors (diagnostics). Name the symbol's file and line, and its column or name.",
  input: {
    type: "object",
    properties: {
      operation: { type: "string", enum: OPERATIONS },
      file: { type: "string", minLength: 1, description: "A file of the language; the one with the symbol." },
      line: { type: "integer", minimum: 1 },
      character: { type: "integer", minimum: 1, description: "Column in the line, from 1." },
      symbol: { type: "string", minLength: 1, description: "Its name in that line, instead of `character`." },
      query: { type: "string", description: "Of workspaceSymbol." },
    },
    required: ["operation", "file"],
    additionalProperties: false,
  },
  subject: "file",
  timeoutMs: 90_000,
  maxResult: 30_000,
  // A server loads the project's own configuration and may fetch types or modules.
  annotations: { destructiveHint: false, openWorldHint: true },
} as const satisfies ToolDef;
