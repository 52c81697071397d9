/** The command line and environment of the Claude Code CLI for one request. */

import type { LLMRequest } from "rnix/plugin";
import { type Program, promptOf } from "../_model/cli-run.ts";
import type { Binary } from "./binary.ts";
import { grantsOf } from "./grants.ts";

/** The name of the driver's server in the CLI: its tools are `mcp__rnix__<name>`. */
export const SERVER = "rnix";
/** The variable with the endpoint's token. Arguments are visible to every user, so they hold only its name. */
const TOKEN = "RNIX_TOOLS_TOKEN";

/** Variables of the run's environment that the program inherits: paths, locale, and access to its provider. */
const INHERITED =
  /^(?:PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|TZ|TMPDIR|TERM|CLAUDE_CONFIG_DIR|XDG_.*|LC_.*|SSL_CERT_FILE|SSL_CERT_DIR|NODE_EXTRA_CA_CERTS|(?:HTTPS?|NO|ALL)_PROXY|CLOUD_ML_REGION|(?:AWS|GOOGLE|VERTEX|AZURE)_.*|CLAUDE_CODE_(?:USE|SKIP)_.*|ANTHROPIC_.*)$/i;

/** A tool call may take as long as the process's own deadlines allow, so the CLI's limit is a day. */
const DAY_MS = 24 * 3_600_000;
/** The CLI's limit of a tool result in tokens: the kernel has truncated the result already. */
const RESULT_TOKENS = 1_000_000;

export interface Endpoint {
  url: string;
  token: string;
}

/** The command line and environment of the CLI for one request. `given`: the run's environment. */
export function program(
  { path, options }: Binary,
  request: LLMRequest,
  o: {
    given: Readonly<Record<string, string>>;
    systemPromptFile: string;
    endpoint: Endpoint | undefined;
    baseUrl: string | undefined;
    key: string;
  },
): Program {
  const prompt = withoutCommand(promptOf(request));
  const pictured = request.messages.some(({ images = [] }) => images.length > 0);
  const dropped = Object.keys(o.given).filter((name) => !INHERITED.test(name));
  const ifSupported = (option: string, ...values: string[]): string[] =>
    options.has(option) ? [option, ...values] : [];
  return {
    argv: [
      ...(dropped.length === 0 ? [] : ["/usr/bin/env", ...dropped.flatMap((name) => ["-u", name])]),
      path,
      ...["-p", "--output-format", "stream-json", "--verbose"],
      ...ifSupported("--include-partial-messages"),
      ...(pictured ? ["--input-format", "stream-json"] : []),
      ...["--model", request.model],
      ...["--system-prompt-file", o.systemPromptFile],
      ...["--tools", ""],
      ...["--setting-sources", ""],
      "--strict-mcp-config",
      ...["--mcp-config", JSON.stringify({ mcpServers: serversOf(o.endpoint) })],
      ...["--allowed-tools", `mcp__${SERVER}`],
      ...ifSupported("--permission-mode", "dontAsk"),
      ...ifSupported("--disable-slash-commands"),
      ...ifSupported("--no-session-persistence"),
      ...ifSupported("--no-chrome"),
      ...(request.max_turns === undefined ? [] : ["--max-turns", String(request.max_turns)]),
      ...(request.effort === undefined ? [] : ifSupported("--effort", effortOf(request.effort))),
    ],
    stdin: pictured ? message(prompt, request) : prompt,
    grants: grantsOf(path, o.given, {
      baseUrl: o.baseUrl,
      tools: o.endpoint?.url,
      files: [o.systemPromptFile],
    }),
    env: {
      ...(o.endpoint && { [TOKEN]: o.endpoint.token }),
      ...keyVariable(o.key),
      ...(o.baseUrl !== undefined && { ANTHROPIC_BASE_URL: o.baseUrl }),
      ...(request.max_output !== undefined && { CLAUDE_CODE_MAX_OUTPUT_TOKENS: String(request.max_output) }),
      // Retries are up to the kernel.
      CLAUDE_CODE_MAX_RETRIES: "0",
      CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK: "1",
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: "1",
      CLAUDE_CODE_DISABLE_AUTO_MEMORY: "1",
      CLAUDE_CODE_DISABLE_CLAUDE_MDS: "1",
      DISABLE_AUTOUPDATER: "1",
      DISABLE_TELEMETRY: "1",
      DISABLE_ERROR_REPORTING: "1",
      // Files that a prompt names with an @ are not read.
      CLAUDE_CODE_DISABLE_FILE_MENTIONS: "1",
      CLAUDE_CODE_DISABLE_ATTACHMENTS: "1",
      // All tools are offered from the start, as to any other model.
      ENABLE_TOOL_SEARCH: "false",
      MCP_TOOL_TIMEOUT: String(DAY_MS),
      MAX_MCP_OUTPUT_TOKENS: String(RESULT_TOKENS),
    },
  };
}

/** A prompt with images as a message of the API: the text, then all images of the conversation in order. */
function message(text: string, { messages }: LLMRequest): string {
  const images = messages
    .flatMap(({ images = [] }) => images)
    .map(({ media_type, data }) => ({ type: "image", source: { type: "base64", media_type, data } }));
  const content = [{ type: "text", text }, ...images];
  return `${JSON.stringify({ type: "user", message: { role: "user", content } })}\n`;
}

/** Keeps the program from reading the beginning of a prompt as one of its commands. */
function withoutCommand(prompt: string): string {
  return /^\s*[/!#]/.test(prompt) ? `The request:\n${prompt}` : prompt;
}

function serversOf(endpoint: Endpoint | undefined): object {
  if (!endpoint) return {};
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the CLI puts the variable's value there
  const headers = { Authorization: "Bearer ${RNIX_TOOLS_TOKEN}" };
  return { [SERVER]: { type: "http", url: endpoint.url, headers } };
}

/** A token of `claude setup-token` differs from a key of the API by its prefix. */
function keyVariable(key: string): Record<string, string> {
  if (key === "") return {};
  return key.startsWith("sk-ant-oat") ? { CLAUDE_CODE_OAUTH_TOKEN: key } : { ANTHROPIC_API_KEY: key };
}

function effortOf(effort: NonNullable<LLMRequest["effort"]>): string {
  return effort === "minimal" ? "low" : effort;
}
