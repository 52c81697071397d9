import type { Client, Resource, Tool } from "@modelcontextprotocol/client";
import { type Device, type Mounted, type OpenContext, SyscallError, type ToolDef } from "rnix/plugin";
import { AnswerFile } from "./answer-file.ts";
import { type Connection, connect } from "./connect.ts";
import { failure, isGone } from "./failure.ts";
import { resourceText, resultText } from "./result.ts";
import { type ServerSettings, settingsOf } from "./settings.ts";

/** Characters of a description; what servers write there goes to the model with every request. */
const MAX_DESCRIPTION = 4_000;
/** Tools of one server; what is beyond it is left out and told in the log. */
const MAX_TOOLS = 512;
/** Lists are read again at most so often. */
const REFRESH_MS = 1_000;
/** The kernel waits so much longer than a request may take, so that it is the server's failure that is told. */
const MARGIN_MS = 1_000;

/** Connects to a server and makes its tools and resources devices (seeds 000 §3.4). */
export async function openServer(
  config: object,
  context: OpenContext,
  signal: AbortSignal,
): Promise<Mounted> {
  const server = new Server(settingsOf(config), context);
  await server.open(signal);
  return server;
}

class Server implements Mounted {
  devices: Record<string, Device> = {};
  readonly #settings: ServerSettings;
  readonly #context: OpenContext;
  #connection: Connection | undefined;
  #tellChange: ((devices: Record<string, Device>) => void) | undefined;
  #tellEnd: ((why: SyscallError) => void) | undefined;
  #ended: SyscallError | undefined;
  #unmounted = false;
  #refresh: ReturnType<typeof setTimeout> | undefined;
  #refreshedAt = 0;

  constructor(settings: ServerSettings, context: OpenContext) {
    this.#settings = settings;
    this.#context = context;
  }

  async open(signal: AbortSignal): Promise<void> {
    const connection = await connect(
      this.#settings,
      this.#context,
      {
        toolsChanged: () => this.#changed(),
        closed: () => this.#end(),
        error: (error) => this.#log(error.message),
      },
      signal,
    );
    this.#connection = connection;
    try {
      await this.#readTools(connection.client, signal);
    } catch (thrown) {
      await connection.close();
      throw failure(thrown, this.#settings.name, signal);
    }
  }

  onChange(tell: (devices: Record<string, Device>) => void): void {
    this.#tellChange = tell;
  }

  onEnd(tell: (why: SyscallError) => void): void {
    this.#tellEnd = tell;
    if (this.#ended) tell(this.#ended);
  }

  async unmount(): Promise<void> {
    this.#unmounted = true;
    clearTimeout(this.#refresh);
    await this.#connection?.close();
  }

  async #readTools(client: Client, signal?: AbortSignal): Promise<void> {
    const { requestTimeoutMs } = this.#settings;
    this.#refreshedAt = performance.now();
    const { tools } = await client.listTools(undefined, {
      signal,
      timeout: requestTimeoutMs,
      cacheMode: "refresh",
    });
    if (tools.length > MAX_TOOLS)
      this.#log(`${tools.length - MAX_TOOLS} of its ${tools.length} tools are left out`);
    this.devices = this.#devicesOf(tools.slice(0, MAX_TOOLS), client);
  }

  /** Its list of tools is another one; read again soon, and not more often than that. */
  #changed(): void {
    if (this.#refresh !== undefined || this.#unmounted || !this.#connection) return;
    const { client } = this.#connection;
    const wait = Math.max(0, this.#refreshedAt + REFRESH_MS - performance.now());
    this.#refresh = setTimeout(async () => {
      this.#refresh = undefined;
      try {
        await this.#readTools(client);
        if (!this.#unmounted) this.#tellChange?.(this.devices);
      } catch (thrown) {
        // What it offered before stays; a call says for itself whether it still works.
        this.#log(`its tools can't be listed anew: ${failure(thrown, this.#settings.name).message}`);
      }
    }, wait);
  }

  #end(why = this.#connection?.end() ?? "closed the connection."): void {
    if (this.#unmounted || this.#ended) return;
    this.#ended = new SyscallError("UNAVAILABLE", `MCP server ${this.#settings.name} ${why}`);
    this.#tellEnd?.(this.#ended);
  }

  #devicesOf(tools: readonly Tool[], client: Client): Record<string, Device> {
    const devices: Record<string, Device> = { "": this.#root(tools, client) };
    if (client.getServerCapabilities()?.resources) devices["/resources"] = this.#resources(tools, client);
    for (const tool of tools) {
      const place = `/tools/${placeOf(tool.name)}`;
      if (devices[place]) this.#log(`its tool ${tool.name} is left out: another one is at ${place}`);
      else devices[place] = this.#toolDevice(tool, client);
    }
    return devices;
  }

  #toolDevice(tool: Tool, client: Client): Device {
    const op = `mcp:${tool.name}`;
    // A result is for a model: one that does not fit the server's own schema is worth more than an error.
    const unchecked = { ...tool, outputSchema: undefined };
    const { name } = this.#settings;
    return {
      tools: [this.#definition(tool, op)],
      factory: (_subpath, _flags, context) =>
        new AnswerFile({
          name: tool.name,
          write: async (input, signal) => {
            // The kernel's word for which tool is meant, unless it is the tool's own.
            const { op: given, ...rest } = input;
            const args = given === op ? rest : input;
            const result = await this.#ask(signal, (options) =>
              client.callTool(
                { name: tool.name, arguments: args },
                { ...options, onprogress: progress(context), toolDefinition: unchecked },
              ),
            );
            const text = await resultText(result, context);
            if (result.isError) throw new SyscallError("DRIVER", text || `${name}: ${tool.name} failed.`);
            return text;
          },
        }),
    };
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
      defer: true,
      annotations: { readOnlyHint, destructiveHint, idempotentHint, openWorldHint },
    };
  }

  /** What there is, to read: the server itself, and the list of its tools. */
  #root(tools: readonly Tool[], client: Client): Device {
    const resources = client.getServerCapabilities()?.resources !== undefined;
    const texts: Record<string, string> = {
      "": JSON.stringify(resources ? ["tools", "resources"] : ["tools"]),
      "/tools": JSON.stringify(tools),
    };
    return {
      match: "prefix",
      factory: (subpath) => {
        const text = texts[subpath.replace(/\/$/, "")];
        if (text === undefined) {
          throw new SyscallError("NOT_FOUND", `MCP server ${this.#settings.name} has nothing at ${subpath}.`);
        }
        return new AnswerFile({ name: subpath || "/", read: async () => text });
      },
    };
  }

  /** The list of resources, or by its URI one of them. Two tools for models, unless the server has some of the name. */
  #resources(tools: readonly Tool[], client: Client): Device {
    const list = (): Promise<Resource[]> => this.#listResources(client);
    const readOne = async (uri: string, context: OpenContext, signal?: AbortSignal): Promise<string> => {
      const result = await this.#ask(signal, (options) => client.readResource({ uri }, options));
      return resourceText(result, context);
    };
    const taken = new Set(tools.map(({ name }) => name));
    return {
      match: "prefix",
      tools: RESOURCE_TOOLS.filter(({ name }) => !taken.has(name)),
      factory: (subpath, _flags, context) => {
        const uri = uriOf(subpath);
        if (uri !== "") return new AnswerFile({ name: uri, read: (signal) => readOne(uri, context, signal) });
        return new AnswerFile({
          name: "/resources",
          read: async () => JSON.stringify(await list()),
          write: async ({ op, uri: wanted }, signal) => {
            if (op === LIST) return JSON.stringify(await list());
            if (typeof wanted === "string" && wanted !== "") return readOne(wanted, context, signal);
            throw new SyscallError("INVALID", `expected {"uri": …}, or the operation ${LIST}.`);
          },
        });
      },
    };
  }

  async #listResources(client: Client): Promise<Resource[]> {
    const { resources } = await this.#ask(undefined, (options) => client.listResources(undefined, options));
    return resources;
  }

  /** One request, within its time limit; what it fails with is one of our errors. */
  async #ask<T>(
    signal: AbortSignal | undefined,
    run: (options: { signal?: AbortSignal; timeout: number; maxTotalTimeout: number }) => Promise<T>,
  ): Promise<T> {
    if (this.#ended) throw this.#ended;
    const timeout = this.#settings.requestTimeoutMs;
    try {
      return await run({ signal, timeout, maxTotalTimeout: timeout });
    } catch (thrown) {
      if (isGone(thrown)) this.#end("does not know this session any more.");
      throw this.#ended && !signal?.aborted ? this.#ended : failure(thrown, this.#settings.name, signal);
    }
  }

  #log(text: string): void {
    this.#context.log("warn", `${this.#settings.name}: ${text}`);
  }
}

const LIST = "list_resources";
const READ = "read_resource";
const RESOURCE_TOOLS: ToolDef[] = [
  {
    name: LIST,
    op: LIST,
    description: "List the resources that this MCP server has, with their URIs, as JSON.",
    input: { type: "object", properties: {}, additionalProperties: false },
    defer: true,
    annotations: { readOnlyHint: true },
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
    defer: true,
    annotations: { readOnlyHint: true },
  },
];

/** A part of a path that stands for any name: what a path can't hold becomes "_". */
function placeOf(name: string): string {
  const place = name.replaceAll(/[^A-Za-z0-9._-]/g, "_");
  return /^\.+$/.test(place) ? `_${place}` : place;
}

/** `/file:///a` is that URI, also where its first part is written as one of a URL's own. */
function uriOf(subpath: string): string {
  const uri = subpath.replace(/^\//, "");
  return /^[a-z][a-z0-9+.-]*%3A/i.test(uri) ? decodeURIComponent(uri) : uri;
}

function progress({ progress: tell }: OpenContext) {
  return ({ progress: done, total, message }: { progress: number; total?: number; message?: string }): void =>
    tell(`${done}${total === undefined ? "" : ` of ${total}`}${message ? `: ${message}` : ""}`);
}
