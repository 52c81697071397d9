import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { chmodSync, cpSync, existsSync, readFileSync, symlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { startProgram } from "../../src/os/channel.ts";
import { embeddedPlugins } from "../../src/plugin/host/embedded.ts";
import { type HostOptions, type HostProject, PluginHost } from "../../src/plugin/host/host.ts";
import type { HostLease } from "../../src/plugin/host/lease.ts";
import { PROCESS_LIMITS } from "../../src/plugin/host/process-options.ts";
import { type PluginReport, problemText } from "../../src/plugin/host/report.ts";
import type { FileDigest } from "../../src/plugin/host/stock-files.ts";
import { SyscallError, type VFSFile } from "../../src/plugin/index.ts";
import { testContext } from "../support/conformance/context.ts";
import { exchange } from "../support/conformance/vfs-file.ts";
import { failure } from "../support/failure.ts";
import { until } from "../support/until.ts";
import { ManualTimers } from "./support/manual-timers.ts";
import { PATIENT } from "./support/patience.ts";
import { pluginSource, Scratch, type Source } from "./support/scratch.ts";

const CHECKOUT = resolve(import.meta.dir, "../..");

let scratch: Scratch;
let hosts: PluginHost[];
beforeEach(() => {
  scratch = new Scratch();
  hosts = [];
});
afterEach(async () => {
  await Promise.all(hosts.map((host) => host.close()));
  scratch[Symbol.dispose]();
});

function hostWith(more: Partial<HostOptions> = {}): PluginHost {
  // But where the test decides about time.
  const limits = more.timers ? undefined : PATIENT;
  const host = new PluginHost({
    start: startProgram,
    configDir: join(scratch.dir, "user"),
    beside: null,
    limits,
    ...more,
  });
  hosts.push(host);
  return host;
}

function project(more: Partial<HostProject> = {}): HostProject {
  return { id: "p", dir: join(scratch.dir, "project"), kind: "rnix", isTrusted: () => true, ...more };
}

/** A plugin whose device answers `says`. */
function write(path: string, name: string, says: string, more: Source = {}): string {
  return scratch.write(path, pluginSource(name, { write: `answer = ${JSON.stringify(says)};`, ...more }));
}

function open(lease: HostLease, path: string): Promise<VFSFile> {
  const { entry, subpath } = lease.namespace.resolve(path);
  return Promise.resolve(entry.device.factory(subpath, 2, testContext("/tmp").context));
}

async function says(lease: HostLease, path: string): Promise<string> {
  const file = await open(lease, path);
  return String(await exchange(file, "").finally(() => file.close()));
}

async function leaseOnce(host: PluginHost, where = project()): Promise<HostLease> {
  const lease = await host.lease(where);
  lease.release();
  return lease;
}

function reportOf(reports: readonly PluginReport[], name: string): PluginReport {
  const report = reports.findLast((one) => one.name === name && one.state !== "overridden");
  if (!report) throw new Error(`No report on ${name}: ${reports.map((one) => one.name)}`);
  return report;
}

const texts = (report: PluginReport) => report.problems.map(problemText);

describe("where plugins are found", () => {
  test("the stock ones are in the kernel's thread, without a question", async () => {
    const lease = await leaseOnce(hostWith(), project({ isTrusted: () => false }));
    const stock = embeddedPlugins().map(({ name }) => name);
    expect(stock).not.toBeEmpty();
    expect(lease.reports.map(({ name, state, runs, layer }) => [name, state, runs, layer])).toEqual(
      stock.map((name) => [name, "loaded", "kernel", "stock"]),
    );
    expect(Object.keys(lease.versions)).toEqual(stock);
    expect(lease.notices).toEqual([]);
  });

  test("the nearer of a name wins, and each step away from it is seen at the next lease", async () => {
    const host = hostWith({ beside: join(scratch.dir, "beside") });
    const places = ["beside/plugins", "user/plugins", "project/plugins", "project/.rnix/plugins"];
    for (const place of places) write(`${place}/p.ts`, "p", place);
    for (const place of places.toReversed()) {
      const lease = await leaseOnce(host);
      expect(await says(lease, "/dev/p")).toBe(place);
      expect(lease.reports.filter(({ state }) => state === "overridden")).toHaveLength(places.indexOf(place));
      scratch.remove(`${place}/p.ts`);
    }
    expect(() => "p" in host).not.toThrow();
    expect((await leaseOnce(host)).reports.some(({ name }) => name === "p")).toBe(false);
  });

  test("a folder with index.ts and its own node_modules is a plugin; a helper or declaration is not", async () => {
    scratch.write(
      "project/plugins/lib/index.ts",
      `import { word } from "word";\n${pluginSource("lib", { write: "answer = word;" })}`,
    );
    scratch.write("project/plugins/lib/node_modules/word/package.json", '{ "name": "word", "main": "w.js" }');
    scratch.write("project/plugins/lib/node_modules/word/w.js", 'exports.word = "of its own library";');
    for (const helper of ["_shared.ts", "rnix-plugin.d.ts", "p.test.ts", "notes.md", "sub/other.ts"]) {
      scratch.write(`project/plugins/${helper}`, "not a plugin");
    }
    const lease = await leaseOnce(hostWith());
    expect(lease.reports.filter(({ layer }) => layer === "project").map(({ name }) => name)).toEqual(["lib"]);
    expect(await says(lease, "/dev/lib")).toBe("of its own library");
  });

  test("outside of a project nothing of the folder is read", async () => {
    write("project/plugins/p.ts", "p", "here");
    const lease = await leaseOnce(hostWith(), project({ kind: "none" }));
    expect(lease.reports.every(({ layer }) => layer === "stock")).toBe(true);
  });

  test("two projects of one host do not see each other's", async () => {
    const host = hostWith();
    write("project/plugins/p.ts", "p", "one");
    write("other/plugins/p.ts", "p", "two");
    const other = project({ dir: join(scratch.dir, "other") });
    expect(await says(await leaseOnce(host), "/dev/p")).toBe("one");
    expect(await says(await leaseOnce(host, other), "/dev/p")).toBe("two");
  });

  test("a user's folder that every user may write to is not read", async () => {
    write("user/plugins/p.ts", "p", "mine");
    chmodSync(join(scratch.dir, "user/plugins"), 0o777);
    expect(texts(reportOf((await leaseOnce(hostWith())).reports, "p"))).toEqual([
      expect.stringContaining("chmod o-w"),
    ]);
  });

  test("x.ts next to x/index.ts is refused, and the first serves", async () => {
    write("project/plugins/p.ts", "p", "file");
    write("project/plugins/p/index.ts", "p", "folder");
    const lease = await leaseOnce(hostWith());
    expect(await says(lease, "/dev/p")).toBe("file");
    expect(lease.notices).toEqual([expect.stringContaining("p.ts is plugin p. Remove or rename")]);
  });
});

describe("a file with the content of an embedded plugin", () => {
  const copyStock = () => {
    cpSync(join(CHECKOUT, "plugins"), join(scratch.dir, "project/plugins"), { recursive: true });
    symlinkSync(join(CHECKOUT, "node_modules"), join(scratch.dir, "project/node_modules"));
  };

  test("is the embedded one: no question of trust, no process", async () => {
    copyStock();
    const ask = () => {
      throw new Error("Trust was asked for.");
    };
    const lease = await leaseOnce(hostWith(), project({ isTrusted: ask }));
    expect(lease.reports.every(({ runs, layer }) => runs === "kernel" && layer === "stock")).toBe(true);
  });

  test("until any of its files is edited: then it is the project's, and names the plugin that it replaces", async () => {
    const host = hostWith();
    copyStock();
    await leaseOnce(host);
    const index = join(scratch.dir, "project/plugins/fs/index.ts");
    scratch.write("project/plugins/fs/index.ts", `${await Bun.file(index).text()}\n// edited\n`);
    const untrusted = await leaseOnce(host, project({ isTrusted: () => false }));
    expect(reportOf(untrusted.reports, "fs").state).toBe("untrusted");
    expect(untrusted.namespace.resolve("/dev/fs").entry.layer).toBe("stock");
    const trusted = await leaseOnce(host);
    const report = reportOf(trusted.reports, "fs");
    expect(texts(report)).toEqual([]);
    expect(report).toMatchObject({ state: "loaded", runs: "worker", layer: "project" });
    expect(report.takes).toEqual(["plugin fs", "/dev/fs", "Read", "Write", "Edit", "Glob", "Grep"]);
    expect(trusted.notices).toEqual([expect.stringContaining("replaces plugin fs, /dev/fs, Read")]);
    expect(trusted.namespace.resolve("/dev/fs").entry.layer).toBe("project");
  });
});

describe("trust", () => {
  test("is asked with every file and its digest; without trust the plugin is left out by name and does not run", async () => {
    const mark = join(scratch.dir, "ran");
    write("project/plugins/p/index.ts", "p", "x", {
      top: `import "./h.ts"; require("node:fs").writeFileSync(${JSON.stringify(mark)}, "");`,
    });
    scratch.write("project/plugins/p/h.ts", "export {};");
    const asked: FileDigest[][] = [];
    const isTrusted = (files: readonly FileDigest[]) => {
      asked.push([...files]);
      return false;
    };
    const lease = await leaseOnce(hostWith(), project({ isTrusted }));
    expect(asked).toHaveLength(1);
    expect(asked[0]?.map(({ path }) => path.slice(scratch.dir.length))).toEqual([
      "/project/plugins/p/h.ts",
      "/project/plugins/p/index.ts",
    ]);
    expect(asked[0]?.every(({ digest }) => /^[0-9a-f]{64}$/.test(digest))).toBe(true);
    expect(reportOf(lease.reports, "p").state).toBe("untrusted");
    expect(lease.notices).toEqual([expect.stringMatching(/^Plugin p .*not trusted.*rnix trust/)]);
    expect(existsSync(mark)).toBe(false);
  });

  test("is not asked for the user's own", async () => {
    write("user/plugins/p.ts", "p", "mine");
    expect(await says(await leaseOnce(hostWith(), project({ isTrusted: () => false })), "/dev/p")).toBe(
      "mine",
    );
  });

  test("is about content: an edit needs it again", async () => {
    const host = hostWith();
    write("project/plugins/p.ts", "p", "first");
    const known = new Set<string>();
    const remember = project({ isTrusted: (files) => files.every(({ digest }) => known.add(digest)) });
    const only = project({ isTrusted: (files) => files.every(({ digest }) => known.has(digest)) });
    await leaseOnce(host, remember);
    expect(reportOf((await leaseOnce(host, only)).reports, "p").state).toBe("loaded");
    write("project/plugins/p.ts", "p", "other");
    expect(reportOf((await leaseOnce(host, only)).reports, "p").state).toBe("untrusted");
  });

  test("covers the code that was read when trust was asked, not what the file holds later", async () => {
    write("project/plugins/p.ts", "p", "trusted");
    const isTrusted = () => {
      write("project/plugins/p.ts", "p", "slipped in");
      return true;
    };
    expect(await says(await leaseOnce(hostWith(), project({ isTrusted })), "/dev/p")).toBe("trusted");
  });

  test("is not got round by an alias, a package of another name or a later change of either", async () => {
    write("project/plugins/p.ts", "p", "", { top: 'import { word } from "words";', write: "answer = word;" });
    scratch.write("project/node_modules/words/package.json", '{ "name": "words", "main": "good.js" }');
    scratch.write("project/node_modules/words/good.js", 'exports.word = "reviewed";');
    scratch.write("project/evil.ts", 'export const word = "evil"; export default {};');
    const paths = { "*": ["./evil.ts"], words: ["./evil.ts"], "rnix/plugin": ["./evil.ts"] };
    scratch.write("project/tsconfig.json", JSON.stringify({ compilerOptions: { baseUrl: ".", paths } }));
    const timers = new ManualTimers();
    const host = hostWith({ timers, idleMs: 7, now: () => Date.now() + 60_000 });
    expect(await says(await leaseOnce(host), "/dev/p")).toBe("reviewed");
    // Nothing of the list has changed, so trust is not asked again; nor may anything else run.
    scratch.write("project/node_modules/words/package.json", '{ "name": "words", "main": "../../evil.ts" }');
    expect(timers.fire(7)).toBe(1);
    expect(await says(await leaseOnce(host), "/dev/p")).toBe("reviewed");
  });

  test("is asked for files next to a binary inside the project, too", async () => {
    write("project/plugins/p.ts", "p", "x");
    write("project/bin/plugins/q.ts", "q", "x");
    for (const beside of ["project", "project/bin"]) {
      const host = hostWith({ beside: join(scratch.dir, beside) });
      const { reports } = await leaseOnce(host, project({ isTrusted: () => false }));
      expect(
        reports.filter(({ runs }) => runs === "worker").every(({ state }) => state === "untrusted"),
      ).toBe(true);
      expect(reports.filter(({ name }) => name === "p")).toHaveLength(1);
    }
  });

  test("can be prepared without running code: files, faults and what is used of the stock", async () => {
    const mark = join(scratch.dir, "ran");
    const top = `require("node:fs").writeFileSync(${JSON.stringify(mark)}, "");`;
    write("project/plugins/mine.ts", "mine", "x", {
      top,
      path: "/dev/shell",
      device: 'tools: [{ name: "Read" } as never]',
    });
    scratch.write("project/plugins/bad.ts", "\nexport default ;");
    const found = await hostWith().review(project({ isTrusted: () => false }));
    expect(found.map(({ name, takes, problems }) => [name, takes, problems.map(problemText).length])).toEqual(
      [
        ["bad", [], 1],
        ["mine", ["Read", "/dev/shell"], 0],
      ],
    );
    expect(found[1]?.files).toEqual([join(scratch.dir, "project/plugins/mine.ts")]);
    expect(existsSync(mark)).toBe(false);
  });
});

describe("a plugin that changes", () => {
  const EDITS: [string, () => void][] = [
    [
      "its entry",
      () =>
        write("project/plugins/p/index.ts", "p", "", {
          top: 'import { word } from "./w.ts";',
          write: 'answer = word + " edited";',
        }),
    ],
    [
      "a file it imports",
      () => scratch.write("project/plugins/p/w.ts", 'export const word = "first edited";'),
    ],
  ];
  for (const [what, edit] of EDITS) {
    test(`(${what}) is new at the next lease, and the old one answers until its last file is closed`, async () => {
      const host = hostWith();
      write("project/plugins/p/index.ts", "p", "", {
        top: 'import { word } from "./w.ts";',
        write: "answer = word;",
      });
      scratch.write("project/plugins/p/w.ts", 'export const word = "first";');
      const old = await host.lease(project());
      const file = await open(old, "/dev/p");
      edit();
      const next = await host.lease(project());
      expect(await says(next, "/dev/p")).toBe("first edited");
      expect(await says(old, "/dev/p")).toBe("first");
      expect(next.versions.p).not.toBe(old.versions.p);
      old.release();
      expect(await exchange(file, "")).toBe("first");
      await file.close();
      expect((await failure(() => says(old, "/dev/p"))).code).toBe("CLOSED");
      expect(await says(next, "/dev/p")).toBe("first edited");
      next.release();
    });
  }

  test("back to what it was is what it was", async () => {
    const host = hostWith();
    for (const text of ["a", "b", "a"]) {
      write("project/plugins/p.ts", "p", text);
      expect(await says(await leaseOnce(host), "/dev/p")).toBe(text);
    }
  });

  test("into one that is broken is named with file and line, while the old one answers", async () => {
    const host = hostWith();
    write("project/plugins/p.ts", "p", "good");
    const old = await host.lease(project());
    scratch.write("project/plugins/p.ts", "export default {\n  name: = 1 };");
    const lease = await leaseOnce(host);
    expect(texts(reportOf(lease.reports, "p"))).toEqual([expect.stringMatching(/p\.ts:2:9: Unexpected =/)]);
    expect(() => lease.namespace.resolve("/dev/p")).toThrow("No device");
    expect(await says(old, "/dev/p")).toBe("good");
    old.release();
    write("project/plugins/p.ts", "p", "repaired");
    expect(await says(await leaseOnce(host), "/dev/p")).toBe("repaired");
  });

  test("not is neither read nor started again, and a lease costs next to nothing", async () => {
    // The files count as settled: they look older than they are.
    const host = hostWith({ now: () => Date.now() + 60_000 });
    write("project/plugins/p.ts", "p", "", {
      top: "const born = Math.random();",
      write: "answer = String(born);",
    });
    const first = await says(await leaseOnce(host), "/dev/p");
    const times: number[] = [];
    for (let i = 0; i < 50; i++) {
      const from = performance.now();
      await leaseOnce(host);
      times.push(performance.now() - from);
    }
    expect(Math.min(...times)).toBeLessThan(20);
    expect(await says(await leaseOnce(host), "/dev/p")).toBe(first);
  });
});

describe("one bad plugin stops nothing else", () => {
  const BAD: [string, string, RegExp][] = [
    ["does not parse", "const x = ;", /bad\.ts:1:11: Unexpected ;/],
    ["imports what is not there", 'import "./gone.ts";', /bad\.ts:1:8: Could not resolve/],
    ["throws at import", '\nthrow new Error("early");', /bad\.ts:2:\d+: early/],
    ["exits at import", "process.exit(1);", /ended itself/],
    ["exports something else", "export default 7;", /default export/],
    ["needs what is not offered", 'export default { name: "bad", needs: ["moon"] };', /no service "moon"/],
  ];
  for (const [what, source, said] of BAD) {
    test(`which ${what}`, async () => {
      scratch.write("project/plugins/bad.ts", source);
      write("project/plugins/good.ts", "good", "fine");
      const lease = await leaseOnce(hostWith());
      expect(reportOf(lease.reports, "bad").state).toBe("broken");
      expect(texts(reportOf(lease.reports, "bad"))).toEqual([expect.stringMatching(said)]);
      expect(lease.notices).toEqual([expect.stringMatching(said)]);
      expect(await says(lease, "/dev/good")).toBe("fine");
    });
  }

  test("which never ends its import", async () => {
    const timers = new ManualTimers();
    const mark = (name: string) =>
      `require("node:fs").writeFileSync(${JSON.stringify(join(scratch.dir, name))}, "");`;
    scratch.write("project/plugins/bad.ts", `${mark("bad")} for (;;);`);
    write("project/plugins/good.ts", "good", "fine", { top: mark("good") });
    const host = hostWith({ timers });
    const leasing = leaseOnce(host);
    const imports = () => timers.waiting.filter((ms) => ms === PROCESS_LIMITS.loadMs).length;
    const begun = (name: string) => existsSync(join(scratch.dir, name));
    await until(() => begun("bad") && begun("good") && imports() === 1);
    timers.fire(PROCESS_LIMITS.loadMs);
    timers.fire(PROCESS_LIMITS.answerMs);
    const lease = await leasing;
    expect(texts(reportOf(lease.reports, "bad"))).toEqual([
      expect.stringContaining("its import took longer than 5000 ms"),
    ]);
    expect(await says(lease, "/dev/good")).toBe("fine");
    expect(
      texts(reportOf((await leaseOnce(host)).reports, "bad")),
      "it is not tried again until it changes",
    ).toHaveLength(1);
  });

  test("which wants the path of another of its layer: the second is refused and shown", async () => {
    write("project/plugins/a.ts", "a", "a", { path: "/dev/same" });
    write("project/plugins/b.ts", "b", "b", { path: "/dev/same" });
    const lease = await leaseOnce(hostWith());
    expect(await says(lease, "/dev/same")).toBe("a");
    expect(texts(reportOf(lease.reports, "b"))).toEqual([
      expect.stringContaining("taken by plugin a in the same layer"),
    ]);
  });

  test("which offers a tool of another's name in its layer: its device is there without it", async () => {
    const tool = '{ name: "Same", description: "Does what the other does", input: { type: "object" } }';
    for (const name of ["a", "b"])
      write(`project/plugins/${name}.ts`, name, name, { device: `tools: [${tool}]` });
    const lease = await leaseOnce(hostWith());
    expect(
      lease.namespace
        .tools()
        .filter((one) => one.tool.name === "Same")
        .map((one) => one.entry.plugin),
    ).toEqual(["a"]);
    expect(await says(lease, "/dev/b")).toBe("b");
    expect(texts(reportOf(lease.reports, "b"))).toEqual([
      expect.stringContaining("tool Same is not offered"),
    ]);
  });

  test("which ends on its own: it is named, restarted for the next lease, and at last not restarted", async () => {
    let now = Date.now();
    const host = hostWith({ now: () => now });
    write("project/plugins/p.ts", "p", "up", {
      write: 'if (input === "die") process.exit(1); answer = "up";',
    });
    const die = async () => {
      const lease = await leaseOnce(host);
      expect(reportOf(lease.reports, "p").state).toBe("loaded");
      expect(
        (await failure(async () => (await open(lease, "/dev/p")).write("die", new AbortController().signal)))
          .code,
      ).toBe("CLOSED");
    };
    for (let i = 0; i < 4; i++) await die();
    const tired = reportOf((await leaseOnce(host)).reports, "p");
    expect(tired.state).toBe("broken");
    expect(texts(tired).join()).toContain("ended 4 times within 60 s");
    now += 61_000;
    const again = await leaseOnce(host);
    expect(texts(reportOf(again.reports, "p"))).toEqual([expect.stringContaining("ended itself")]);
    expect(await says(again, "/dev/p")).toBe("up");
  });
});

describe("a plugin that ends in the middle of a run", () => {
  const never = new AbortController().signal;
  /** Answers "up", except for these inputs. */
  const MORTAL = {
    write: `if (input === "exit") process.exit(1);
      if (input === "timer") setTimeout(() => { throw new Error("late"); });
      if (input === "rejection") void Promise.reject(new Error("lost"));
      if (input === "spin") for (;;);
      if (input !== "") await new Promise(() => {});
      answer = "up";`,
  };
  const die = async (lease: HostLease, how: string): Promise<unknown> => {
    const file = await open(lease, "/dev/p");
    return failure(() => file.write(how, never));
  };

  test.each(["exit", "timer", "rejection"])("(%s) is restarted for the next call", async (how) => {
    write("project/plugins/p.ts", "p", "", MORTAL);
    const logged: string[] = [];
    const lease = await leaseOnce(hostWith({ log: (...line) => logged.push(line.join(" ")) }));
    expect(await die(lease, how)).toMatchObject({
      code: "CLOSED",
      message: expect.stringContaining("the next call starts it again"),
    });
    expect(await says(lease, "/dev/p")).toBe("up");
    expect(logged).toEqual([expect.stringMatching(/^warn p Ended: .* It is started again\.$/)]);
  });

  test("because it hung is restarted: a call that comes before the restart waits", async () => {
    const timers = new ManualTimers();
    write("project/plugins/p.ts", "p", "", MORTAL);
    const lease = await leaseOnce(hostWith({ timers }));
    const file = await open(lease, "/dev/p");
    const abort = new AbortController();
    const hung = failure(() => file.write("spin", abort.signal));
    abort.abort(new SyscallError("TIMEOUT", "Too long."));
    timers.fire(PROCESS_LIMITS.answerMs);
    expect(await hung).toMatchObject({ code: "TIMEOUT" });
    const next = says(lease, "/dev/p");
    expect(timers.fire(PROCESS_LIMITS.aliveMs)).toBe(1);
    expect(await next).toBe("up");
  });

  test("is started once for all calls that wait for it", async () => {
    const log = join(scratch.dir, "starts");
    const top = `require("node:fs").appendFileSync(${JSON.stringify(log)}, "start\\n");`;
    write("project/plugins/p.ts", "p", "", { ...MORTAL, top });
    const host = hostWith();
    const [one, two] = [await leaseOnce(host), await leaseOnce(host)];
    await die(one, "exit");
    const answers = [one, two, one].map((lease) => says(lease, "/dev/p"));
    expect(await Promise.all(answers)).toEqual(["up", "up", "up"]);
    expect(readFileSync(log, "utf8")).toBe("start\n".repeat(2));
  });

  test("again and again is not restarted for a while, and the call fails with that reason", async () => {
    let now = Date.now();
    write("project/plugins/p.ts", "p", "", MORTAL);
    const lease = await leaseOnce(hostWith({ now: () => now }));
    for (let n = 0; n < 4; n++) {
      now += 5_000;
      await die(lease, "exit");
    }
    expect(await failure(() => open(lease, "/dev/p"))).toMatchObject({
      code: "EXHAUSTED",
      message: expect.stringMatching(
        /^Plugin p ended 4 times within 60 s\. Ended: it ended itself .* It can be started again in 50 s, or when its files change\.$/,
      ),
    });
    now += 50_001;
    expect(await says(lease, "/dev/p")).toBe("up");
  });

  test("uses its version, also when its files have changed since", async () => {
    const host = hostWith();
    write("project/plugins/p.ts", "p", "", { ...MORTAL, top: "// old" });
    const old = await host.lease(project());
    write("project/plugins/p.ts", "p", "new");
    expect(await says(await leaseOnce(host), "/dev/p")).toBe("new");
    await die(old, "exit");
    expect(await says(old, "/dev/p")).toBe("up");
    old.release();
  });

  test("is not started again after its host has closed", async () => {
    const host = hostWith();
    write("project/plugins/p.ts", "p", "", MORTAL);
    const lease = await host.lease(project());
    await die(lease, "exit");
    await host.close();
    expect(await failure(() => open(lease, "/dev/p"))).toMatchObject({ code: "CLOSED" });
  });
});

describe("a plugin's settings", () => {
  const schema =
    '{ type: "object", properties: { unit: { enum: ["C", "F"], default: "C" } }, additionalProperties: false }';
  const GRID: [string, unknown, string | RegExp][] = [
    ["that are missing are the schema's defaults", undefined, '{"unit":"C"}'],
    ["that fit are handed over", { unit: "F" }, '{"unit":"F"}'],
    ["that do not fit are named", { unit: "K" }, /plugins\.p\.unit/],
    ["that are misspelt are named", { units: "F" }, /plugins\.p: .*units/],
  ];
  for (const [what, part, expected] of GRID) {
    test(what, async () => {
      write("project/plugins/p.ts", "p", "", { plugin: `configSchema: ${schema}` });
      const lease = await leaseOnce(hostWith(), project({ settings: part === undefined ? {} : { p: part } }));
      const report = reportOf(lease.reports, "p");
      if (typeof expected === "string") {
        expect(texts(report)).toEqual([]);
        expect(JSON.stringify(lease.namespace.resolve("/dev/p").entry.config)).toBe(expected);
      } else {
        expect(report.state).toBe("broken");
        expect(texts(report)).toEqual([expect.stringMatching(expected)]);
      }
    });
  }

  test("for a plugin without settings are named", async () => {
    write("project/plugins/p.ts", "p", "");
    const lease = await leaseOnce(hostWith(), project({ settings: { p: { a: 1 } } }));
    expect(texts(reportOf(lease.reports, "p"))).toEqual([expect.stringContaining("takes none")]);
  });
});

describe("the end", () => {
  test("of a host ends its processes: what is open answers CLOSED, and there is no next lease", async () => {
    const host = hostWith();
    write("project/plugins/p.ts", "p", "x");
    const lease = await host.lease(project());
    const file = await open(lease, "/dev/p");
    await host.close();
    expect((await failure(() => exchange(file, ""))).code).toBe("CLOSED");
    expect((await failure(() => host.lease(project()))).code).toBe("CLOSED");
  });

  test("of a host does not wait for an import that never ends", async () => {
    const timers = new ManualTimers();
    const host = hostWith({ timers });
    scratch.write("project/plugins/p.ts", "for (;;);");
    const leasing = leaseOnce(host);
    await until(() => timers.waiting.includes(PROCESS_LIMITS.loadMs));
    await host.close();
    expect(texts(reportOf((await leasing).reports, "p"))).toHaveLength(1);
  });

  test("of a process comes after a while without use, with its dispose; the next lease has a new one", async () => {
    const timers = new ManualTimers();
    const host = hostWith({ timers, idleMs: 7 });
    const mark = join(scratch.dir, "disposed");
    write("project/plugins/p.ts", "p", "x", {
      plugin: `dispose: async () => { require("node:fs").writeFileSync(${JSON.stringify(mark)}, ""); }`,
    });
    const lease = await host.lease(project());
    expect(timers.fire(7), "a held one is not idle").toBe(0);
    lease.release();
    expect(timers.fire(7)).toBe(1);
    await until(() => existsSync(mark));
    expect(await says(await leaseOnce(host), "/dev/p")).toBe("x");
  });
});

describe("what can be mounted", () => {
  const mount = (type: string): string =>
    `mount: { type: "${type}", address: "url", open: async () => ({ devices: {}, unmount: async () => {} }) }, needs: ["exec"]`;

  test("is in the lease by its type, from the nearer layer and in one layer once", async () => {
    write("user/plugins/a.ts", "a", "x", { plugin: mount("table") });
    write("user/plugins/b.ts", "b", "x", { plugin: mount("table") });
    write("project/plugins/c.ts", "c", "x", { plugin: mount("queue") });
    const host = hostWith();
    const lease = await host.lease(project());
    const types = [...(lease.mounts ?? [])].map(([type, { plugin, needs }]) => [type, plugin, needs]);
    expect(types).toContainEqual(["table", "a", ["exec"]]);
    expect(types).toContainEqual(["queue", "c", ["exec"]]);
    expect(texts(reportOf(lease.reports, "b"))).toEqual([
      "It can't be mounted: plugin a of the same layer has the type table.",
    ]);
    expect(reportOf(lease.reports, "c")?.mounts).toBe("queue");
    expect(lease.mounts?.get("queue")?.type.address, "whose host the network must allow").toBe("url");
    const again = await host.lease(project());
    expect(again.mounts?.get("queue")?.type, "the same version, the same type").toBe(
      lease.mounts?.get("queue")?.type,
    );
    lease.release();
    again.release();
  });
});

describe("rnix plugins check", () => {
  test("reports what a plugin is, after a trial load", async () => {
    const tool = '{ name: "Same", description: "Does what the other does", input: { type: "object" } }';
    const file = write("p.ts", "p", "x", {
      device: `match: "prefix", tools: [${tool}]`,
      plugin: 'needs: ["store"]',
    });
    expect(await hostWith().check(file, () => true)).toEqual({
      name: "p",
      file,
      ok: true,
      loaded: true,
      files: [file],
      needs: ["store"],
      secrets: [],
      mounts: null,
      takes: [],
      problems: [],
      warnings: [],
      devices: [{ path: "/dev/p", match: "prefix", tools: ["Same"], provider: false, keys: [] }],
    });
  });

  test("only reads one that may not run: its code does nothing, and its mistakes are found", async () => {
    const asked: string[][] = [];
    const mayRun = (files: readonly { path: string }[]): boolean => {
      asked.push(files.map(({ path }) => path));
      return false;
    };
    const mark = scratch.write("mark", "not run");
    const evil = `import { writeFileSync } from "node:fs"; writeFileSync(${JSON.stringify(mark)}, "run");`;
    const file = scratch.write("evil.ts", `${evil}\nexport default 1;`);
    expect(await hostWith().check(file, mayRun)).toMatchObject({ ok: true, loaded: false, devices: [] });
    expect(asked).toEqual([[file]]);
    expect(readFileSync(mark, "utf8")).toBe("not run");
    const bad = scratch.write("bad.ts", "export default {{;");
    expect(await hostWith().check(bad, mayRun)).toMatchObject({ ok: false, loaded: false });
  });

  test("names what is wrong, and what is odd", async () => {
    const bad = await hostWith().check(scratch.write("bad.ts", "\n\nthrow new TypeError('x');"), () => true);
    expect(bad).toMatchObject({ ok: false, warnings: [] });
    expect(bad.problems.map(problemText)).toEqual([expect.stringMatching(/bad\.ts:3:\d+: TypeError: x/)]);
    const odd = write("p.ts", "p", "x", {
      path: "/dev/fs",
      device:
        'tools: [{ name: "T", description: "d", input: { type: "object", $ref: "https://example.com/x" } }]',
    });
    const report = await hostWith().check(odd, () => true);
    expect(report).toMatchObject({ ok: true, takes: ["/dev/fs"] });
    expect(report.warnings.map(problemText)).toEqual([expect.stringContaining("offered unchecked")]);
  });
});
