import { describe, expect, test } from "bun:test";
import { judge } from "../../src/plugin/host/shape.ts";
import { sketch } from "../../src/plugin/host/sketch.ts";
import { definePlugin, SyscallError } from "../../src/plugin/index.ts";

const factory = () => {
  throw new SyscallError("INTERNAL", "not opened");
};
const input = { type: "object", properties: { place: { type: "string" } }, required: ["place"] };
const tool = { name: "Weather", description: "Tells the weather of a place", input };

/** What the module exports as default is `plugin`; its file is called weather. */
function judged(plugin: unknown): ReturnType<typeof judge> {
  return judge("weather", sketch({ default: plugin }));
}

function message(plugin: unknown): string {
  try {
    judged(plugin);
  } catch (error) {
    if (error instanceof SyscallError && error.code === "INVALID") return error.message;
    throw error;
  }
  return "(fits)";
}

const withDevice = (device: object, path = "/dev/weather") => ({
  name: "weather",
  devices: { [path]: { factory, ...device } },
});

const withFacts = (facts: object) => withDevice({ provider: { detect: async () => null, ...facts } });

describe("the shape of a plugin", () => {
  test("fits with everything the contract knows", () => {
    const plugin = definePlugin({
      name: "weather",
      api: 1,
      needs: ["exec", "store", "secret"],
      configSchema: { type: "object" },
      devices: {
        "/dev/weather": {
          factory,
          match: "prefix",
          provider: {
            detect: async () => null,
            keyEnvs: ["WEATHER_KEY"],
            needsKey: true,
            baseUrlEnv: "WEATHER_URL",
            baseUrl: "http://127.0.0.1:1/v1",
            needsBaseUrl: false,
            service: "https://api.weather.example",
            models: {
              sunny: {
                contextWindow: 1000,
                maxOutput: 100,
                price: {
                  ...{ input: 1, cached: 0.1, cacheWrite: 1.25, output: 2 },
                  long: { above: 500, input: 2, cached: 0.2, output: 4 },
                },
              },
            },
            listsModels: false,
            concurrency: 2,
            isProgram: false,
            unconfined: false,
            plays: false,
          },
          tools: [
            {
              ...tool,
              op: "weather",
              path: "place",
              subject: "place",
              timeoutMs: 1,
              maxResult: 1,
              defer: true,
              annotations: { readOnlyHint: true },
            },
          ],
        },
        "/dev/other": { factory },
      },
      mount: { type: "weather", open: async () => ({ devices: {}, unmount: async () => {} }) },
      dispose: async () => {},
    });
    expect(judged(plugin).warnings).toEqual([]);
    expect(Object.keys(judged(plugin).shape.devices ?? {})).toEqual(["/dev/weather", "/dev/other"]);
  });

  test("fits when it and its devices are classes", () => {
    class Device {
      factory(): never {
        return factory();
      }
    }
    expect(message({ name: "weather", devices: { "/dev/weather": new Device() } })).toBe("(fits)");
  });

  const FAULTS: [string, unknown, string][] = [
    ["no default export", undefined, "default export"],
    ["a function as default export", () => {}, "default export"],
    ["no name", {}, "name: expected a text"],
    ["another name", { name: "wether" }, 'calls itself "wether", its file "weather"'],
    ["a misspelt field", { name: "weather", device: {} }, 'unknown "device"'],
    ["another contract", { name: "weather", api: 2 }, "version 1 of the contract"],
    ["an unknown need", { name: "weather", needs: ["exce"] }, 'no service "exce". Did you mean "exec"?'],
    [
      "a device without a factory",
      withDevice({ factory: undefined }),
      'devices["/dev/weather"].factory: expected a function',
    ],
    ["a relative device path", withDevice({}, "dev/weather"), "expected an absolute path"],
    ["a device path that climbs", withDevice({}, "/dev/../fs"), "expected an absolute path"],
    ["a path of the kernel's", withDevice({}, "/dev/kernel/complete"), "are the kernel's"],
    ["a path below /proc", withDevice({}, "/proc"), "are the kernel's"],
    ["a third kind of match", withDevice({ match: "regex" }), 'devices["/dev/weather"].match'],
    [
      "a tool's name with blanks",
      withDevice({ tools: [{ ...tool, name: "The Weather" }] }),
      "tools[0].name: expected a letter",
    ],
    [
      "a tool without a description",
      withDevice({ tools: [{ ...tool, description: "" }] }),
      "tells the model",
    ],
    [
      "an input that is no schema",
      withDevice({ tools: [{ ...tool, input: "text" }] }),
      "tools[0].input: expected a JSON Schema",
    ],
    [
      "an input that is no object",
      withDevice({ tools: [{ ...tool, input: { type: "string" } }] }),
      'tools[0].input.type: expected "object"',
    ],
    [
      "a subject the input lacks",
      withDevice({ tools: [{ ...tool, subject: "plase" }] }),
      'names the field "plase", which its input does not have. Did you mean "place"?',
    ],
    ["a path without prefix", withDevice({ tools: [{ ...tool, path: "place" }] }), '`match: "prefix"`'],
    ["one tool twice", withDevice({ tools: [tool, tool] }), "the name is used twice"],
    [
      "a misspelt hint",
      withDevice({ tools: [{ ...tool, annotations: { readonlyHint: true } }] }),
      'unknown "readonlyHint"',
    ],
    [
      "a mount of no type",
      { name: "weather", mount: { type: "a b", open: factory } },
      "mount.type: expected a letter",
    ],
    [
      "a mount that can't be opened",
      { name: "weather", mount: { type: "w" } },
      "mount.open: expected a function",
    ],
    ["a provider without detect", withDevice({ provider: {} }), "provider.detect: expected a function"],
    ["a key where its variable belongs", withFacts({ keyEnvs: ["sk-1"] }), "expected a variable's name"],
    ["a key variable that every tool needs", withFacts({ keyEnvs: ["PATH"] }), "a variable of its own"],
    ["an address variable that every tool needs", withFacts({ baseUrlEnv: "HOME" }), "a variable of its own"],
    ["an address that is none", withFacts({ baseUrl: "api.example.com" }), "expected a URL"],
    ["an address with a password", withFacts({ baseUrl: "https://me:pw@api.example.com" }), "without a name"],
    ["a service with a path", withFacts({ service: "https://api.example.com/v1" }), "expected an origin"],
    ["no concurrent request", withFacts({ concurrency: 0 }), "concurrency"],
    [
      "a price below zero",
      withFacts({ models: { m: { price: { input: -1, cached: 0, output: 0 } } } }),
      "input",
    ],
    ["an unknown fact", withFacts({ keys: ["A"] }), 'unknown "keys"'],
  ];
  for (const [what, plugin, said] of FAULTS) {
    test(`with ${what} is refused, and the message says why`, () => expect(message(plugin)).toContain(said));
  }

  test("all its faults are named at once", () => {
    const text = message({ name: "weather", needs: ["net"], devices: { dev: { factory } } });
    expect(text).toContain('"net"');
    expect(text).toContain('"dev"');
  });

  test("a schema that zod can't read is offered unchecked, with a warning", () => {
    const foreign = { ...tool, input: { ...input, $ref: "https://example.com/schema.json" } };
    expect(judged(withDevice({ tools: [foreign] })).warnings).toEqual([
      expect.stringContaining("Weather is offered unchecked"),
    ]);
  });

  test("a value that can't be cloned, or is circular, is still printed and checked", () => {
    const circle: Record<string, unknown> = { name: "weather", configSchema: { big: 1n, sign: Symbol("s") } };
    circle.configSchema = { ...Object(circle.configSchema), circle };
    expect(structuredClone(sketch({ default: circle }))).toEqual({
      default: { name: "weather", configSchema: { big: "[bigint]", sign: "[symbol]", circle: "[circular]" } },
    });
  });
});

describe("the commands of a plugin", () => {
  const action = { summary: "List", example: "rnix weather list", call: { tool: "Weather" } };
  const withCommands = (...commands: object[]) => ({
    ...withDevice({ tools: [tool], match: "prefix" }),
    commands: commands.map((command) => ({ name: "weather", summary: "Weather", ...command })),
  });

  test("fit with everything the contract knows", () => {
    const table = { rows: "a.b", columns: [{ title: "AT", field: "at", as: "time" }], empty: "none" };
    const args = [
      { name: "PLACE", summary: "s", required: true, field: "place" },
      { name: "DAY", summary: "s", type: "number" },
      { name: "WORDS", summary: "s", rest: "text" },
    ];
    const flags = {
      "dry-run": { type: "boolean", summary: "s" },
      unit: { type: "string", summary: "s", values: ["C", "F"], field: "in" },
    };
    const path = { ...action, call: { path: "/dev/weather/now" }, output: "text", input: { a: 1 } };
    const all = { list: { ...action, args, flags, output: table }, now: path };
    expect(message(withCommands({ default: "list", actions: all }))).toBe("(fits)");
  });

  test.each<[string, object, string]>([
    ["a name of capitals", { name: "Weather", actions: { list: action } }, "expected a lowercase letter"],
    ["no action", { actions: {} }, "expected at least one action"],
    ["an unknown default", { default: "lst", actions: { list: action } }, 'Did you mean "list"?'],
    ["another plugin's tool", { actions: { list: { ...action, call: { tool: "Read" } } } }, '"Read"'],
    ["a foreign path", { actions: { list: { ...action, call: { path: "/dev/shell" } } } }, "/dev/shell"],
    [
      "a flag that all have",
      { actions: { list: { ...action, flags: { json: { type: "boolean", summary: "s" } } } } },
      "--json",
    ],
    [
      "an argument after the rest",
      {
        actions: {
          list: {
            ...action,
            args: [
              { name: "A", summary: "s", rest: true },
              { name: "B", summary: "s" },
            ],
          },
        },
      },
      "must be the last",
    ],
    ["a summary of two lines", { summary: "a\nb", actions: { list: action } }, "expected one line"],
    ["a table without columns", { actions: { list: { ...action, output: { columns: [] } } } }, "columns"],
  ])("do not fit with %s", (_title, command, why) => {
    expect(message(withCommands(command))).toContain(why);
  });

  test("do not fit with two of one name", () => {
    const command = { actions: { list: action } };
    expect(message(withCommands(command, command))).toContain("the name is used twice");
  });
});
