/** A tool that is declared by one function, without a device of its own. */

import type { OpenContext } from "./context.ts";
import { SyscallError } from "./errors.ts";
import type { Plugin } from "./plugin.ts";
import type { Services } from "./services.ts";
import type { ToolDef } from "./tool.ts";

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
