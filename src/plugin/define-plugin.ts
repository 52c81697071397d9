/** Declares plugins and their tools. */

import type { OpenContext } from "./context.ts";
import { SyscallError } from "./errors.ts";
import type { Data, FileStat, VFSFile } from "./file.ts";
import type { Plugin } from "./plugin.ts";
import type { Services } from "./services.ts";
import type { ToolDef } from "./tool.ts";

/**
 * Declares a plugin. The import of its module must open nothing and be fast. `tools`: tools of `defineTool`, at
 * `/dev/<name of the plugin>`.
 */
export function definePlugin<P extends Plugin & { tools?: readonly Tool[] }>(plugin: P): Omit<P, "tools"> {
  const { tools, ...rest } = plugin;
  return tools === undefined ? rest : { ...rest, ...withTools(plugin, tools) };
}

/** The parts of a plugin that come with its tools: one device for all of them. */
function withTools(
  { name, needs = [], secrets = [], configSchema, devices }: Plugin,
  tools: readonly Tool[],
): Partial<Plugin> {
  const path = `/dev/${name}`;
  const schemas = tools.flatMap(({ plugin }) => plugin.configSchema ?? []);
  return {
    needs: [...new Set([...needs, ...tools.flatMap(({ plugin }) => plugin.needs ?? [])])],
    secrets: [...new Set([...secrets, ...tools.flatMap(({ plugin }) => plugin.secrets ?? [])])],
    configSchema: configSchema ?? schemas[0],
    devices: {
      ...devices,
      [path]: {
        tools: tools.map(({ tool }) => tool),
        factory: (_subpath, _flags, context) => new ToolFile(path, tools, context),
      },
    },
  };
}

/** One call of a tool: the write runs it, the reads return its result. */
class ToolFile implements VFSFile {
  readonly #path: string;
  readonly #tools: readonly Tool[];
  readonly #context: OpenContext;
  readonly #end = new AbortController();
  #parts: AsyncIterator<unknown> | undefined;
  #text = "";

  constructor(path: string, tools: readonly Tool[], context: OpenContext) {
    this.#path = path;
    this.#tools = tools;
    this.#context = context;
  }

  async write(data: Data, signal: AbortSignal): Promise<void> {
    const { tool, input } = this.#called(typeof data === "string" ? data : new TextDecoder().decode(data));
    const context = { ...this.#context, signal: this.#end.signal };
    const result = await this.#until(signal, async () => tool.run(input, context));
    if (isAsyncIterable(result)) this.#parts = result[Symbol.asyncIterator]();
    else this.#text = textOf(tool, result);
  }

  async read(max: number, signal: AbortSignal): Promise<string> {
    while (this.#text === "" && this.#parts) {
      const parts = this.#parts;
      const next = await this.#until(signal, () => parts.next());
      if (next.done) this.#parts = undefined;
      else this.#text = textOf(this.#tools[0], next.value);
    }
    const part = this.#text.slice(0, max);
    this.#text = this.#text.slice(part.length);
    return part;
  }

  /** Ends a result that was not read to its end. Its errors are logged, because the call is over. */
  async close(): Promise<void> {
    this.#end.abort(new SyscallError("CLOSED", "The call is over."));
    try {
      await this.#parts?.return?.();
    } catch (thrown) {
      this.#context.log("warn", `after the call: ${String(thrown)}`);
    }
  }

  async stat(): Promise<FileStat> {
    return { name: this.#path.slice("/dev/".length), size: 0, isDevice: true, devicePath: this.#path };
  }

  /** The tool by the request's `op`. A tool that is alone needs none. */
  #called(text: string): { tool: Tool; input: object } {
    const { op, ...input } = requestOf(text);
    const [first, ...others] = this.#tools;
    const tool = this.#tools.find(({ tool: { name } }) => name === op);
    const called = tool ?? (others.length === 0 && op === undefined ? first : undefined);
    if (called) return { tool: called, input };
    const names = this.#tools.map(({ tool: { name } }) => name).join(", ");
    throw new SyscallError("INVALID", `${this.#path}: expected {"op": "…", …} with one of ${names} as op.`);
  }

  /** Runs a part of the call. Its signal ends the whole call. */
  async #until<T>(signal: AbortSignal, run: () => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    const end = () => this.#end.abort(signal.reason);
    signal.addEventListener("abort", end, { once: true });
    try {
      return await run();
    } finally {
      signal.removeEventListener("abort", end);
    }
  }
}

function requestOf(text: string): { op?: unknown } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new SyscallError("INVALID", `Expected a JSON object, got ${text.slice(0, 100)}`, { cause });
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  throw new SyscallError("INVALID", `Expected a JSON object, got ${text.slice(0, 100)}`);
}

function textOf(tool: Tool | undefined, value: unknown): string {
  if (typeof value === "string") return value;
  throw new SyscallError(
    "DRIVER",
    `run() of ${tool?.tool.name} returned ${value === null ? "null" : typeof value}. Expected a text, or an async iterable of texts; for data, JSON.stringify(…).`,
  );
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.asyncIterator in value;
}

/** Declares a tool by one function. As the default export it is a whole plugin, with the name of its file. */
export function defineTool<const S extends InputSchema, const N extends keyof Services = never>(
  spec: ToolSpec<S, N>,
): Tool {
  const { needs, secrets, configSchema, run, ...tool } = spec;
  if (typeof run !== "function") {
    throw new SyscallError("INVALID", "defineTool: expected a function run(input, context).");
  }
  // The request to the device names its tool by this field.
  if (Object.hasOwn(tool.input.properties ?? {}, "op")) {
    throw new SyscallError("INVALID", 'defineTool: the input can have no field "op". Choose another name.');
  }
  return {
    tool,
    plugin: {
      ...(needs && { needs: [...needs] }),
      ...(secrets && { secrets: [...secrets] }),
      ...(configSchema && { configSchema }),
    },
    // The kernel has checked the input against the schema, and the services are those of `needs`.
    run: (input, context) => Reflect.apply(run, spec, [input, context]),
  };
}

/** A tool and the function that answers its calls. */
export interface ToolSpec<S extends InputSchema, N extends keyof Services>
  extends Omit<ToolDef, "input" | "op" | "path"> {
  /** JSON Schema. The kernel checks the input of each call before `run` gets it. */
  input: S;
  needs?: readonly N[];
  /** Names of the plugin's own keys: see `Plugin`. */
  secrets?: readonly string[];
  /** JSON Schema of the plugin's settings in config.yaml. They are in `context.config`. */
  configSchema?: object;
  /** Returns the result, whole or in parts. Throws a SyscallError to fail the call. */
  run(input: FromSchema<S>, context: ToolContext<N>): ToolResult | Promise<ToolResult>;
}

/** The input of a tool: JSON Schema of an object. */
export interface InputSchema {
  type: "object";
  properties?: Readonly<Record<string, unknown>>;
  required?: readonly string[];
  readonly [keyword: string]: unknown;
}

/** The values that fit a JSON Schema; unknown where types can't tell. */
export type FromSchema<S> = S extends { enum: readonly (infer E)[] }
  ? E
  : S extends { type: "string" }
    ? string
    : S extends { type: "number" | "integer" }
      ? number
      : S extends { type: "boolean" }
        ? boolean
        : S extends { type: "array" }
          ? (S extends { items: infer I } ? FromSchema<I> : unknown)[]
          : S extends { type: "object"; properties: infer P }
            ? FieldsOf<P, S extends { required: readonly (infer R)[] } ? R : never>
            : S extends { type: "object" }
              ? Record<string, unknown>
              : unknown;

type FieldsOf<P, R> = { -readonly [K in keyof P as K extends R ? K : never]: FromSchema<P[K]> } & {
  -readonly [K in keyof P as K extends R ? never : K]?: FromSchema<P[K]>;
};

/** What a tool's `run` gets: the context of the call, the services of `needs`, and a signal that ends the work. */
export type ToolContext<N extends keyof Services = never> = OpenContext &
  Pick<Services, N> & { signal: AbortSignal };

/** A text, or its parts. */
export type ToolResult = string | AsyncIterable<string>;

/** The result of `defineTool`: a plugin by itself as the default export, or one of the `tools` of a plugin. */
export interface Tool {
  readonly tool: ToolDef;
  readonly plugin: Pick<Plugin, "needs" | "secrets" | "configSchema">;
  readonly run: (input: object, context: ToolContext) => unknown;
}
