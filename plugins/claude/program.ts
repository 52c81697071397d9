import type { LLMRequest } from "rnix/plugin";
import type { Program } from "../_model/cli-run.ts";
import { promptOf } from "../_model/conversation.ts";
import type { Binary } from "./binary.ts";

/** What the CLI calls the driver's server: its tools are `mcp__rnix__<name>`. */
export const SERVER = "rnix";
/** The variable that holds the endpoint's token; only its name stands in the arguments, which everybody can read. */
const TOKEN = "RNIX_TOOLS_TOKEN";

/** Of the run's environment this reaches the program: where things are, and how it gets to its provider. */
const PLAIN =
  /^(?:PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|TZ|TMPDIR|TERM|CLAUDE_CONFIG_DIR|XDG_.*|LC_.*|SSL_CERT_FILE|SSL_CERT_DIR|NODE_EXTRA_CA_CERTS|(?:HTTPS?|NO|ALL)_PROXY|CLOUD_ML_REGION|(?:AWS|GOOGLE|VERTEX|AZURE)_.*|CLAUDE_CODE_(?:USE|SKIP)_.*|ANTHROPIC_.*)$/i;

/** A tool call may take as long as the process's own deadlines allow. */
const DAY_MS = 24 * 3_600_000;
/** Tokens of a tool result that the CLI passes on whole: the kernel has cut it already. */
const RESULT_TOKENS = 1_000_000;

export interface Endpoint {
  url: string;
  token: string;
}

/** How the CLI is started for one request. `given`: the run's environment. */
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
  const prompt = plain(promptOf(request));
  const pictured = request.messages.some(({ images = [] }) => images.length > 0);
  const dropped = Object.keys(o.given).filter((name) => !PLAIN.test(name));
  const able = (option: string, ...values: string[]): string[] =>
    options.has(option) ? [option, ...values] : [];
  return {
    argv: [
      ...(dropped.length === 0 ? [] : ["/usr/bin/env", ...dropped.flatMap((name) => ["-u", name])]),
      path,
      ...["-p", "--output-format", "stream-json", "--verbose"],
      ...able("--include-partial-messages"),
      ...(pictured ? ["--input-format", "stream-json"] : []),
      ...["--model", request.model],
      ...["--system-prompt-file", o.systemPromptFile],
      ...["--tools", ""],
      ...["--setting-sources", ""],
      "--strict-mcp-config",
      ...["--mcp-config", JSON.stringify({ mcpServers: serversOf(o.endpoint) })],
      ...["--allowed-tools", `mcp__${SERVER}`],
      ...able("--permission-mode", "dontAsk"),
      ...able("--disable-slash-commands"),
      ...able("--no-session-persistence"),
      ...able("--no-chrome"),
      ...(request.max_turns === undefined ? [] : ["--max-turns", String(request.max_turns)]),
      ...(request.effort === undefined ? [] : able("--effort", effortOf(request.effort))),
    ],
    stdin: pictured ? message(prompt, request) : prompt,
    env: {
      ...(o.endpoint && { [TOKEN]: o.endpoint.token }),
      ...keyVariable(o.key),
      ...(o.baseUrl !== undefined && { ANTHROPIC_BASE_URL: o.baseUrl }),
      ...(request.max_output !== undefined && { CLAUDE_CODE_MAX_OUTPUT_TOKENS: String(request.max_output) }),
      // What is tried again, and when, is for the kernel to say.
      CLAUDE_CODE_MAX_RETRIES: "0",
      CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK: "1",
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: "1",
      CLAUDE_CODE_DISABLE_AUTO_MEMORY: "1",
      CLAUDE_CODE_DISABLE_CLAUDE_MDS: "1",
      DISABLE_AUTOUPDATER: "1",
      DISABLE_TELEMETRY: "1",
      DISABLE_ERROR_REPORTING: "1",
      // A prompt is text: no file that it names with an @ is read for it.
      CLAUDE_CODE_DISABLE_FILE_MENTIONS: "1",
      CLAUDE_CODE_DISABLE_ATTACHMENTS: "1",
      // All tools are shown whole from the start, as to any other model.
      ENABLE_TOOL_SEARCH: "false",
      MCP_TOOL_TIMEOUT: String(DAY_MS),
      MAX_MCP_OUTPUT_TOKENS: String(RESULT_TOKENS),
    },
  };
}

/** With images a prompt is a message of the API. Those of a told conversation come behind it, in their order. */
function message(text: string, { messages }: LLMRequest): string {
  const images = messages
    .flatMap(({ images = [] }) => images)
    .map(({ media_type, data }) => ({ type: "image", source: { type: "base64", media_type, data } }));
  const content = [{ type: "text", text }, ...images];
  return `${JSON.stringify({ type: "user", message: { role: "user", content } })}\n`;
}

/** What begins like a command of the program's own is none. */
function plain(prompt: string): string {
  return /^\s*[/!#]/.test(prompt) ? `The request:\n${prompt}` : prompt;
}

function serversOf(endpoint: Endpoint | undefined): object {
  if (!endpoint) return {};
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the CLI puts the variable's value there
  const headers = { Authorization: "Bearer ${RNIX_TOOLS_TOKEN}" };
  return { [SERVER]: { type: "http", url: endpoint.url, headers } };
}

/** A token of `claude setup-token` and a key of the API are told apart by how they begin. */
function keyVariable(key: string): Record<string, string> {
  if (key === "") return {};
  return key.startsWith("sk-ant-oat") ? { CLAUDE_CODE_OAUTH_TOKEN: key } : { ANTHROPIC_API_KEY: key };
}

function effortOf(effort: NonNullable<LLMRequest["effort"]>): string {
  return effort === "minimal" ? "low" : effort;
}
