/** An MCP server that is mounted: its tools, resources and prompts as devices. */

import type { Client, Resource, Tool } from "@modelcontextprotocol/client";
import { type Device, type Mounted, type OpenContext, SyscallError, type ToolDef } from "rnix/plugin";
import { AnswerFile } from "../_lib/answer-file.ts";
import { jsonObject } from "../_lib/json.ts";
import { type Connection, connect, type RequestRunner } from "./connect.ts";
import { failure, isGone } from "./failure.ts";
import { limitedLog } from "./limited-log.ts";
import { login } from "./oauth.ts";
import { listPrompts, pathSegmentOf, promptDevice } from "./prompts.ts";
import { resourceText, resultText } from "./result.ts";
import type { OpenCall } from "./server-requests.ts";
import { type HttpSettings, type ServerSettings, settingsOf } from "./settings.ts";

/** Characters of a tool's description, which every request carries. */
const MAX_DESCRIPTION = 4_000;
/** Characters of a description in the summary. */
const MAX_SUMMARY = 1_000;
/** Tools of one server; the rest is left out, with a line in the log. */
const MAX_TOOLS = 512;
/** At least this much time lies between two readings of the list of tools. */
const REFRESH_MS = 1_000;
/** Different requests of a server that the result of one call mentions. */
const MAX_NOTICES = 5;
/** The longest time of a timer. */
const MAX_TIMER_MS = 2 ** 31 - 1;
/** The kernel waits this much longer than a request may take, so that the server's own failure is reported. */
const MARGIN_MS = 1_000;

/** Connects to a server and offers its tools, resources and prompts as devices (seeds 000 §3.4). */
export async function openServer(
  config: object,
  context: OpenContext,
  signal: AbortSignal,
): Promise<Mounted> {
  const settings = settingsOf(config);
  if ("login" in settings && settings.login)
    return { devices: { "/login": loginDevice(settings) }, unmount: async () => {} };
  const server = new Server(settings, context);
  await server.open(signal);
  return server;
}

/** What is written is one half of a login. No connection is open meanwhile. */
function loginDevice(settings: HttpSettings): Device {
  const answer = (text: string): Promise<string> => login(settings, jsonObject("/login", text));
  return { factory: () => new AnswerFile({ device: "/login", answer }) };
}

class Server implements Mounted {
  devices: Record<string, Device> = {};
  readonly #settings: ServerSettings;
  readonly #context: OpenContext;
  readonly #log: (text: string) => void;
  /** The log of what the server itself does: `rnix mcp logs`. */
  readonly #ownLog: (text: string) => void;
  #connection: Connection | undefined;
  #onChange: ((devices: Record<string, Device>) => void) | undefined;
  #onEnd: ((why: SyscallError) => void) | undefined;
  #ended: SyscallError | undefined;
  #unmounted = false;
  #refresh: ReturnType<typeof setTimeout> | undefined;
  #refreshedAt = 0;
  /** The time from its start to the list of its tools. */
  #startMs = 0;
  readonly #open = new Set<OpenCall>();

  constructor(settings: ServerSettings, context: OpenContext) {
    this.#settings = settings;
    this.#context = context;
    this.#ownLog = limitedLog((text) => context.log("info", text));
    this.#log = limitedLog((text) => context.log("warn", `${this.#settings.name}: ${text}`));
  }

  async open(signal: AbortSignal): Promise<void> {
    const startedAt = performance.now();
    const connection = await connect(
      this.#settings,
      this.#context,
      {
        toolsChanged: () => this.#toolsChanged(),
        notice: (text) => this.#notice(text),
        call: () => (this.#open.size === 1 ? [...this.#open][0] : undefined),
        closed: () => this.#end(),
        error: (error) => this.#log(error.message),
      },
      signal,
    );
    this.#connection = connection;
    try {
      await this.#readTools(connection.client, signal);
      this.#startMs = Math.round(performance.now() - startedAt);
    } catch (thrown) {
      await connection.close();
      throw failure(thrown, this.#settings.name, signal);
    }
  }

  onChange(listener: (devices: Record<string, Device>) => void): void {
    this.#onChange = listener;
  }

  onEnd(listener: (why: SyscallError) => void): void {
    this.#onEnd = listener;
    if (this.#ended) listener(this.#ended);
  }

  async unmount(): Promise<void> {
    this.#unmounted = true;
    clearTimeout(this.#refresh);
    await this.#connection?.close();
  }

  async #readTools(client: Client, signal?: AbortSignal): Promise<void> {
    const { requestTimeoutMs } = this.#settings;
    this.#refreshedAt = performance.now();
    const listed = await client.listTools(undefined, {
      signal,
      timeout: requestTimeoutMs,
      cacheMode: "refresh",
    });
    // Such a call is a task, which is polled: no ordinary call succeeds.
    const tools = listed.tools.filter(({ execution }) => execution?.taskSupport !== "required");
    if (tools.length > MAX_TOOLS)
      this.#log(`${tools.length - MAX_TOOLS} of its ${tools.length} tools are left out`);
    this.devices = this.#devicesOf(tools.slice(0, MAX_TOOLS), client);
  }

  /** The server's tools have changed: reads their list again, with REFRESH_MS between two readings. */
  #toolsChanged(): void {
    if (this.#refresh !== undefined || this.#unmounted || !this.#connection) return;
    const { client } = this.#connection;
    const wait = Math.max(0, this.#refreshedAt + REFRESH_MS - performance.now());
    this.#refresh = setTimeout(async () => {
      this.#refresh = undefined;
      try {
        await this.#readTools(client);
        if (!this.#unmounted) this.#onChange?.(this.devices);
      } catch (thrown) {
        // The known tools stay: a call shows whether its tool still works.
        this.#log(`its tools can't be listed again: ${failure(thrown, this.#settings.name).message}`);
      }
    }, wait);
  }

  #end(why = this.#connection?.end() ?? "closed the connection."): void {
    if (this.#unmounted || this.#ended) return;
    this.#ended = new SyscallError("UNAVAILABLE", `MCP server ${this.#settings.name} ${why}`);
    this.#onEnd?.(this.#ended);
  }

  #devicesOf(tools: readonly Tool[], client: Client): Record<string, Device> {
    const devices: Record<string, Device> = { "": this.#root(tools, client) };
    const has = client.getServerCapabilities();
    if (has?.resources) devices["/resources"] = this.#resources(tools, client);
    if (has?.prompts) devices["/prompts"] = promptDevice(client, this.#request);
    for (const tool of tools) {
      const path = `/tools/${pathSegmentOf(tool.name)}`;
      if (devices[path]) this.#log(`its tool ${tool.name} is left out: another tool is at ${path}`);
      else devices[path] = this.#toolDevice(tool, client);
    }
    return devices;
  }

  #toolDevice(tool: Tool, client: Client): Device {
    const op = `mcp:${tool.name}`;
    // A result that does not match the server's own schema is worth more to a model than an error.
    const unchecked = { ...tool, outputSchema: undefined };
    const { name } = this.#settings;
    return {
      tools: [this.#definition(tool, op)],
      factory: (_subpath, _flags, context) =>
        new AnswerFile({
          device: tool.name,
          content: async () => JSON.stringify(tool),
          answer: async (text, signal) => {
            const input = jsonObject(tool.name, text);
            // `op` is the kernel's name of the tool, unless the tool has a field of that name.
            const { op: given, ...rest } = input;
            const args = given === op ? rest : input;
            const call: OpenCall = { context, notices: new Set(), samples: 0 };
            this.#open.add(call);
            const result = await this.#request(signal, (options) =>
              client.callTool(
                { name: tool.name, arguments: args, ...keyOf(context) },
                { ...options, ...this.#callTime, onprogress: progress(context), toolDefinition: unchecked },
              ),
            ).finally(() => this.#open.delete(call));
            const answer = [await resultText(result, context), ...call.notices].filter(Boolean).join("\n");
            if (result.isError) throw new SyscallError("DRIVER", answer || `${name}: ${tool.name} failed.`);
            return answer;
          },
        }),
    };
  }

  /** While the user answers a question of the server, the time of the call stands still: the kernel measures it. */
  get #callTime() {
    return this.#settings.elicitation === "ask"
      ? { timeout: MAX_TIMER_MS, maxTotalTimeout: MAX_TIMER_MS }
      : {};
  }

  #definition(tool: Tool, op: string): ToolDef {
    const { readOnlyHint, destructiveHint, idempotentHint, openWorldHint } = tool.annotations ?? {};
    return {
      name: tool.name,
      op,
      description: (
        tool.description || `The tool ${tool.name} of the MCP server ${this.#settings.name}.`
      ).slice(0, MAX_DESCRIPTION),
      input: { ...tool.inputSchema },
      timeoutMs: this.#settings.requestTimeoutMs + MARGIN_MS,
      annotations: { readOnlyHint, destructiveHint, idempotentHint, openWorldHint },
      origin: ORIGIN,
    };
  }

  /** What can be read of the server itself: its folders, and the list of its tools. */
  #root(tools: readonly Tool[], client: Client): Device {
    const { resources, prompts } = client.getServerCapabilities() ?? {};
    const folders = ["tools", ...(resources ? ["resources"] : []), ...(prompts ? ["prompts"] : [])];
    const texts: Record<string, string> = {
      "": JSON.stringify(folders),
      "/tools": JSON.stringify(tools),
    };
    return {
      match: "prefix",
      factory: (subpath) => {
        if (subpath === "/summary") {
          return new AnswerFile({ device: subpath, content: () => this.#summary(tools, client) });
        }
        const text = texts[subpath.replace(/\/$/, "")];
        if (text === undefined) {
          throw new SyscallError("NOT_FOUND", `MCP server ${this.#settings.name} has nothing at ${subpath}.`);
        }
        return new AnswerFile({ device: subpath || "/", content: async () => text });
      },
    };
  }

  /** What the server has, by name and description, and how long its start took. */
  async #summary(tools: readonly Tool[], client: Client): Promise<string> {
    const has = client.getServerCapabilities();
    const resources = has?.resources ? await this.#listResources(client) : [];
    const prompts = await listPrompts(client, this.#request);
    const lines = (items: readonly { name: string; description?: string }[]): object[] =>
      items.slice(0, MAX_TOOLS).map(({ name, description = "" }) => ({
        name,
        description: description.slice(0, MAX_SUMMARY),
      }));
    return JSON.stringify({
      start_ms: this.#startMs,
      tools: lines(tools),
      resources: lines(
        resources.map(({ uri, name, description }) => ({ name: uri, description: description ?? name })),
      ),
      prompts: lines(prompts),
    });
  }

  /** The list of resources, or one resource by its URI. Also two tools, unless the server has tools of these names. */
  #resources(tools: readonly Tool[], client: Client): Device {
    const list = (): Promise<Resource[]> => this.#listResources(client);
    const readOne = async (uri: string, context: OpenContext, signal?: AbortSignal): Promise<string> => {
      const result = await this.#request(signal, (options) =>
        client.readResource({ uri, ...keyOf(context) }, options),
      );
      return resourceText(result, context);
    };
    const taken = new Set(tools.map(({ name }) => name));
    return {
      match: "prefix",
      tools: RESOURCE_TOOLS.filter(({ name }) => !taken.has(name)),
      factory: (subpath, _flags, context) => {
        const uri = uriOf(subpath);
        if (uri !== "")
          return new AnswerFile({ device: uri, content: (signal) => readOne(uri, context, signal) });
        return new AnswerFile({
          device: "/resources",
          content: async () => JSON.stringify(await list()),
          answer: async (text, signal) => {
            const { op, uri: wanted } = jsonObject("/resources", text);
            if (op === LIST) return JSON.stringify(await list());
            if (typeof wanted === "string" && wanted !== "") return readOne(wanted, context, signal);
            throw new SyscallError("INVALID", `expected {"uri": …}, or the operation ${LIST}.`);
          },
        });
      },
    };
  }

  async #listResources(client: Client): Promise<Resource[]> {
    const { resources } = await this.#request(undefined, (options) =>
      client.listResources(undefined, options),
    );
    return resources;
  }

  readonly #request: RequestRunner = async (signal, run) => {
    if (this.#ended) throw this.#ended;
    const timeout = this.#settings.requestTimeoutMs;
    try {
      return await run({ signal, timeout, maxTotalTimeout: timeout });
    } catch (thrown) {
      if (isGone(thrown)) this.#end("no longer knows this session.");
      throw this.#ended && !signal?.aborted ? this.#ended : failure(thrown, this.#settings.name, signal);
    }
  };

  #notice(text: string): void {
    this.#ownLog(text);
    for (const { notices } of this.#open) if (notices.size < MAX_NOTICES) notices.add(text);
  }
}

const CALL_KEY = "rnix/call";
const ORIGIN = "mcp";
const LIST = "list_resources";
const READ = "read_resource";
const RESOURCE_TOOLS: ToolDef[] = [
  {
    name: LIST,
    op: LIST,
    description: "List the resources that this MCP server has, with their URIs, as JSON.",
    input: { type: "object", properties: {}, additionalProperties: false },
    annotations: { readOnlyHint: true },
    origin: ORIGIN,
  },
  {
    name: READ,
    op: READ,
    description: "Read one resource of this MCP server by its URI.",
    input: {
      type: "object",
      properties: { uri: { type: "string", minLength: 1, description: "As it is listed" } },
      required: ["uri"],
      additionalProperties: false,
    },
    annotations: { readOnlyHint: true },
    origin: ORIGIN,
  },
];

/** The URI in a subpath such as `/file:///a`. Its scheme may be percent-encoded. */
function uriOf(subpath: string): string {
  const uri = subpath.replace(/^\//, "");
  return /^[a-z][a-z0-9+.-]*%3A/i.test(uri) ? decodeURIComponent(uri) : uri;
}

/** The key of the call, for a server that drops the second of two calls with one key, and its trace. */
function keyOf({ call, env }: OpenContext): { _meta?: Record<string, string> } {
  const { TRACEPARENT: traceparent } = env;
  return call === undefined ? {} : { _meta: { [CALL_KEY]: call.key, ...(traceparent && { traceparent }) } };
}

function progress({ output }: OpenContext) {
  return ({ progress: done, total, message }: { progress: number; total?: number; message?: string }): void =>
    output(`${done}${total === undefined ? "" : ` of ${total}`}${message ? `: ${message}` : ""}\n`);
}
