import { afterEach, describe, expect, test } from "bun:test";
import { closeSync, openSync } from "node:fs";
import { startProgram } from "../../src/os/channel.ts";
import { PluginProcess } from "../../src/plugin/host/plugin-process.ts";
import { PROCESS_LIMITS, type ProcessOptions } from "../../src/plugin/host/process-options.ts";
import { problemText } from "../../src/plugin/host/report.ts";
import { staticCheck } from "../../src/plugin/host/static-check.ts";
import {
  type Child,
  type Code,
  type Data,
  type OpenContext,
  SyscallError,
  type VFSFile,
} from "../../src/plugin/index.ts";
import { testContext } from "../support/conformance/context.ts";
import { exchange } from "../support/conformance/vfs-file.ts";
import { failure } from "../support/failure.ts";
import { until } from "../support/until.ts";
import { ManualTimers } from "./support/manual-timers.ts";
import { PATIENT } from "./support/patience.ts";
import { pluginSource, Scratch, type Source } from "./support/scratch.ts";

const workers: PluginProcess[] = [];
const folders: Scratch[] = [];
afterEach(async () => {
  await Promise.all(workers.splice(0).map((worker) => worker.end()));
  for (const folder of folders.splice(0)) folder[Symbol.dispose]();
});

/** Starts the plugin p: a source, or parts of one; with further files beside it. */
async function start(
  source: Source | string,
  more: Partial<ProcessOptions> = {},
  files: Record<string, string> = {},
): Promise<PluginProcess> {
  const folder = new Scratch();
  folders.push(folder);
  for (const [path, text] of Object.entries(files)) folder.write(path, text);
  const entry = folder.write("p.ts", typeof source === "string" ? source : pluginSource("p", source));
  const { code, problems } = await staticCheck(entry);
  expect(problems).toEqual([]);
  // But where the test decides about time.
  const limits = more.timers ? undefined : PATIENT;
  const worker = await PluginProcess.start({
    name: "p",
    entry,
    code: code ?? "",
    limits,
    start: startProgram,
    ...more,
  });
  workers.push(worker);
  return worker;
}

function open(worker: PluginProcess, more: Partial<OpenContext> = {}, subpath = ""): Promise<VFSFile> {
  const device = worker.plugin.devices?.["/dev/p"];
  if (!device) throw new Error("The plugin has no /dev/p.");
  return Promise.resolve(device.factory(subpath, 2, testContext("/tmp", more).context));
}

const never = new AbortController().signal;

describe("a plugin in its process", () => {
  test("answers like one in the kernel's thread, text as text and bytes as bytes", async () => {
    const worker = await start({
      write: 'if (input === "bytes") answer = new Uint8Array([0, 255]) as never;',
    });
    const file = await open(worker);
    expect(await exchange(file, "hello")).toBe("hello");
    await file.write("bytes", never);
    expect(await file.read(10, never)).toEqual(new Uint8Array([0, 255]));
    expect(await file.stat()).toEqual({ name: "p", size: 0, isDevice: true, devicePath: "/dev/p" });
    await file.close();
  });

  test("gets its opener, folder, environment and settings, and nothing of this process's", async () => {
    process.env.RNIX_TEST_OF_THE_HOST = "seen";
    const worker = await start({
      write: `answer = JSON.stringify({ who: context.process.uuid, cwd: context.cwd, env: context.env,
        config: context.config, subpath, own: Object.keys(process.env) });`,
    });
    const file = await open(worker, { cwd: "/work", env: { A: "1" }, config: { deep: [1] } }, "/below");
    const answer = JSON.parse(String(await exchange(file, "")));
    delete process.env.RNIX_TEST_OF_THE_HOST;
    expect(answer).toEqual({
      who: "test-process",
      cwd: "/work",
      env: { A: "1" },
      config: { deep: [1] },
      subpath: "/below",
      own: [],
    });
  });

  test("gives a part of the prompt head with its services, and data about its commands", async () => {
    const worker = await start({
      plugin: `needs: ["store"],
        commands: [{ name: "notes", summary: "Notes", default: "list",
          actions: { list: { summary: "List", example: "rnix notes", call: { path: "/dev/p" } } } }],
        async prompt(context, signal) {
          if (context.cwd === "/wrong") return { title: 1 } as never;
          if (context.cwd === "/endless") return new Promise(() => {});
          const found = await context.store!.read("project", "notes");
          return found && { title: "Notes", text: found.text + " of " + context.process.uuid };
        }`,
    });
    const { plugin } = worker;
    expect(plugin.commands).toMatchObject([{ name: "notes", default: "list" }]);
    const store = (text: string | null) => ({
      read: async () => (text === null ? null : { text, version: "1" }),
      remove: async () => undefined,
      replace: async () => "",
      append: async () => {},
      path: async () => "",
      lines: async () => [],
    });
    const ask = (more: Partial<OpenContext>, signal = never) =>
      plugin.prompt?.(testContext("/tmp", more).context, signal) ?? Promise.reject(new Error("no prompt"));
    expect(await ask({ store: store("Two notes") })).toEqual({
      title: "Notes",
      text: "Two notes of test-process",
    });
    expect(await ask({ store: store(null) })).toBeNull();
    expect((await failure(() => ask({ cwd: "/wrong" }))).message).toContain(
      "expected { title, text } or null",
    );
    const late = AbortSignal.timeout(10);
    expect(await failure(() => ask({ cwd: "/endless" }, late))).toBeInstanceOf(SyscallError);
    expect(worker.link.files.size).toBe(0);
  });

  test("gives its text about changed files", async () => {
    const { plugin } = await start({
      plugin: `async filesChanged(files, context) {
          if (context.cwd === "/wrong") return 1 as never;
          return files.length > 1 ? files.join(" ") + " of " + context.process.uuid : null;
        }`,
    });
    const ask = (files: string[], cwd = "/work") =>
      plugin.filesChanged?.(files, testContext("/tmp", { cwd }).context, never) ?? Promise.reject();
    expect(await ask(["/a", "/b"])).toBe("/a /b of test-process");
    expect(await ask(["/a"])).toBeNull();
    expect((await failure(() => ask(["/a"], "/wrong"))).message).toContain("expected a string or null");
  });

  test("throws SyscallErrors with all their fields, and the kernel's are SyscallErrors to it", async () => {
    const worker = await start({
      plugin: 'needs: ["secret"]',
      write: `if (input === "ask") { try { await context.secret!(); } catch (error) {
          answer = String(error instanceof SyscallError && error.code); } return; }
        throw new SyscallError("UNAVAILABLE", "Later.", { retryAfterMs: 5, resetAtMs: 6, retryable: true, tooLong: true, cause: new Error("below") });`,
    });
    const secret = () => Promise.reject(new SyscallError("PERMISSION", "No."));
    const file = await open(worker, { secret });
    const error = await failure(() => file.write("", never));
    expect(error).toMatchObject({
      code: "UNAVAILABLE",
      message: "Later.",
      retryAfterMs: 5,
      resetAtMs: 6,
      retryable: true,
      tooLong: true,
    });
    expect(error.cause).toMatchObject({ message: "below" });
    expect(await exchange(file, "ask")).toBe("PERMISSION");
  });

  test("has the kernel's rnix/plugin, whatever a nearby tsconfig or package says", async () => {
    const other = "export class SyscallError extends Error {} export const definePlugin = (p: object) => p;";
    const worker = await start(
      { write: 'throw new SyscallError("EXHAUSTED", "One class.");' },
      {},
      {
        "tsconfig.json": '{ "compilerOptions": { "paths": { "rnix/plugin": ["./other.ts"] } } }',
        "other.ts": other,
        "node_modules/rnix/package.json": '{ "name": "rnix", "exports": { "./plugin": "./plugin.ts" } }',
        "node_modules/rnix/plugin.ts": other,
      },
    );
    expect((await failure(async () => (await open(worker)).write("", never))).code).toBe("EXHAUSTED");
  });

  test("is one module in which each file still knows where it lies", async () => {
    const worker = await start(
      {
        top: 'import * as below from "./lib/below.ts"; import old from "./lib/old.cjs"; import picture from "./a.png"; import text from "./t.html" with { type: "text" };',
        write:
          "answer = JSON.stringify({ own: [import.meta.dir, import.meta.path], below: { ...below }, old, picture, text, late: (await import('./lib/late.ts')).late });",
      },
      {},
      {
        "lib/below.ts":
          "#!/usr/bin/env bun\nexport const url = import.meta.url, file = import.meta.filename, dir = import.meta.dirname;",
        "lib/old.cjs": "module.exports = [__dirname, __filename];",
        "lib/late.ts": "export const late = import.meta.dir;",
        "a.png": "picture",
        "t.html": "text",
      },
    );
    const dir = folders[0]?.dir;
    expect(JSON.parse(String(await exchange(await open(worker), "")))).toEqual({
      own: [dir, `${dir}/p.ts`],
      below: { url: `file://${dir}/lib/below.ts`, file: `${dir}/lib/below.ts`, dir: `${dir}/lib` },
      old: [`${dir}/lib`, `${dir}/lib/old.cjs`],
      picture: `${dir}/a.png`,
      text: "text",
      late: `${dir}/lib`,
    });
  });

  test("opens a native addon where it lies", async () => {
    const error = await failure(() =>
      start({ top: 'import addon from "./fake.node"; void addon;' }, {}, { "fake.node": "none" }),
    );
    expect(error.message).toMatch(/\/fake\.node: /);
  });

  test("that throws anything else is DRIVER with its name, file and line, and that is remembered", async () => {
    const worker = await start({ write: 'if (input === "x") null!.nothing;' });
    const error = await failure(async () => (await open(worker)).write("x", never));
    expect(error.code).toBe("DRIVER");
    expect(error.message).toMatch(/^Plugin p: TypeError: .*\/p\.ts:\d+:\d+\)$/);
    expect(worker.link.problems).toMatchObject([
      { file: expect.stringMatching(/\/p\.ts$/), line: expect.any(Number) },
    ]);
    expect(await exchange(await open(worker), "still there")).toBe("still there");
  });

  const WRONG_ANSWERS: [string, Source, (file: VFSFile) => Promise<unknown>][] = [
    [
      "a read that answers a number",
      { write: "answer = { slice: () => 7 } as never;" },
      (f) => f.read(1, never),
    ],
    ["a stat without a size", { stat: "return { name: 'p' } as never;" }, (f) => f.stat()],
    [
      "a stat with a function in it",
      { stat: "return { name: '', size: 0, isDevice: true, devicePath: '', f() {} };" },
      (f) => f.stat(),
    ],
  ];
  for (const [what, source, call] of WRONG_ANSWERS) {
    test(`${what} is DRIVER, not a value the kernel trips over`, async () => {
      const file = await open(await start(source));
      await file.write("", never);
      expect((await failure(() => call(file))).code).toBe("DRIVER");
    });
  }

  test("whose factory returns no file is DRIVER", async () => {
    const worker = await start({ factory: "return { close() {} } as never;" });
    expect((await failure(() => open(worker))).message).toContain("a file with write, read, close and stat");
  });

  test("whose close throws is still closed, and named", async () => {
    const worker = await start({ close: 'throw new Error("stuck");' });
    const file = await open(worker);
    expect(await file.close()).toBeUndefined();
    expect(worker.link.files.size).toBe(0);
    expect(worker.link.problems.map(problemText)).toEqual([expect.stringMatching(/p\.ts:\d+:\d+: stuck/)]);
  });

  test("writes its console to the log, and moves no working folder but its own", async () => {
    const said: string[] = [];
    const before = process.cwd();
    const worker = await start(
      {
        write:
          'console.log("a", { b: 1 }); process.stdout.write("raw"); process.chdir("/tmp"); answer = process.cwd();',
      },
      { log: (_level, plugin, text) => void said.push(`${plugin}: ${text}`) },
    );
    expect(await exchange(await open(worker), "")).toBe("/tmp");
    expect(process.cwd()).toBe(before);
    expect(said).toEqual(["p: a { b: 1 }", "p: raw"]);
  });

  test("that uses up its descriptors leaves the kernel its own", async () => {
    const worker = await start(`
      import { openSync } from "node:fs";
      ${pluginSource("p", {
        write: `
          let opened = 0;
          try { for (; opened < 3e6; opened++) openSync("/dev/null", "r"); } catch (thrown) { answer = thrown.code; }`,
      })}`);
    expect(await exchange(await open(worker), "")).toBe("EMFILE");
    closeSync(openSync("/dev/null", "r"));
  });
});

describe("the services of a plugin in its process", () => {
  test("are those it named and was given: notes, store, secret, spill, inbox", async () => {
    const worker = await start({
      plugin: 'needs: ["store", "secret"]',
      write: `
        context.progress("half way"); await context.changing("/a"); context.changed("/a"); context.log("warn", "hm"); await context.inbox("mail");
        const { version } = (await context.store!.read("run", "doc"))!;
        answer = JSON.stringify([version, await context.store!.replace("user", "doc", "new", version),
          await context.store!.lines("run", "log", 1, 2), await context.secret!(), await context.spill("n", "text"),
          "exec" in context]);
        await context.store!.append("run", "log", { a: 1 });`,
    });
    const calls: unknown[][] = [];
    const note =
      <T>(answer: T) =>
      async (...args: unknown[]) => {
        calls.push(args);
        return answer;
      };
    const { context, notes } = testContext("/tmp", {
      store: {
        read: note({ text: "t", version: "1" }),
        remove: async () => undefined,
        replace: note("2"),
        path: note("/p"),
        append: note(undefined),
        lines: note([{ l: 1 }]),
      },
      secret: note("key"),
      spill: note("/spilled"),
      changing: note(undefined),
    });
    const file = await worker.plugin.devices?.["/dev/p"]?.factory("", 2, context);
    expect(file && JSON.parse(String(await exchange(file, "")))).toEqual([
      "1",
      "2",
      [{ l: 1 }],
      "key",
      "/spilled",
      false,
    ]);
    expect(notes).toMatchObject({
      progress: ["half way"],
      changed: ["/a"],
      log: ["warn: hm"],
      inbox: ["mail"],
    });
    expect(calls).toEqual([
      ["/a"],
      ["run", "doc"],
      ["user", "doc", "new", "1"],
      ["run", "log", 1, 2],
      [],
      ["n", "text"],
      ["run", "log", { a: 1 }],
    ]);
  });

  test("output arrives coalesced: of much output its end, with the number of lines left out", async () => {
    const worker = await start({
      write: `
        for (let i = 1; i <= 100_000; i++) context.output("line " + i + "\\n");
        await new Promise((resolve) => setTimeout(resolve, 200));
        answer = "";`,
    });
    const pieces: { text: string; skipped: number }[] = [];
    const file = await open(worker, { output: (text, skipped = 0) => void pieces.push({ text, skipped }) });
    await exchange(file, "");
    expect(pieces.length).toBeLessThan(50);
    const lines = pieces.reduce((sum, { text, skipped }) => sum + skipped + text.split("\n").length - 1, 0);
    expect(lines).toBe(100_000);
    expect(pieces.at(-1)?.text.endsWith("line 99999\nline 100000\n")).toBe(true);
    expect(pieces.every(({ text }) => text.length <= 8 * 1024)).toBe(true);
  });

  test("hand a program over as a handle: its input, output, end and exit", async () => {
    const worker = await start({
      plugin: 'needs: ["exec"]',
      write: `
        const child = await context.exec!({ argv: ["cat"], stdin: "pipe", life: "call" });
        await child.write("in"); await child.end();
        let out = ""; for (let piece = await child.read(); piece; piece = await child.read()) out += piece.fd + new TextDecoder().decode(piece.data);
        answer = JSON.stringify([child.pid, child.reused, out, await child.exited(), await child.exited()]); await child.kill();`,
    });
    const { child, log } = fakeChild();
    const file = await open(worker, { exec: async () => child });
    const exit = { code: 0, signal: null, timedOut: false, outputBytes: 3, droppedBytes: 0 };
    expect(JSON.parse(String(await exchange(file, "")))).toEqual([42, false, "1abc", exit, exit]);
    expect(log).toEqual(["write in", "end", "kill"]);
  });

  test("end with the file: CLOSED after its close", async () => {
    const worker = await start({
      plugin: 'needs: ["secret"]',
      top: "let last: OpenContext | undefined;",
      write: `if (input === "later") answer = await last!.secret!().catch((error) => error.code); else last = context;`,
    });
    const first = await open(worker, { secret: async () => "key" });
    await first.write("now", never);
    await first.close();
    expect(await exchange(await open(worker, { secret: async () => "key" }), "later")).toBe("CLOSED");
  });

  test("are UNAVAILABLE when the kernel did not offer them", async () => {
    const worker = await start({ plugin: 'needs: ["secret"]', write: "answer = String(context.secret);" });
    expect(await exchange(await open(worker), "")).toBe("undefined");
  });
});

describe("a deadline", () => {
  const SLOW = {
    write: 'if (input === "deaf") await new Promise(() => {}); if (input === "spin") for (;;);',
  };

  test("that a driver handles is answered by the driver", async () => {
    const worker = await start({
      write:
        'await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));',
    });
    const file = await open(worker);
    const abort = new AbortController();
    const write = failure(() => file.write("", abort.signal));
    abort.abort(new SyscallError("TIMEOUT", "The tool call took longer than 5 ms."));
    expect(await write).toMatchObject({ code: "TIMEOUT", message: "The tool call took longer than 5 ms." });
  });

  test("that a driver is deaf to is answered here, and the plugin lives", async () => {
    const timers = new ManualTimers();
    const worker = await start(SLOW, { timers });
    const file = await open(worker);
    const abort = new AbortController();
    const write = failure(() => file.write("deaf", abort.signal));
    abort.abort(new SyscallError("CANCELLED", "Enough."));
    expect(timers.fire(PROCESS_LIMITS.answerMs)).toBe(1);
    expect((await write).code).toBe("CANCELLED");
    await file.close();
    await until(() => !timers.waiting.includes(PROCESS_LIMITS.aliveMs));
    expect(worker.link.ended).toBeUndefined();
    expect(await exchange(await open(worker), "again")).toBe("again");
  });

  test("that a busy loop is past ends its process: its files answer CLOSED, and the plugin is named", async () => {
    const timers = new ManualTimers();
    const worker = await start(SLOW, { timers });
    const [file, other] = [await open(worker), await open(worker)];
    const abort = new AbortController();
    const write = failure(() => file.write("spin", abort.signal));
    abort.abort(new SyscallError("TIMEOUT", "Too long."));
    timers.fire(PROCESS_LIMITS.answerMs);
    expect((await write).code).toBe("TIMEOUT");
    expect(timers.fire(PROCESS_LIMITS.aliveMs)).toBe(1);
    expect((await failure(() => other.write("", never))).code).toBe("CLOSED");
    expect(await other.close()).toBeUndefined();
    expect(worker.link.crash?.message).toContain("did not respond");
    expect(worker.link.files.size).toBe(0);
  });

  test("of a factory closes the file that comes too late", async () => {
    const timers = new ManualTimers();
    const notes: string[] = [];
    const worker = await start(
      {
        top: "let finish: (() => void) | undefined;",
        factory: `if (subpath === "/go") finish?.();
          else return new Promise<VFSFile>((resolve) => { finish = () => resolve({ close: async () => context.log("info", "closed") } as never); }) as never;`,
      },
      { timers },
    );
    const late = failure(() => open(worker, { log: (_level, text) => void notes.push(text) }));
    await until(() => timers.fire(PROCESS_LIMITS.openMs) === 1);
    timers.fire(PROCESS_LIMITS.answerMs);
    expect((await late).code).toBe("TIMEOUT");
    const file = await open(worker, {}, "/go");
    await file.close();
    await until(() => worker.link.files.size === 0);
  });

  test("that has passed before the call begins stops it from beginning", async () => {
    const worker = await start({ top: "let writes = 0;", write: "answer = String(++writes);" });
    const file = await open(worker);
    expect((await failure(() => file.write("", AbortSignal.abort()))).code).toBe("CANCELLED");
    expect(await exchange(file, "")).toBe("1");
  });
});

describe("a process that ends on its own", () => {
  const ENDS: [string, string, RegExp][] = [
    [
      "throws from a timer",
      'setTimeout(() => { throw new RangeError("tick"); }, 0);',
      /p\.ts:\d+:\d+: Ended: RangeError: tick\.$/,
    ],
    ["leaves a promise rejected", 'void Promise.reject(new Error("lost"));', /p\.ts:\d+:\d+: Ended: lost\.$/],
    ["calls process.exit", "process.exit(3);", /p\.ts: Ended: it ended itself/],
    ["is killed", 'process.kill(process.pid, "SIGKILL");', /p\.ts: Ended: the signal SIGKILL ended it/],
    ["crashes in native code", 'require("bun:ffi").read.u8(8);', /p\.ts: Ended: the signal SIG\w+ ended it/],
  ];
  for (const [what, code, said] of ENDS) {
    test(`because it ${what} is named with its file, and answers CLOSED`, async () => {
      const worker = await start({ write: `if (input === "end") { ${code} }` });
      const file = await open(worker);
      await Promise.allSettled([file.write("end", never)]);
      await until(() => worker.link.ended !== undefined);
      expect((await failure(() => file.read(1, never))).code).toBe("CLOSED");
      expect(worker.link.crash && problemText(worker.link.crash)).toMatch(said);
      await file.close();
    });
  }
});

describe("a module that can't be loaded", () => {
  const CANT: [string, string, RegExp][] = [
    [
      "throws at import",
      'const x = 1;\nthrow new TypeError("early");',
      /^DRIVER: Plugin p: TypeError: early \(.*p\.ts:2:\d+\)$/,
    ],
    ["exits at import", "process.exit(0);", /^CLOSED: .*ended itself/],
    ["exports no plugin", "export const x = 1;", /^INVALID: .*default export.*definePlugin/],
    ["has another name than its file", 'export default { name: "q" };', /^INVALID: .*"q".*"p"/],
  ];
  for (const [what, source, said] of CANT) {
    test(`because it ${what} is reported with that cause`, async () => {
      const { code, message } = await failure(() => start(source));
      expect(`${code}: ${message}`).toMatch(said);
    });
  }

  test("because its import never ends is given up, and its process ended", async () => {
    const timers = new ManualTimers();
    const started = failure(() => start("for (;;);", { timers }));
    await until(() => timers.fire(PROCESS_LIMITS.loadMs) === 1);
    timers.fire(PROCESS_LIMITS.answerMs);
    expect((await started).message).toContain(`its import took longer than ${PROCESS_LIMITS.loadMs} ms`);
  });
});

function fakeChild(): { child: Child; log: string[] } {
  const log: string[] = [];
  const pieces: Data[] = ["abc"];
  const child: Child = {
    pid: 42,
    reused: false,
    write: async (data) => void log.push(`write ${data}`),
    end: async () => void log.push("end"),
    kill: async () => void log.push("kill"),
    exited: async () => ({ code: 0, signal: null, timedOut: false, outputBytes: 3, droppedBytes: 0 }),
    read: async () => {
      const piece = pieces.shift();
      return piece === undefined ? null : { fd: 1, data: new TextEncoder().encode(String(piece)) };
    },
  };
  return { child, log };
}

describe("a mount of a plugin in its process", () => {
  /** A mount whose `config.later` happens once it is ready; `config.first` before. */
  const source = `import { definePlugin, SyscallError } from "rnix/plugin";
const device = (name, more = {}) => ({
  tools: [{ name, description: "Says who it is", input: { type: "object" }, ...more }],
  factory: () => ({
    write: async () => {}, read: async () => "", close: async () => {},
    stat: async () => ({ name, size: 0, isDevice: true, devicePath: name }),
  }),
});
export default definePlugin({
  name: "p",
  needs: ["exec", "store"],
  mount: {
    type: "p",
    async open(config, context, signal) {
      if (config.first === "late") {
        if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
        await new Promise((resolve) => setTimeout(resolve, 500));
      }
      if (config.first === "deaf") await new Promise(() => {});
      if (config.first === "throw") throw new TypeError("no table");
      if (config.first === "nothing") return null;
      if (config.first === "bad") return { devices: { "/a": { tools: [] } }, unmount: async () => {} };
      if (config.first === "busy") for (;;);
      let notify = () => {};
      let end = () => {};
      setTimeout(async () => {
        if (config.later === "change") { notify({ "/a": device("one") }); notify({ "/b": device("two") }); }
        if (config.later === "bad") notify({ "/b": { tools: [] } });
        if (config.later === "end") end(new SyscallError("CLOSED", "it hung up"));
        if (config.later === "crash") process.exit(1);
        if (config.later === "exec") await context.inbox(String((await context.exec({ argv: ["true"], life: "process" })).pid));
      }, 50);
      return {
        devices: { "": device("root"), "/a": device("one", { annotations: { readOnlyHint: true } }) },
        onChange: (f) => { notify = f; },
        onEnd: (f) => { end = f; },
        unmount: async () => {
          console.log("unmounted");
          if (config.last === "throw") throw new Error("it is stuck");
        },
      };
    },
  },
});
`;

  async function mounted(config: object, more: Partial<OpenContext> = {}, signal = never) {
    const said: string[] = [];
    const worker = await start(source, { log: (_level, _plugin, text) => void said.push(text) });
    const { context, notes } = testContext("/tmp", more);
    const { mount } = worker.plugin;
    if (!mount) throw new Error("The plugin mounts nothing.");
    return { worker, notes, said, context, open: () => mount.open(config, context, signal) };
  }

  test("has its devices, opened there, and is unmounted once", async () => {
    const { worker, said, context, open: mount } = await mounted({});
    const table = await mount();
    expect(Object.keys(table.devices)).toEqual(["", "/a"]);
    expect(table.devices["/a"]?.tools).toMatchObject([{ name: "one", annotations: { readOnlyHint: true } }]);
    const file = await table.devices["/a"]?.factory("", 2, context);
    expect(await file?.stat()).toMatchObject({ name: "one" });
    await file?.close();
    expect(worker.link.files.size).toBe(1);
    await table.unmount();
    expect(worker.link.files.size).toBe(0);
    expect(said).toEqual(["unmounted"]);
    expect(await failure(async () => table.devices["/a"]?.factory("", 2, context))).toMatchObject({
      code: "NOT_FOUND",
    });
  });

  test("reports the last of several changes, and its end", async () => {
    const changing = await (await mounted({ later: "change" })).open();
    const changed = await new Promise<object>((resolve) => changing.onChange?.(resolve));
    expect(Object.keys(changed)).toEqual(["/b"]);
    const ending = await (await mounted({ later: "end" })).open();
    const why = await new Promise<unknown>((resolve) => ending.onEnd?.(resolve));
    expect(why).toMatchObject({ code: "CLOSED", message: "it hung up" });
  });

  test("whose change does not fit stays as it was, and the plugin is named", async () => {
    const { worker, open: mount } = await mounted({ later: "bad" });
    const table = await mount();
    let changes = 0;
    table.onChange?.(() => changes++);
    await until(() => worker.link.problems.length > 0);
    expect(worker.link.problems[0]?.message).toContain('mount: devices["/b"].factory: expected a function');
    expect(changes).toBe(0);
  });

  test("ends with its process", async () => {
    const table = await (await mounted({ later: "crash" })).open();
    const why = await new Promise<unknown>((resolve) => table.onEnd?.(resolve));
    expect(why).toMatchObject({ code: "CLOSED", message: expect.stringContaining("process.exit") });
    expect(await table.unmount()).toBeUndefined();
  });

  test("uses the services of the process that opened it", async () => {
    const child = { pid: 7, reused: false } as Child;
    const { notes, open: mount } = await mounted({ later: "exec" }, { exec: async () => child });
    const table = await mount();
    await until(() => notes.inbox.length > 0);
    expect(notes.inbox).toEqual(["7"]);
    await table.unmount();
  });

  const FAULTS: [string, Code, string][] = [
    ["throw", "DRIVER", "no table"],
    ["nothing", "INVALID", "mount: devices"],
    ["bad", "INVALID", 'mount: devices["/a"].factory: expected a function'],
  ];
  for (const [first, code, message] of FAULTS) {
    test(`that can't be opened (${first}) leaves nothing open`, async () => {
      const { worker, open: mount } = await mounted({ first });
      expect(await failure(mount)).toMatchObject({ code, message: expect.stringContaining(message) });
      await until(() => worker.link.files.size === 0);
    });
  }

  test("that is ready after it was given up is unmounted", async () => {
    const controller = new AbortController();
    const { worker, said, open: mount } = await mounted({ first: "late" }, {}, controller.signal);
    const opening = failure(mount);
    await new Promise((turned) => setImmediate(turned));
    controller.abort(new SyscallError("TIMEOUT", "too late"));
    expect(await opening).toMatchObject({ code: "TIMEOUT", message: "too late" });
    expect(worker.link.files.size).toBe(0);
    await until(() => said.length > 0);
  });

  test("whose unmount throws is still removed", async () => {
    const { worker, open: mount } = await mounted({ last: "throw" });
    const table = await mount();
    expect(await failure(() => table.unmount())).toMatchObject({ code: "DRIVER" });
    expect(worker.link.files.size).toBe(0);
  });
});

describe("a plugin's memory", () => {
  const GROWS = {
    "a loop of bytes":
      "setTimeout(async () => { for (;;) { await 0; kept.push(new Uint8Array(1e5).fill(1)); } });",
    "a loop that never yields": "setTimeout(() => { for (;;) kept.push(new Array(1000).fill(1)); });",
    "a thread of its own":
      'new Worker("data:text/javascript,const kept = []; for (;;) kept.push(new Uint8Array(1e5).fill(1));");',
  };

  for (const [name, code] of Object.entries(GROWS)) {
    test(`is bounded: ${name} ends it`, async () => {
      const worker = await start(`${pluginSource("p", {})}\nconst kept: unknown[] = [];\n${code}\n`);
      await until(() => worker.link.ended !== undefined, "its end");
      const [, held] = /it held (\d+) MiB of memory/.exec(worker.link.crash?.message ?? "") ?? [];
      // A busy machine gives the watch its turn late.
      expect(Number(held)).toBeLessThan(2500);
    });
  }
});
