import anthropic from "../../../../plugins/anthropic.ts";
import google from "../../../../plugins/google.ts";
import openai from "../../../../plugins/openai.ts";
import compatible from "../../../../plugins/openai-compatible.ts";
import type { Device, Plugin, VFSFile } from "../../../../src/plugin/index.ts";
import { openModel } from "../device.ts";
import type { Fault } from "../script.ts";

/** A model driver that speaks HTTP, and what is its provider's own way. */
export interface HttpDriver {
  /** The head of its column. */
  title: string;
  plugin: Plugin;
  device: string;
  /** The entry's base_url: this driver wants it with /v1. */
  version: "" | "/v1";
  extra?: Record<string, unknown>;
  /** How the path begins at which its requests must arrive. */
  path: string;
  /** The variable a refused key points to. */
  keyVariable: string;
  /** How the provider calls these in an error document. */
  names: { overloaded: string; limited: string };
  /** How the provider refuses a conversation that is too long. */
  tooLong: Fault & { kind: "status" };
  /** The protocol carries what the model thinks. */
  thinks: boolean;
  /** How the thoughts before the calls of the server's first answer look when they are handed back. */
  signs?: object;
}

const ofOpenai = {
  version: "/v1",
  keyVariable: "OPENAI_API_KEY",
  names: { overloaded: "server_error", limited: "rate_limit_exceeded" },
  tooLong: { kind: "status", status: 400, code: "context_length_exceeded" },
} as const;

const chat = { path: "/v1/chat/completions" } as const;

export const HTTP_DRIVERS: readonly HttpDriver[] = [
  {
    title: "anthropic",
    plugin: anthropic,
    device: "/dev/llm/anthropic",
    version: "",
    path: "/v1/messages",
    keyVariable: "ANTHROPIC_API_KEY",
    names: { overloaded: "overloaded_error", limited: "rate_limit_error" },
    tooLong: {
      kind: "status",
      status: 400,
      message: "prompt is too long: 210000 tokens > 200000 maximum",
    },
    thinks: true,
    signs: { type: "thinking", thinking: "hm, 42", signature: "signature-0" },
  },
  {
    title: "openai, Responses",
    plugin: openai,
    device: "/dev/llm/openai",
    extra: { api: "responses" },
    path: "/v1/responses",
    thinks: true,
    signs: {
      type: "reasoning",
      id: "rs_0",
      encrypted_content: "encrypted-0",
      summary: [{ type: "summary_text", text: "hm, 42" }],
    },
    ...ofOpenai,
  },
  {
    title: "openai, chat",
    plugin: openai,
    device: "/dev/llm/openai",
    extra: { api: "chat" },
    thinks: false,
    ...chat,
    ...ofOpenai,
  },
  {
    title: "openai-compatible",
    plugin: compatible,
    device: "/dev/llm/openai-compatible",
    thinks: true,
    ...chat,
    ...ofOpenai,
  },
  {
    title: "google",
    plugin: google,
    device: "/dev/llm/google",
    version: "",
    path: "/v1beta/models/scripted:",
    keyVariable: "GEMINI_API_KEY",
    names: { overloaded: "UNAVAILABLE", limited: "RESOURCE_EXHAUSTED" },
    tooLong: {
      kind: "status",
      status: 400,
      message: "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
    },
    thinks: true,
    signs: {
      functionCall: { id: "call_a", name: "Bash", args: { command: "ls" } },
      thoughtSignature: "signature-0",
    },
  },
];

/** Its device, opened for a provider's entry with this address. */
export function openDriver(driver: HttpDriver, url: string, key?: string): Promise<VFSFile> {
  const { plugin, device, extra } = driver;
  return openModel(plugin, device, { base_url: url + driver.version, extra, key });
}

export function deviceOf({ plugin, device }: HttpDriver): Device {
  const found = plugin.devices?.[device];
  if (found === undefined) throw new Error(`the plugin ${plugin.name} has no device ${device}`);
  return found;
}
