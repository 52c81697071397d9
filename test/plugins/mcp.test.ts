import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import plugin from "../../plugins/mcp/index.ts";
import { Channel } from "../../src/lib/channel.ts";
import { type Child, type Mounted, O_RDWR, type OpenContext, SyscallError } from "../../src/plugin/index.ts";
import { describePlugin } from "../support/conformance/plugin.ts";
import { exchange, text } from "../support/conformance/vfs-file.ts";
import { failure } from "../support/failure.ts";
import { isAlive } from "../support/is-alive.ts";
import { HttpMcpServer } from "../support/mcp-server/http.ts";
import { modernAnswer } from "../support/mcp-server/modern.ts";
import { openContext, type RealContext } from "../support/open-context.ts";
import { until } from "../support/until.ts";

const SERVER = resolve(import.meta.dir, "../support/mcp-server/main.ts");
const never = new AbortController().signal;

let root: string;
let dir: string;
const open: AsyncDisposable[] = [];

beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "rnix-mcp-")));
  dir = join(root, "project");
  mkdirSync(dir);
});

afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one[Symbol.asyncDispose]();
  rmSync(root, { recursive: true, force: true });
});

function program(behaviour = "", more: object = {}): object {
  return { name: "test", command: process.execPath, args: [SERVER, behaviour], ...more };
}

function real(more: Partial<OpenContext> = {}): RealContext {
  const made = openContext(dir, join(root, "kept"), more);
  open.push(made);
  return made;
}

/** The server has the time to come up that a busy machine needs. */
async function mount(config: object, { context } = real(), signal = never): Promise<Mounted> {
  const mounted = await plugin.mount.open({ mountTimeoutMs: 20_000, ...config }, context, signal);
  open.push({ [Symbol.asyncDispose]: () => mounted.unmount() });
  return mounted;
}

/** One that waits half a second for an answer, or as much longer as its server needs to come up on a busy machine. */
async function mountHasty(config: object): Promise<Mounted> {
  for (let requestTimeoutMs = 500; ; requestTimeoutMs *= 2) {
    try {
      return await mount({ ...config, requestTimeoutMs });
    } catch (thrown) {
      orTimeout(thrown);
    }
  }
}

/** One call, as the kernel makes it. */
async function call(
  mounted: Mounted,
  tool: string,
  input: object = {},
  { context, signal = never }: { context?: OpenContext; signal?: AbortSignal } = {},
): Promise<string> {
  const device = mounted.devices[`/tools/${tool}`];
  const op = device?.tools?.[0]?.op;
  if (!device) throw new Error(`There is no ${tool}.`);
  const file = await device.factory("", O_RDWR, context ?? real().context);
  try {
    return text(await exchange(file, JSON.stringify({ op, ...input }), { signal }));
  } finally {
    await file.close();
  }
}

/** It answers again, however busy the machine is. */
async function requireAnswer(mounted: Mounted): Promise<void> {
  const asked = () => call(mounted, "echo", { text: "still here" });
  await until(async () => (await asked().catch(orTimeout)).includes("still here"), "an answer");
}

function orTimeout(thrown: unknown): string {
  if (thrown instanceof SyscallError && thrown.code === "TIMEOUT") return "";
  throw thrown;
}

async function read(mounted: Mounted, place: string, subpath = ""): Promise<string> {
  const file = await mounted.devices[place]?.factory(subpath, 0, real().context);
  if (!file) throw new Error(`There is no ${place}.`);
  return text(await exchange(file, null)).toString();
}

describePlugin("mcp", () => import("../../plugins/mcp/index.ts"), {
  operations: [],
  unknown: { skip: "it has devices only when something is mounted" },
  mount: {
    config: () => program(),
    operations: [
      {
        title: "calls a tool",
        device: "/tools/echo",
        input: { op: "mcp:echo", text: "hi" },
        answer: (said) => expect(JSON.parse(said)).toEqual({ text: "hi" }),
      },
      {
        title: "says what is there",
        device: "",
        input: null,
        answer: (said) => expect(JSON.parse(said)).toEqual(["tools", "resources", "prompts"]),
      },
      { title: "names what is not there", device: "/roots", input: null, error: "NOT_FOUND" },
      {
        title: "fills a prompt",
        device: "/prompts/summary",
        input: { topic: "cats" },
        answer: (said) => expect(said).toBe("Summarize cats, short."),
      },
      { title: "takes an object", device: "/tools/echo", input: "[1]", error: "INVALID" },
    ],
    refused: [
      { title: "what is neither program nor address", config: () => ({ name: "x" }), error: "INVALID" },
      {
        title: "a program that is not there",
        config: () => ({ name: "x", command: "/no/such/server" }),
        error: "NOT_FOUND",
      },
    ],
    endless: () => program("hang"),
  },
});

describe("a server on stdin and stdout", () => {
  test("has its tools as devices, with their schemas and annotations", async () => {
    const mounted = await mount(program());
    const echo = mounted.devices["/tools/echo"]?.tools?.[0];
    expect(echo).toMatchObject({
      name: "echo",
      description: "Answers its input",
      timeoutMs: 61_000,
      annotations: { readOnlyHint: true, idempotentHint: true },
      input: { type: "object", required: ["text"] },
    });
    expect(mounted.devices["/tools/env"]?.tools?.[0]?.description).toBe(
      "The tool env of the MCP server test.",
    );
    expect(mounted.devices["/tools/a.b"]?.tools?.[0]?.name).toBe("a.b");
    expect(await call(mounted, "a.b")).toBe("dotted");
  });

  test("gets a tool's own argument op, and not the kernel's", async () => {
    const mounted = await mount(program());
    expect(await call(mounted, "echo", { text: "a", op: "mine" })).toBe('{"text":"a","op":"mine"}');
    expect(await call(mounted, "echo", { text: "a" })).toBe('{"text":"a"}');
  });

  test("has the run's environment, and its own variables", async () => {
    const mounted = await mount(program("", { env: { TOKEN: "t0p" } }));
    expect(await call(mounted, "env", { name: "TOKEN" })).toBe("t0p");
    expect(await call(mounted, "env", { name: "HOME" })).toBe(dir);
  });

  test("returns images as files and structured content as JSON", async () => {
    const mounted = await mount(program());
    const { context, notes } = real();
    const said = await call(mounted, "picture", {}, { context });
    expect(said).toBe(`a dot\n[image, image/png, 4 bytes: ${notes.spilled[0]}]`);
    expect(readFileSync(notes.spilled[0] ?? "", "utf8")).toBe("PNG!");
    expect(await call(mounted, "table")).toBe('{"rows":7}');
  });

  test("fails with the tool's error or with the protocol's reason", async () => {
    const mounted = await mount(program());
    expect(await failure(() => call(mounted, "fail"))).toMatchObject({
      code: "DRIVER",
      message: "the disk is full",
    });
    const wrong = await failure(() => call(mounted, "echo", { text: 1 }));
    expect(wrong.message).toContain("text");
  });

  test("lists and reads resources: at their paths, and by the two tools for models", async () => {
    const mounted = await mount(program());
    expect(JSON.parse(await read(mounted, "/resources"))).toMatchObject([{ uri: "file:///notes.txt" }]);
    expect(await read(mounted, "/resources", "/file:///notes.txt")).toBe("remember the milk");
    expect(await read(mounted, "/resources", "/file%3A%2F%2F%2Fnotes.txt")).toBe("remember the milk");
    expect(JSON.parse(await read(mounted, "", "/tools"))).toContainEqual(
      expect.objectContaining({ name: "echo" }),
    );
    const device = mounted.devices["/resources"];
    expect(device?.tools?.map(({ name }) => name)).toEqual(["list_resources", "read_resource"]);
    const file = await device?.factory("", O_RDWR, real().context);
    if (!file) throw new Error("There are no resources.");
    const input = '{"op":"read_resource","uri":"file:///notes.txt"}';
    expect(text(await exchange(file, input))).toBe("remember the milk");
    const missing = await failure(() => read(mounted, "/resources", "/file:///no"));
    expect(["INVALID", "NOT_FOUND"]).toContain(missing.code);
  });

  test("lists its prompts and fills them with arguments", async () => {
    const mounted = await mount(program());
    expect(JSON.parse(await read(mounted, "/prompts"))).toMatchObject([
      { name: "summary", arguments: [{ name: "topic", required: false }, { name: "style" }] },
    ]);
    expect(await read(mounted, "/prompts", "/summary")).toBe("Summarize everything, short.");
    const missing = await failure(() => read(mounted, "/prompts", "/sumary"));
    expect(missing).toMatchObject({
      code: "NOT_FOUND",
      message: "There is no prompt sumary. Prompts: summary.",
    });
    expect(JSON.parse(await read(mounted, "/tools/echo"))).toMatchObject({
      description: "Answers its input",
    });
  });

  test("that asks the user or for a model is answered at once, and the result and the log mention it", async () => {
    const made = real();
    const mounted = await mount(program(), made);
    const asked = 'The MCP server asked the user "Who are you?". It was declined';
    expect(await call(mounted, "ask")).toStartWith(`the user answered with decline\n${asked}`);
    expect(await call(mounted, "think")).toMatch(
      /^no model: .*not offered\nThe MCP server asked its client for "sampling\/createMessage"\. It was refused/,
    );
    expect(made.notes.log.filter((line) => line.includes("The MCP server asked"))).toHaveLength(2);
    expect(await call(mounted, "echo", { text: "x" })).toBe('{"text":"x"}');
  });

  test("that changes its list of tools reports the new one", async () => {
    const mounted = await mount(program());
    const changed = new Promise<object>((resolve) => mounted.onChange?.(resolve));
    expect(await call(mounted, "grow")).toBe("grown");
    expect(Object.keys(await changed)).toContain("/tools/grown");
    expect(await call(mounted, "grown")).toBe("I am new");
  });

  test("is notified of a cancelled call, and shows its progress before", async () => {
    const made = real();
    const mounted = await mount(program(), made);
    const caller = real();
    const controller = new AbortController();
    const calling = failure(() =>
      call(mounted, "slow", {}, { context: caller.context, signal: controller.signal }),
    );
    await until(() => caller.notes.output !== "");
    expect(caller.notes.output).toBe("1 of 3: still at it\n");
    controller.abort(new SyscallError("CANCELLED", "enough"));
    expect(await calling).toMatchObject({ code: "CANCELLED", message: "enough" });
    await until(() => made.notes.log.some((line) => line.includes("slow was cancelled")));
    expect(await call(mounted, "echo", { text: "still here" })).toContain("still here");
  });

  test("that is too slow fails at the request's deadline, and keeps running", async () => {
    const mounted = await mountHasty(program());
    expect(await failure(() => call(mounted, "slow"))).toMatchObject({ code: "TIMEOUT" });
    await requireAnswer(mounted);
  });

  test("whose answer is too large fails only that call", async () => {
    const mounted = await mount(program("", { maxOutputBytes: 100_000 }));
    for (const bytes of [100_000, 16 * 1024 * 1024]) {
      expect(await failure(() => call(mounted, "big", { bytes }))).toMatchObject({
        code: "EXHAUSTED",
        message: expect.stringMatching(/answered with \d+ bytes or more; at most 100000 are taken/),
      });
    }
    expect((await call(mounted, "big", { bytes: 90_000 })).length).toBe(90_000);
  });

  test("that writes JSON with spaces, and a tool list that is too large, fails at once", async () => {
    const script = `
      const start = { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "x", version: "1" } };
      const tools = [{ name: "t", description: "d".repeat(200_000), inputSchema: { type: "object" } }];
      for await (const line of console) {
        const { id, method } = JSON.parse(line);
        const result = { initialize: start, "tools/list": { tools } }[method];
        const answer = result ? '"result": ' + JSON.stringify(result) : '"error": {"code": -32601, "message": "no"}';
        if (id !== undefined) console.log('{"jsonrpc": "2.0", "id": ' + id + ', ' + answer + '}');
      }`;
    const spaced = { name: "test", command: process.execPath, args: ["-e", script], maxOutputBytes: 100_000 };
    expect(await failure(() => mount(spaced))).toMatchObject({
      message: expect.stringMatching(/answered with \d+ bytes or more/),
    });
  });

  test("that prints other text first, or floods its stderr, still works", async () => {
    for (const behaviour of ["chatty", "flood"]) {
      const made = real();
      const mounted = await mount(program(behaviour), made);
      expect(await call(mounted, "echo", { text: "x" })).toContain("x");
      const lines = made.notes.log.filter((line) =>
        line.includes(behaviour === "flood" ? "noise" : "Listening"),
      );
      expect(lines.length).toBeGreaterThan(0);
      expect(made.notes.log.length, "a flood is not let into the log").toBeLessThan(1_000);
    }
  });

  test("of before 2026 that exits at an unknown request is called with the old handshake", async () => {
    const mounted = await mount(program("old"));
    expect(await call(mounted, "echo", { text: "x" })).toContain("x");
  });

  test("of 2026 only, without a handshake, is called with the new protocol", async () => {
    const mounted = await mount(program("modern"));
    expect(await call(mounted, "echo", { n: 1 })).toBe('{"n":1}');
  });

  test("of 2026 only that is too slow for the first request gets it again", async () => {
    const asked: string[][] = [];
    const exec = async (): Promise<Child> => {
      const lines: string[] = [];
      const isSlow = asked.push(lines) === 1;
      return server((line) => {
        lines.push(JSON.parse(line).method);
        return isSlow && !lines.includes("initialize") ? "" : modernAnswer(line);
      });
    };
    const mounted = await mount(program("", { mountTimeoutMs: 1_000 }), real({ exec }));
    expect(asked.map(([first, second]) => [first, second])).toEqual([
      ["server/discover", "initialize"],
      ["server/discover", "tools/list"],
    ]);
    expect(await call(mounted, "echo", { n: 1 })).toBe('{"n":1}');
  });

  /** One in this process, that answers each line as it comes. */
  function server(answer: (line: string) => string): Child {
    const exit = { code: 0, signal: null, timedOut: false, outputBytes: 0, droppedBytes: 0 };
    const output = new Channel<Uint8Array>();
    const pieces = output[Symbol.asyncIterator]();
    const end = async () => output.end();
    return {
      pid: 0,
      reused: false,
      write: async (line) => output.push(new TextEncoder().encode(answer(String(line)))),
      read: async () => {
        const { value, done } = await pieces.next();
        return done ? null : { fd: 1, data: value };
      },
      end,
      kill: end,
      exited: async () => exit,
    };
  }

  test("that dies during a call fails it with its last output, and reports that it has ended", async () => {
    const mounted = await mount(program());
    const ended = new Promise<SyscallError>((resolve) => mounted.onEnd?.(resolve));
    const dying = await failure(() => call(mounted, "die"));
    expect(dying.code).toBe("UNAVAILABLE");
    expect(await ended).toMatchObject({
      code: "UNAVAILABLE",
      message: "MCP server test ended with exit code 3. It said: something broke",
    });
    expect(await failure(() => call(mounted, "echo", { text: "x" }))).toMatchObject({ code: "UNAVAILABLE" });
  });

  const FAULTS: [string, string, RegExp][] = [
    ["exit", "UNAVAILABLE", /^MCP server test ended with exit code 1\. It said: no token: set TEST_TOKEN$/],
    [
      "hang",
      "TIMEOUT",
      /^MCP server test did not answer within 1500 ms\. Raise its mount_timeout, or mcp_mount_timeout for all servers, if it needs longer\.$/,
    ],
    ["garbage", "TIMEOUT", /It said: <html>502 Bad Gateway/],
  ];
  for (const [behaviour, code, message] of FAULTS) {
    test(`that does not start (${behaviour}) fails with the reason, and leaves nothing running`, async () => {
      const made = real();
      // One that ends is waited for as long as a busy machine needs; so is one that prints something.
      let mountTimeoutMs = code === "TIMEOUT" ? 1_500 : 20_000;
      const tried = () => failure(() => mount(program(behaviour, { mountTimeoutMs }), made));
      let failed = await tried();
      while (behaviour === "garbage" && !failed.message.includes("It said") && mountTimeoutMs < 10_000) {
        mountTimeoutMs *= 2;
        failed = await tried();
      }
      expect(failed).toMatchObject({ code, message: expect.stringMatching(message) });
      expect(made.children.list()).toEqual([]);
    });
  }

  test("that is silent fails at its own deadline, before the kernel's", async () => {
    const mountTimeoutMs = 3_000;
    const took: number[] = [];
    // A machine that was too busy for it once is not so again and again.
    while (took.length < 4 && !took.some((ms) => ms < mountTimeoutMs + 1_000)) {
      const began = performance.now();
      await failure(() => mount(program("hang", { mountTimeoutMs }), real()));
      took.push(performance.now() - began);
    }
    expect(Math.min(...took)).toBeLessThan(mountTimeoutMs + 1_000);
  });

  test("ends when it is unmounted, with all its programs, even those that ignore signals", async () => {
    for (const behaviour of ["", "stubborn"]) {
      const made = real();
      const mounted = await mount(program(behaviour), made);
      const [running] = made.children.list();
      expect(isAlive(running?.pid ?? 0)).toBe(true);
      await mounted.unmount();
      expect(made.children.list()).toEqual([]);
      expect(isAlive(running?.pid ?? 0)).toBe(false);
    }
  });
});

describe("a server at an address", () => {
  async function serve(authorization?: string): Promise<HttpMcpServer> {
    const server = new HttpMcpServer(authorization);
    open.push(server);
    return server;
  }

  test("is called like any other, reports changes, and its session is ended", async () => {
    const server = await serve();
    const mounted = await mount({ name: "web", url: server.url });
    expect(await call(mounted, "echo", { text: "hi" })).toBe('{"text":"hi"}');
    expect(await read(mounted, "/resources", "/file:///notes.txt")).toBe("remember the milk");
    const changed = new Promise<object>((resolve) => mounted.onChange?.(resolve));
    await call(mounted, "grow");
    expect(Object.keys(await changed)).toContain("/tools/grown");
    expect(server.sessions).toBe(1);
    await mounted.unmount();
    await until(() => server.sessions === 0);
  });

  test("may redirect on its own host, but not to another, which would get its headers", async () => {
    const server = await serve();
    const mounted = await mount({ name: "web", url: server.oldUrl });
    expect(await call(mounted, "echo", { text: "hi" })).toContain("hi");
    const { asked } = server;
    const elsewhere = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: () => Response.redirect(server.url, 307),
    });
    open.push({ [Symbol.asyncDispose]: () => elsewhere.stop(true) });
    const url = `http://127.0.0.1:${elsewhere.port}/mcp`;
    expect(await failure(() => mount({ name: "strange", url }))).toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining(`answered 307: ask at "${server.url}"`),
    });
    expect(server.asked).toBe(asked);
  });

  test("that sends without end fails at its limit", async () => {
    const circle = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: ({ url }) => Response.redirect(url, 308),
    });
    open.push({ [Symbol.asyncDispose]: () => circle.stop(true) });
    const url = `http://127.0.0.1:${circle.port}/mcp`;
    expect(await failure(() => mount({ name: "round", url }))).toMatchObject({ code: "UNAVAILABLE" });
  });

  test("gets its headers; without them the error names the missing one", async () => {
    const server = await serve("Bearer t0p");
    const headers = { Authorization: "Bearer t0p" };
    const mounted = await mount({ name: "web", url: server.url, headers });
    expect(await call(mounted, "echo", { text: "hi" })).toContain("hi");
    expect(await failure(() => mount({ name: "web", url: server.url }))).toMatchObject({
      code: "PERMISSION",
    });
  });

  test("whose answer is too large, too late or missing fails that call", async () => {
    const server = await serve();
    const web = { name: "web", url: server.url, maxOutputBytes: 50_000 };
    const mounted = await mount(web);
    const hasty = await mountHasty(web);
    expect(await failure(() => call(mounted, "big", { bytes: 60_000 }))).toMatchObject({ code: "EXHAUSTED" });
    expect(await failure(() => call(hasty, "slow"))).toMatchObject({ code: "TIMEOUT" });
    server.refuse = 503;
    expect(await failure(() => call(mounted, "echo", { text: "x" }))).toMatchObject({ code: "UNAVAILABLE" });
    server.refuse = undefined;
    for (const one of [mounted, hasty]) await requireAnswer(one);
  });

  test("that has lost the session counts as ended, and is mounted again", async () => {
    const server = await serve();
    const mounted = await mount({ name: "web", url: server.url });
    const ended = new Promise<SyscallError>((resolve) => mounted.onEnd?.(resolve));
    server.forget();
    expect(await failure(() => call(mounted, "echo", { text: "x" }))).toMatchObject({ code: "UNAVAILABLE" });
    expect((await ended).message).toContain("no longer knows this session");
  });

  test("where no server listens is UNAVAILABLE", async () => {
    const gone = await serve();
    const { url } = gone;
    await gone[Symbol.asyncDispose]();
    expect(await failure(() => mount({ name: "web", url }))).toMatchObject({ code: "UNAVAILABLE" });
  });
});
