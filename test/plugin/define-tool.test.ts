import { describe, expect, test } from "bun:test";
import { pluginModule } from "../../src/plugin/host/shape.ts";
import { definePlugin, defineTool, SyscallError, type VFSFile } from "../../src/plugin/index.ts";
import { testContext } from "../support/conformance/context.ts";
import { exchange } from "../support/conformance/vfs-file.ts";

const input = { type: "object", properties: { text: { type: "string" } } } as const;
const spec = { name: "Say", description: "Says it.", input };
const quiet = new AbortController().signal;

/** Opens the device of a module whose default export is this, in a file called `say`. */
async function opened(exported: unknown): Promise<{ file: VFSFile; logged: string[] }> {
  const plugin = pluginModule("say", { default: exported });
  const { context, notes } = testContext("/tmp", {});
  const file = await plugin.devices?.["/dev/say"]?.factory("", 2, context);
  if (!file) throw new Error("There is no /dev/say.");
  return { file, logged: notes.log };
}

async function answer(exported: unknown, request: object = { op: "Say", text: "hello" }): Promise<string> {
  const { file } = await opened(exported);
  return String(await exchange(file, JSON.stringify(request)));
}

describe("a tool as a plugin", () => {
  test("has the name of its file, and the needs and settings of the tool", () => {
    const configSchema = { type: "object" };
    const tool = defineTool({ ...spec, needs: ["store"], configSchema, subject: "text", run: () => "" });
    expect(pluginModule("say", { default: tool })).toMatchObject({
      name: "say",
      needs: ["store"],
      configSchema,
      devices: { "/dev/say": { tools: [{ ...spec, subject: "text" }] } },
    });
  });

  test("answers with a text, a promise, or the parts of an iterable", async () => {
    async function* parts(text = "") {
      for (const letter of text) yield letter;
      yield "";
      yield "!";
    }
    expect(await answer(defineTool({ ...spec, run: ({ text }) => `${text}!` }))).toBe("hello!");
    expect(await answer(defineTool({ ...spec, run: async ({ text }) => `${text}!` }))).toBe("hello!");
    expect(await answer(defineTool({ ...spec, run: ({ text }) => parts(text) }))).toBe("hello!");
    expect(await answer(defineTool({ ...spec, run: async ({ text }) => parts(text) }))).toBe("hello!");
  });

  test("gets its input without the op, and the context with a signal", async () => {
    const tool = defineTool({
      ...spec,
      run: (given, context) => JSON.stringify({ given, cwd: context.cwd, aborted: context.signal.aborted }),
    });
    expect(JSON.parse(await answer(tool))).toEqual({ given: { text: "hello" }, cwd: "/tmp", aborted: false });
  });

  test.each([
    ["a number", () => 1, /^run\(\) of Say returned number\. Expected a text/],
    ["nothing", () => undefined, /returned undefined/],
    ["a list", () => [], /returned object/],
  ])("that returns %s fails, and says what was expected", async (_, run, message) => {
    const tool = { ...defineTool({ ...spec, run: () => "" }), run };
    await expect(answer(tool)).rejects.toMatchObject({
      code: "DRIVER",
      message: expect.stringMatching(message),
    });
  });

  test("whose part is no text fails, and one that throws fails too", async () => {
    const odd = {
      ...defineTool({ ...spec, run: () => "" }),
      run: async function* () {
        yield 1;
      },
    };
    await expect(answer(odd)).rejects.toMatchObject({ code: "DRIVER" });
    const refusing = defineTool({
      ...spec,
      run: () => {
        throw new SyscallError("NOT_FOUND", "not here");
      },
    });
    await expect(answer(refusing)).rejects.toMatchObject({ code: "NOT_FOUND", message: "not here" });
  });

  test("is stopped by the signal of the call, and its generator ends with the file", async () => {
    const ended: unknown[] = [];
    const { file, logged } = await opened(
      defineTool({
        ...spec,
        async *run(_, { signal }) {
          try {
            signal.addEventListener("abort", () => ended.push(signal.reason.code));
            yield "a";
            yield "b";
          } finally {
            ended.push("finally");
            await Promise.reject(new Error("too late"));
          }
        },
      }),
    );
    await file.write('{"op":"Say"}', quiet);
    expect(await file.read(10, quiet)).toBe("a");
    await file.close();
    expect(ended).toEqual(["CLOSED", "finally"]);
    expect(logged).toEqual(["warn: after the call: Error: too late"]);

    const waiting = await opened(
      defineTool({
        ...spec,
        run: (_, { signal }) =>
          new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
      }),
    );
    const stop = new AbortController();
    const written = waiting.file.write("{}", stop.signal);
    stop.abort(new SyscallError("TIMEOUT", "late"));
    await expect(written).rejects.toMatchObject({ code: "TIMEOUT" });
  });

  test("refuses what is no JSON object", async () => {
    const { file } = await opened(defineTool({ ...spec, run: () => "" }));
    for (const text of ["", "x", "[]", "null", "1"]) {
      await expect(file.write(text, quiet)).rejects.toMatchObject({ code: "INVALID" });
    }
  });

  test("without a function, or with a field op, is refused when it is declared", () => {
    const declare = (fields: object) => () => Reflect.apply(defineTool, undefined, [{ ...spec, ...fields }]);
    expect(declare({})).toThrow("expected a function run(input, context)");
    const withOp = { type: "object", properties: { op: { type: "string" } } };
    expect(declare({ input: withOp, run: () => "" })).toThrow('no field "op"');
  });
});

describe("several tools of one plugin", () => {
  const tools = [
    defineTool({ ...spec, needs: ["store"], run: () => "said" }),
    defineTool({ ...spec, name: "Shout", needs: ["exec", "store"], run: () => "SHOUTED" }),
  ];

  test("share its device and are distinguished by their names", async () => {
    const plugin = definePlugin({ name: "say", needs: ["history"], tools });
    expect(plugin).toMatchObject({ needs: ["history", "store", "exec"] });
    expect(await answer(plugin)).toBe("said");
    expect(await answer(plugin, { op: "Shout" })).toBe("SHOUTED");
  });

  test("a request without a tool name is refused with the names", async () => {
    const plugin = definePlugin({ name: "say", tools });
    for (const request of [{}, { op: "Whisper" }]) {
      await expect(answer(plugin, request)).rejects.toMatchObject({
        code: "INVALID",
        message: expect.stringContaining("Say, Shout"),
      });
    }
  });
});

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

test("the types of the input come from its schema, those of the services from needs", async () => {
  const tool = defineTool({
    name: "Say",
    description: "Says it.",
    needs: ["store"],
    input: {
      type: "object",
      properties: {
        count: { type: "integer" },
        mode: { type: "string", enum: ["loud", "low"] },
        tags: { type: "array", items: { type: "string" } },
        at: { type: "object", properties: { x: { type: "number" } }, required: ["x"] },
        odd: { anyOf: [] },
      },
      required: ["count", "at"],
    },
    run({ count, mode, tags, at, odd }, { store, exec }) {
      const same: [
        Same<typeof count, number>,
        Same<typeof mode, "loud" | "low" | undefined>,
        Same<typeof tags, string[] | undefined>,
        Same<typeof at.x, number>,
        Same<typeof odd, unknown>,
        Same<undefined extends typeof store ? true : false, false>,
        Same<undefined extends typeof exec ? true : false, true>,
      ] = [true, true, true, true, true, true, true];
      return String(same.every(Boolean));
    },
  });
  expect(await answer(tool)).toBe("true");
});
