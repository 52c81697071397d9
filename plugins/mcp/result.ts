/** Translates the results of MCP tools and resources. */

import type { CallToolResult, ReadResourceResult } from "@modelcontextprotocol/client";
import type { OpenContext } from "rnix/plugin";

/** A tool's result as text for a model. Images and sound become files that the text names. */
export async function resultText(result: CallToolResult, context: OpenContext): Promise<string> {
  const parts: string[] = [];
  for (const block of result.content) parts.push(await blockText(block, context));
  const text = parts.filter((part) => part !== "").join("\n");
  if (text !== "" || result.structuredContent === undefined) return text;
  return JSON.stringify(result.structuredContent);
}

export async function resourceText(result: ReadResourceResult, context: OpenContext): Promise<string> {
  const parts = result.contents.map((contents) => contentsText(contents, context));
  return (await Promise.all(parts)).join("\n");
}

/** One part of a result or of a prompt. */
export async function blockText(
  block: CallToolResult["content"][number],
  context: OpenContext,
): Promise<string> {
  switch (block.type) {
    case "text":
      return block.text;
    case "image":
    case "audio":
      return saved(block.type, block.mimeType, block.data, context);
    case "resource_link":
      return `[resource ${block.uri}: ${block.title ?? block.name}]`;
    case "resource":
      return `[resource ${block.resource.uri}]\n${await contentsText(block.resource, context)}`;
  }
}

async function contentsText(
  contents: ReadResourceResult["contents"][number],
  context: OpenContext,
): Promise<string> {
  if ("text" in contents) return contents.text;
  return saved("resource", contents.mimeType ?? "application/octet-stream", contents.blob, context);
}

async function saved(what: string, mimeType: string, base64: string, context: OpenContext): Promise<string> {
  const bytes = Buffer.from(base64, "base64");
  const extension = /^[\w.+-]+\/([\w-]+)/.exec(mimeType)?.[1] ?? "bin";
  const path = await context.spill(`mcp-${what}.${extension}`, bytes);
  return `[${what}, ${mimeType}, ${bytes.length} bytes: ${path}]`;
}
