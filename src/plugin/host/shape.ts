/** The zod schema of a plugin's definition. */

import { z } from "zod";
import { isHidden, isPlain } from "../../config/environment/plain-variables.ts";
import { suggestion } from "../../config/files/suggestion.ts";
import { addressProblem } from "../../config/files/values.ts";
import { readSchema } from "../../vfs/json-schema.ts";
import { DeviceRegistry } from "../../vfs/namespace.ts";
import { type Plugin, SyscallError } from "../index.ts";
import { CommandShape, commandProblems } from "./command-shape.ts";
import { exportedPlugin } from "./exported.ts";
import { FUNCTION, sketch } from "./sketch.ts";
import { SERVICES } from "./wire.ts";

/** The version of the contract in this Rnix. */
const API = 1;

const functionMark = z.literal(FUNCTION, { error: "expected a function" });
const text = z.string({ error: "expected a text" });

const Tool = z.strictObject({
  name: text.regex(/^[A-Za-z][A-Za-z0-9_-]{0,63}$/, {
    error: 'expected a letter, then at most 63 letters, digits, "_" or "-"',
  }),
  description: text.min(1, { error: "expected a text that tells the model what the tool is for" }),
  input: z.looseObject(
    { type: z.literal("object", { error: 'expected "object": a tool\'s input has fields' }) },
    { error: "expected a JSON Schema" },
  ),
  op: text.min(1).optional(),
  path: text.min(1).optional(),
  subject: text.min(1).optional(),
  filters: z.boolean().optional(),
  proc: z.boolean().optional(),
  timeoutMs: z.int({ error: "expected whole milliseconds" }).positive().optional(),
  maxResult: z.int({ error: "expected a whole number of characters" }).positive().optional(),
  defer: z.boolean().optional(),
  origin: text.min(1).max(32).optional(),
  lasting: z.boolean().optional(),
  annotations: z
    .strictObject({
      readOnlyHint: z.boolean().optional(),
      destructiveHint: z.boolean().optional(),
      idempotentHint: z.boolean().optional(),
      openWorldHint: z.boolean().optional(),
    })
    .optional(),
});

const variable = text
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, { error: "expected a variable's name" })
  .refine((name) => !isPlain(name), { error: "expected a variable of its own, which no tool needs" });
const address = text.refine(isAddress, {
  error: "expected a URL of http or https without a name or password",
});

const usd = z.number({ error: "expected USD per million tokens" }).min(0);
const tokens = z.int({ error: "expected a whole number of tokens" }).positive();
const prices = { input: usd, cached: usd, cacheWrite: usd.optional(), output: usd };
const DriverModel = z.strictObject({
  contextWindow: tokens.optional(),
  maxOutput: tokens.optional(),
  price: z
    .strictObject({ ...prices, long: z.strictObject({ ...prices, above: tokens }).optional() })
    .optional(),
});

const ProviderShape = z.strictObject({
  detect: functionMark,
  keyEnvs: z.array(variable).optional(),
  needsKey: z.boolean().optional(),
  baseUrlEnv: variable.optional(),
  baseUrl: address.optional(),
  needsBaseUrl: z.boolean().optional(),
  service: address
    .refine((url) => new URL(url).origin === url, {
      error: "expected an origin such as https://api.example.com",
    })
    .optional(),
  models: z.record(z.string(), DriverModel).optional(),
  listsModels: z.boolean().optional(),
  concurrency: z.int({ error: "expected a whole number" }).positive().max(10_000).optional(),
  isProgram: z.boolean().optional(),
  unconfined: z.boolean().optional(),
  plays: z.boolean().optional(),
});

const DeviceShape = z.strictObject({
  factory: functionMark,
  match: z.enum(["exact", "prefix"]).optional(),
  tools: z.array(Tool).optional(),
  provider: ProviderShape.optional(),
});

const MountShape = z.strictObject({
  type: text.regex(/^[A-Za-z][A-Za-z0-9]{0,31}$/, {
    error: "expected a letter, then at most 31 letters and digits",
  }),
  address: text.optional(),
  open: functionMark,
});

/** The kernel composes the names of mounted tools so that models accept them. */
const MountedTool = Tool.extend({ name: text.min(1).max(200, { error: "expected at most 200 characters" }) });

const MountedShape = z.strictObject({
  devices: z.record(
    z.string(),
    DeviceShape.omit({ provider: true }).extend({ tools: z.array(MountedTool).optional() }),
  ),
  unmount: functionMark,
  onChange: functionMark.optional(),
  onEnd: functionMark.optional(),
});

const Shape = z.strictObject({
  name: text,
  api: z.literal(API, { error: `this Rnix speaks version ${API} of the contract` }).optional(),
  needs: z.array(text).optional(),
  secrets: z
    .array(
      text.regex(/^[A-Za-z_][A-Za-z0-9_]*$/, {
        error: "expected the name of a variable, such as JIRA_TOKEN",
      }),
    )
    .optional(),
  configSchema: z.looseObject({}).optional(),
  devices: z.record(z.string(), DeviceShape).optional(),
  mount: MountShape.optional(),
  prompt: functionMark.optional(),
  filesChanged: functionMark.optional(),
  commands: z.array(CommandShape).optional(),
  dispose: functionMark.optional(),
});

/** A plugin without its functions. */
export type PluginShape = z.infer<typeof Shape>;

/** An open mount without its functions. */
type MountedShape = z.infer<typeof MountedShape>;

interface Judged {
  shape: PluginShape;
  /** Problems that do not prevent loading. */
  warnings: string[];
}

/** Checks the sketch of the plugin `name`. Fails with INVALID, which lists all problems. */
export function judge(name: string, drawn: unknown): Judged {
  const found = z.looseObject({ default: z.looseObject({}) }).safeParse(drawn);
  if (!found.success) {
    const message = `Plugin ${name} has no plugin as its default export. Expected \`export default defineTool({ … })\`, or \`export default definePlugin({ name: "${name}", … })\`, both from "rnix/plugin".`;
    throw new SyscallError("INVALID", message);
  }
  const parsed = Shape.safeParse(found.data.default);
  if (!parsed.success) throw invalid(name, parsed.error.issues.map(issueText));
  const problems = [
    ...headProblems(name, parsed.data),
    ...deviceProblems(name, parsed.data),
    ...commandProblems(parsed.data),
  ];
  if (problems.length > 0) throw invalid(name, problems);
  return { shape: parsed.data, warnings: unreadable(parsed.data) };
}

/** Checks the sketch of an open mount of the plugin `name`. Fails with INVALID, which lists all problems. */
export function judgeMounted(name: string, drawn: unknown): MountedShape {
  const parsed = MountedShape.safeParse(drawn);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map((issue) => `mount: ${issueText(issue)}`);
  throw invalid(name, problems);
}

/** The plugin of a module in this thread. Fails with INVALID when it does not fit the contract. */
export function pluginModule(name: string, module: unknown): Plugin {
  const plugin = exportedPlugin(name, module);
  judge(name, sketch({ default: plugin }));
  return plugin;
}

function headProblems(name: string, shape: PluginShape): string[] {
  const problems: string[] = [];
  if (shape.name !== name) {
    problems.push(`name: it calls itself "${shape.name}", its file "${name}"; they must be the same`);
  }
  for (const need of shape.needs ?? []) {
    if (!SERVICES.some((service) => service === need)) {
      problems.push(`needs: there is no service "${need}".${suggestion(need, SERVICES)}`);
    }
  }
  const { needs = [], secrets = [] } = shape;
  if (secrets.length > 0 && !needs.includes("secret")) {
    problems.push('secrets: the plugin reads them with the service "secret". Add it to needs');
  }
  for (const secret of secrets.filter((one) => !isHidden(one))) {
    problems.push(`secrets: ${secret} can't be the name of a key`);
  }
  return problems;
}

const WithFields = z.object({ properties: z.record(z.string(), z.unknown()) });

/** Paths of the kernel: a plugin there could impersonate it. */
const KERNEL_PATHS = /^\/(?:proc|mnt|dev\/kernel)(?:\/|$)/;

function deviceProblems(name: string, shape: PluginShape): string[] {
  const problems: string[] = [];
  const table = new DeviceRegistry();
  const tools = new Set<string>();
  for (const [path, device] of Object.entries(shape.devices ?? {})) {
    if (KERNEL_PATHS.test(path))
      problems.push(`devices["${path}"]: /proc, /mnt and /dev/kernel are the kernel's`);
    try {
      const shown = { ...device, factory: unused, provider: undefined };
      table.register({ path, device: shown, plugin: name, layer: "stock", needs: [] });
    } catch (error) {
      problems.push(error instanceof SyscallError ? error.message : String(error));
    }
    for (const tool of device.tools ?? []) {
      const at = `devices["${path}"], tool ${tool.name}`;
      if (tools.has(tool.name)) problems.push(`${at}: the name is used twice`);
      tools.add(tool.name);
      const fields = Object.keys(WithFields.safeParse(tool.input).data?.properties ?? {});
      for (const key of ["path", "subject"] as const) {
        const field = tool[key];
        if (field === undefined || fields.includes(field)) continue;
        problems.push(
          `${at}: ${key} names the field "${field}", which its input does not have.${suggestion(field, fields)}`,
        );
      }
      if (tool.path !== undefined && device.match !== "prefix") {
        problems.push(`${at}: a path is appended to the device's, which needs \`match: "prefix"\``);
      }
    }
  }
  return problems;
}

/** Warnings about tools whose schema zod cannot read: the kernel does not check their input. */
function unreadable(shape: PluginShape): string[] {
  const warnings: string[] = [];
  for (const device of Object.values(shape.devices ?? {})) {
    for (const tool of device.tools ?? []) {
      try {
        readSchema(tool.input);
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        warnings.push(`Tool ${tool.name} is offered unchecked, its input schema can't be read: ${why}`);
      }
    }
  }
  return warnings;
}

function isAddress(url: string): boolean {
  return /^https?:$/.test(URL.parse(url)?.protocol ?? "") && addressProblem(url) === undefined;
}

function unused(): never {
  throw new SyscallError("INTERNAL", "A device that was only looked at was opened.");
}

function invalid(name: string, problems: string[]): SyscallError {
  return new SyscallError("INVALID", `Plugin ${name} does not fit the contract. ${problems.join(". ")}.`);
}

function issueText(issue: z.core.$ZodIssue): string {
  const at = issue.path.map(step).join("");
  const keys =
    issue.code === "unrecognized_keys" ? issue.keys.map((key) => `"${key}"`).join(", ") : undefined;
  const message = keys === undefined ? issue.message : `unknown ${keys}`;
  return at === "" ? message : `${at}: ${message}`;
}

/** One key of a path in source form: `devices`, `["/dev/x"]`, `[0]`, `.name`. */
function step(key: PropertyKey, index: number): string {
  if (typeof key === "number") return `[${key}]`;
  const name = String(key);
  if (!/^\w+$/.test(name)) return `["${name}"]`;
  return index === 0 ? name : `.${name}`;
}
