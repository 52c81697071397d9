/** The prompts of an MCP server as devices: their list, and one prompt with arguments. */

import type { Client, GetPromptResult, Prompt } from "@modelcontextprotocol/client";
import { type Device, type OpenContext, SyscallError } from "rnix/plugin";
import { z } from "zod";
import { AnswerFile } from "../_lib/answer-file.ts";
import { jsonObject } from "../_lib/json.ts";
import type { RequestRunner } from "./connect.ts";
import { blockText } from "./result.ts";

const Arguments = z.record(z.string(), z.string());

export async function listPrompts(client: Client, request: RequestRunner): Promise<Prompt[]> {
  if (!client.getServerCapabilities()?.prompts) return [];
  const { prompts } = await request(undefined, (options) => client.listPrompts(undefined, options));
  return prompts;
}

/** `/prompts` lists them, `/prompts/NAME` is one. An object that is written there has its arguments. */
export function promptDevice(client: Client, request: RequestRunner): Device {
  const content = async (): Promise<string> => JSON.stringify(await listPrompts(client, request));
  const read = async (path: string, args: object, context: OpenContext, signal: AbortSignal) => {
    const name = await nameAt(path);
    const parsed = Arguments.safeParse(args);
    if (!parsed.success) {
      throw new SyscallError("INVALID", `${name}: expected an object of texts, such as {"topic": "cats"}.`);
    }
    const result = await request(signal, (options) =>
      client.getPrompt({ name, arguments: parsed.data }, options),
    );
    return promptText(result, context);
  };
  /** A name may have characters that a path can't hold. */
  const nameAt = async (path: string): Promise<string> => {
    const prompts = await listPrompts(client, request);
    const found = prompts.find(({ name }) => name === path || pathSegmentOf(name) === path);
    if (found) return found.name;
    const names = prompts.map(({ name }) => name).join(", ");
    throw new SyscallError("NOT_FOUND", `There is no prompt ${path}. Prompts: ${names || "none"}.`);
  };
  return {
    match: "prefix",
    factory: (subpath, _flags, context) => {
      const path = subpath.replace(/^\//, "");
      if (path === "") return new AnswerFile({ device: "/prompts", content });
      return new AnswerFile({
        device: path,
        content: (signal) => read(path, {}, context, signal),
        answer: (text, signal) => read(path, jsonObject(path, text), context, signal),
      });
    },
  };
}

/** The messages as one text. Their roles are named only where the assistant speaks, too. */
async function promptText({ messages }: GetPromptResult, context: OpenContext): Promise<string> {
  const named = messages.some(({ role }) => role === "assistant");
  const parts: string[] = [];
  for (const { role, content } of messages) {
    parts.push(`${named ? `[${role}]\n` : ""}${await blockText(content, context)}`);
  }
  return parts.join("\n\n");
}

/** Characters that a path can't hold become "_". */
export function pathSegmentOf(name: string): string {
  const segment = name.replaceAll(/[^A-Za-z0-9._-]/g, "_");
  return /^\.+$/.test(segment) ? `_${segment}` : segment;
}
