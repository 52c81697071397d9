import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { build, commit } from "../../build.ts";
import packageJson from "../../package.json";
import { pluginEntries } from "../../src/plugin/host/stock-files.ts";
import { pluginSource, Scratch } from "../plugin/support/scratch.ts";

const CHECKOUT = resolve(import.meta.dir, "../..");

let scratch: Scratch;
let binary: string;
beforeAll(async () => {
  scratch = new Scratch();
  binary = join(scratch.dir, "bin", "program");
  const { NODE_ENV } = process.env;
  process.env.NODE_ENV = "builder";
  await build({ entry: join(import.meta.dir, "program.ts"), outfile: binary });
  process.env.NODE_ENV = NODE_ENV;
}, 120_000);
afterAll(() => scratch[Symbol.dispose]());

interface About {
  version: string;
  commit: string;
  nodeEnv: string;
  plugins: string[];
  agents: string[];
  skills: string[];
  preloaded: string[];
  env: string[];
}

interface Plugins {
  answer: string;
  plugins: { name: string; state: string; problems: string[] }[];
}

/** What the program answers, run in `cwd` with nothing but these variables. */
async function run<T>(args: string[], cwd = scratch.dir, env: Record<string, string> = {}): Promise<T> {
  const child = Bun.spawn([binary, ...args], { cwd, env, stdout: "pipe", stderr: "pipe" });
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  expect({ err, code }).toEqual({ err: "", code: 0 });
  return JSON.parse(out);
}

test("the commit of a build names every change of what is built, and no other", () => {
  using checkout = new Scratch();
  const git = (...args: string[]) =>
    Bun.spawnSync(["git", "-c", "user.name=t", "-c", "user.email=t@t", ...args], { cwd: checkout.dir });
  expect(commit(checkout.dir)).toBe("unknown");
  checkout.write("src/main.ts", "1");
  for (const args of [["init"], ["add", "."], ["commit", "-m", "first"]]) {
    expect(git(...args).exitCode).toBe(0);
  }
  const clean = commit(checkout.dir);
  expect(clean).toMatch(/^[0-9a-f]{12}$/);
  checkout.write("docs/notes.md", "1");
  expect(commit(checkout.dir)).toBe(clean);

  const builds = [clean];
  for (const [file, text] of [
    ["src/main.ts", "2"],
    ["src/main.ts", "3"],
    ["plugins/new.ts", "1"],
    ["plugins/new.ts", "2"],
  ] as const) {
    checkout.write(file, text);
    builds.push(commit(checkout.dir));
  }
  expect(new Set(builds).size).toBe(builds.length);
  expect(builds.at(-1)).toMatch(/^[0-9a-f]{12}\+[0-9a-f]{8}$/);
  checkout.write("plugins/new.ts", "1");
  expect(commit(checkout.dir)).toBe(builds.at(-2) ?? "");
});

describe("the compiled binary", () => {
  test("is one file: nothing is left beside it", () => {
    expect(readdirSync(join(scratch.dir, "bin"))).toEqual(["program"]);
  });

  test("has version and commit baked in, and the plugins, agents and skills of the checkout inside", async () => {
    const about = await run<About>(["about"]);
    expect(about.version).toBe(packageJson.version);
    expect(about.commit).toMatch(/^([0-9a-f]{12}(\+[0-9a-f]{8})?|unknown)$/);
    expect(about.plugins).toEqual(pluginEntries(join(CHECKOUT, "plugins")).map(({ name }) => name));
    const files = (folder: string) => [...new Bun.Glob("**/*").scanSync(join(CHECKOUT, folder))].sort();
    expect(about.agents).toEqual(files("agents"));
    expect(about.skills).toEqual(files("skills"));
  });

  test("is built for production, whatever NODE_ENV the builder has", async () => {
    expect((await run<About>(["about"])).nodeEnv).toBe("production");
  });

  test("imports all stock plugins in a moment: nothing heavy comes with them", async () => {
    const times: number[] = [];
    for (let i = 0; i < 5; i++) times.push((await run<{ cpuMs: number }>(["stock"])).cpuMs);
    expect(Math.min(...times)).toBeLessThan(60);
  });
});

/** A folder that tries everything to be read by a program that is started in it. */
function hostileFolder(): string {
  scratch.remove("hostile");
  const dir = join(scratch.dir, "hostile");
  const touch = (name: string) =>
    `require("node:fs").writeFileSync(${JSON.stringify(join(dir, `read-${name}`))}, "");`;
  scratch.write(
    "hostile/preload.ts",
    `${touch("preload")} if (process.env.HOSTILE) { ${touch("env")} } globalThis.hostilePreload = true;`,
  );
  const preload = `preload = ["${dir}/preload.ts"]\n[run]\nbun = true\n`;
  scratch.write("hostile/bunfig.toml", preload);
  scratch.write("hostile/home/.bunfig.toml", preload);
  for (const name of [".env", ".env.local", ".env.production", ".env.development"]) {
    scratch.write(`hostile/${name}`, "HOSTILE=1\nANTHROPIC_BASE_URL=http://127.0.0.1:1\n");
  }
  const aliases = { "*": ["./evil.ts"], zod: ["./evil.ts"], "rnix/plugin": ["./evil.ts"] };
  scratch.write(
    "hostile/tsconfig.json",
    JSON.stringify({ compilerOptions: { baseUrl: ".", paths: aliases } }),
  );
  scratch.write("hostile/evil.ts", `${touch("alias")} export default {};`);
  scratch.write(
    "hostile/package.json",
    JSON.stringify({
      name: "rnix",
      exports: { "./plugin": "./evil.ts" },
      imports: { "#x": "./evil.ts" },
      main: "./evil.ts",
    }),
  );
  for (const name of ["zod", "rnix", "yaml", "consola"]) {
    scratch.write(`hostile/node_modules/${name}/package.json`, `{ "name": "${name}", "main": "index.js" }`);
    scratch.write(`hostile/node_modules/${name}/index.js`, `${touch(`package-${name}`)}`);
  }
  return dir;
}

const readFiles = (dir: string) =>
  readdirSync(dir)
    .filter((name) => name.startsWith("read-"))
    .sort();

describe("in a hostile folder", () => {
  test("nothing of it is read: no preload, no .env, no alias, no package; Bun itself would run it", async () => {
    const dir = hostileFolder();
    const env = { HOME: join(dir, "home"), XDG_CONFIG_HOME: join(dir, "home") };
    const about = await run<About>(["about"], dir, env);
    expect(about.preloaded).toEqual([]);
    expect(about.env).toEqual([]);
    const { plugins } = await run<Plugins>(["plugins", join(scratch.dir, "empty")], dir, env);
    expect(plugins).toEqual([]);
    expect(readFiles(dir)).toEqual([]);

    // The trap works: the same folder has its way with a program that does not look out.
    scratch.write("hostile/tsconfig.json", '{ "compilerOptions": { "paths": { "zod": ["./evil.ts"] } } }');
    const innocent = scratch.write("hostile/innocent.ts", 'import "zod";');
    Bun.spawnSync([process.execPath, innocent], { cwd: dir, env });
    expect(readFiles(dir)).toEqual(["read-alias", "read-env", "read-preload"]);
  });

  test("BUN_OPTIONS of the caller's own environment is obeyed by Bun before our first line: it must not be passed on", async () => {
    const dir = hostileFolder();
    const env = { BUN_OPTIONS: `--preload ${dir}/preload.ts` };
    expect((await run<About>(["about"], dir, env)).preloaded).toEqual(["hostilePreload"]);
    expect((await run<About>(["about"], dir, {})).preloaded).toEqual([]);
  });
});

describe("plugins from disk in the compiled binary", () => {
  test("have TypeScript, relative imports, their own node_modules and the kernel's own rnix/plugin", async () => {
    const dir = hostileFolder();
    const top = 'import { word } from "./word.ts"; import lib from "lib";';
    const write =
      'if (input === "fail") throw new SyscallError("EXHAUSTED", "One class."); answer = word + " " + lib;';
    scratch.write("hostile/plugins/p/index.ts", pluginSource("p", { top, write }));
    scratch.write("hostile/plugins/p/word.ts", 'export const word: string = "relative";');
    scratch.write("hostile/plugins/p/node_modules/lib/package.json", '{ "name": "lib", "main": "index.js" }');
    scratch.write("hostile/plugins/p/node_modules/lib/index.js", 'module.exports = "package";');
    const { answer, plugins } = await run<Plugins>(["plugins", dir, "/dev/p", "x"], dir);
    expect(plugins).toEqual([{ name: "p", state: "loaded", problems: [] }]);
    expect(answer).toBe("relative package");
    expect((await run<Plugins>(["plugins", dir, "/dev/p", "fail"], dir)).answer).toBe(
      "EXHAUSTED: One class.",
    );
    expect(readFiles(dir)).toEqual([]);
    scratch.remove("hostile");
  });

  test("are named with file and line when they are broken or throw, and hung ones are ended", async () => {
    const dir = join(scratch.dir, "bad");
    scratch.write("bad/plugins/syntax.ts", "\nconst x = ;");
    scratch.write("bad/plugins/early.ts", '\n\nthrow new Error("early");');
    const write = 'if (input === "throw") throw new RangeError("late"); for (;;);';
    scratch.write("bad/plugins/p.ts", pluginSource("p", { write }));
    const thrown = await run<Plugins>(["plugins", dir, "/dev/p", "throw"]);
    expect(thrown.answer).toMatch(/^DRIVER: Plugin p: RangeError: late \(.*\/p\.ts:\d+:\d+\)$/);
    expect(thrown.plugins.map(({ problems }) => problems.join())).toEqual([
      expect.stringMatching(/early\.ts:3:\d+: early$/),
      expect.stringMatching(/\/p\.ts:\d+:\d+: RangeError: late$/),
      expect.stringMatching(/syntax\.ts:2:11: Unexpected ;$/),
    ]);
    const hung = await run<Plugins>(["plugins", dir, "/dev/p", "hang"]);
    expect(hung.answer).toStartWith("TIMEOUT: ");
    scratch.remove("bad");
  });
});

describe("build.ts", () => {
  test("refuses a target it does not know, and names those it does", () => {
    const child = Bun.spawnSync([process.execPath, join(CHECKOUT, "build.ts"), "--target", "amiga"], {
      stderr: "pipe",
    });
    expect(child.exitCode).toBe(64);
    expect(child.stderr.toString()).toContain('Unknown target "amiga". There are: linux-x64,');
    expect(existsSync(join(CHECKOUT, "amiga"))).toBe(false);
  });
});
