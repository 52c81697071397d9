/** Finds the files that a summary repeats. */

import type { Message, ToolDef } from "../../plugin/index.ts";
import { estimateTokens } from "../budget/tokens.ts";
import type { ProcessTool } from "../process/process-spec.ts";
import type { RecentFile } from "./summary.ts";
import { callsByResult } from "./turns.ts";

const MAX_FILES = 8;

/**
 * The files that were read last in the replaced messages, the newest first, with contents that fit into `tokens`.
 * Files that the kept messages still show are left out. Files that were changed since have no content.
 */
export function recentFiles(
  replaced: readonly Message[],
  kept: readonly Message[],
  tools: ReadonlyMap<string, ProcessTool>,
  tokens: number,
): RecentFile[] {
  const inView = new Set(pathsOf(kept, tools).map(({ path }) => path));
  const found = new Map<string, RecentFile>();
  const changed = new Set<string>();
  let left = tokens;
  for (const { path, reads, content } of pathsOf(replaced, tools).reverse()) {
    if (!reads) changed.add(path);
    if (!reads || found.has(path) || inView.has(path) || found.size >= MAX_FILES) continue;
    const size = estimateTokens(content);
    const fits = !changed.has(path) && size <= left;
    if (fits) left -= size;
    found.set(path, fits ? { path, content } : { path });
  }
  return [...found.values()];
}

interface Touched {
  path: string;
  reads: boolean;
  content: string;
}

/** Calls whose tool names a required input as its subject: the file that it reads or changes. */
function pathsOf(messages: readonly Message[], tools: ReadonlyMap<string, ProcessTool>): Touched[] {
  return [...callsByResult(messages)].flatMap(([at, { name, input }]) => {
    const tool = tools.get(name)?.tool;
    const path = tool?.subject === undefined ? undefined : input[tool.subject];
    const content = messages[at]?.content ?? "";
    if (!tool || typeof path !== "string" || content.startsWith("Error ")) return [];
    const reads = tool.annotations?.readOnlyHint === true;
    return reads && !requires(tool, tool.subject) ? [] : [{ path, reads, content }];
  });
}

/** Whether the field is required. Tools that list or search have an optional subject. */
function requires({ input }: ToolDef, field: string | undefined): boolean {
  return "required" in input && Array.isArray(input.required) && input.required.includes(field);
}
