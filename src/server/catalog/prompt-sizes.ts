/** The parts of an agent's first request with their sizes, for `rnix tools --agent`. */

import { basename } from "node:path";
import { estimateTokens } from "../../kernel/budget/tokens.ts";
import { headParts, type PromptHead } from "../../kernel/conversation/prompt-head.ts";
import { searchTool, TOOL_SEARCH } from "../../kernel/devices/tool-search.ts";
import { toolForModel } from "../../kernel/tools/tool-catalog.ts";
import type { ToolDef } from "../../plugin/index.ts";
import type { PromptPartWire, ToolWire } from "../../protocol/methods.ts";
import type { NamedTool } from "../../vfs/namespace.ts";

/** In the order of the request: the head, then the tools. `doc`: the path of the project's document. */
export function promptSizes(
  head: PromptHead,
  doc: string | undefined,
  tools: readonly (NamedTool & Pick<ToolWire, "shown">)[],
): PromptPartWire[] {
  const parts = headParts(head).map(({ name, text }) =>
    sizeOf(name === "project document" && doc !== undefined ? basename(doc) : name, text),
  );
  const shown = tools.filter((one) => one.shown === "start");
  const texts = shown.map(({ tool, entry }) =>
    JSON.stringify(toolForModel(entry.path === TOOL_SEARCH.path ? search(tools) : tool)),
  );
  return [...parts, sizeOf(`${shown.length} tools`, texts.join(","))];
}

/** ToolSearch with the names that it can load. */
function search(tools: readonly (NamedTool & Pick<ToolWire, "shown">)[]): ToolDef {
  const later = tools.filter(({ tool, entry, shown }) => shown === "later" && isDeferred(tool, entry.path));
  return searchTool(later.map(({ tool }) => tool.name));
}

function isDeferred(tool: ToolDef, path: string): boolean {
  return tool.defer === true || path.startsWith("/mnt/");
}

function sizeOf(part: string, text: string): PromptPartWire {
  return { part, bytes: Buffer.byteLength(text), tokens: estimateTokens(text) };
}
