/** The settings of one MCP server: its command or address, time limits and size limit. */

import { SyscallError } from "rnix/plugin";
import { z } from "zod";
import { issueText } from "../_lib/issue-text.ts";

const MS = z
  .int()
  .positive()
  .max(24 * 3_600_000);
const limits = {
  /** The name the user gave it. */
  name: z.string().min(1),
  /** For the handshake. */
  mountTimeoutMs: MS.default(60_000),
  /** For one request, with or without progress. */
  requestTimeoutMs: MS.default(60_000),
  /** Of one message from the server. */
  maxOutputBytes: z
    .int()
    .min(1_024)
    .max(64 * 1024 * 1024)
    .default(1024 * 1024),
  /** Whether the server may ask the user during a call, as the agent does. */
  elicitation: z.enum(["decline", "ask"]).default("decline"),
  /** Whether it gets answers of the run's model. */
  sampling: z.enum(["refuse", "allow"]).default("refuse"),
};
const texts = z.record(z.string(), z.string()).default({});

const Settings = z.union([
  z.strictObject({
    ...limits,
    command: z.string().min(1),
    args: z.array(z.string()).default([]),
    env: texts,
    cwd: z.string().optional(),
  }),
  z.strictObject({
    ...limits,
    url: z.url({ protocol: /^https?$/ }),
    headers: texts,
    /** The file with the OAuth tokens, absolute. Absent: the headers have a key. */
    tokens: z.string().optional(),
    /** Mounted to log in, not to use it. */
    login: z.literal(true).optional(),
  }),
]);

/** How one server is reached: a program on its stdin and stdout, or an address (streamable HTTP). */
export type ServerSettings = z.infer<typeof Settings>;
export type ProgramSettings = Extract<ServerSettings, { command: string }>;
export type HttpSettings = Extract<ServerSettings, { url: string }>;

export function settingsOf(config: object): ServerSettings {
  const parsed = Settings.safeParse(config);
  if (parsed.success) return parsed.data;
  const message = `MCP server: expected { name, command, args?, env?, cwd? } or { name, url, headers? }, and numbers for mountTimeoutMs, requestTimeoutMs and maxOutputBytes. ${issueText(parsed.error)}`;
  throw new SyscallError("INVALID", message);
}
