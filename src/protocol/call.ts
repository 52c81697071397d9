/** The answer of a call without a model. */

import type { Code } from "../plugin/index.ts";
import type { ToolCallRecord } from "../store/runs/schema.ts";

/** The answer of a call without a model, with the field names of a recorded tool call. */
export interface CallWire {
  /** The tool; null for a path. */
  name: string | null;
  path: string;
  input: string | Record<string, unknown> | null;
  state: ToolCallRecord["state"];
  /** null when the call failed. */
  result: string | null;
  encoding: "utf8" | "base64";
  /** The path has more content than the result. */
  truncated: boolean;
  error: string | null;
  error_code: Code | null;
  started_at: string;
  duration_ms: number;
  /** Parts that were left out, such as plugins that are not trusted. */
  notices: string[];
}

/** A tool, resource or prompt of an MCP server. */
export interface McpServerItem {
  name: string;
  description: string;
}

/** The address for the person's browser; "" for nothing to do. */
export interface McpLoginWire {
  answer: string;
}

/** What a tested MCP server has and how long its start took, or why it failed. */
export type McpTestWire =
  | { start_ms: number; tools: McpServerItem[]; resources: McpServerItem[]; prompts: McpServerItem[] }
  | { error: string; error_code: Code };
