import { describe, expect, test } from "bun:test";
import { readdirSync, rmSync, statSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { loadAgent } from "../../src/config/agents/agents.ts";
import { Trust, trustAll } from "../../src/config/trust/trust.ts";
import { trustItems } from "../../src/config/trust-items.ts";
import { failure, Sandbox } from "./sandbox.ts";

const NOW = Date.UTC(2026, 0, 2);
const whole = (paths: readonly string[]) => ({ files: paths.map((path) => ({ path })) });

/** A project with one of everything that trust is asked for. */
function fullProject(): Sandbox {
  const box = new Sandbox();
  box.write("home/work/plugins/jira.ts", "export default 1;");
  box.write("home/work/plugins/util.ts", "export const x = 1;");
  box.write("home/work/.rnix/config.yaml", "max_steps: 5\nplugins:\n  jira: { site: a }\n");
  box.write(
    "home/work/.rnix/providers.yaml",
    "providers:\n  openai: { base_url: 'https://proxy.example/v1', default_model: m }\n  anthropic: { concurrency: 2 }\n",
  );
  box.write("home/work/.mcp.json", "{}");
  box.write("home/work/.rnix/mcp.yaml", "servers: {}\n");
  box.write("home/work/.rnix/init.yaml", "services: []\n");
  box.write("home/work/agents/ci/agent.yaml", "name: ci\ndescription: d\nchecks: [npm test]\n");
  box.write("home/work/agents/ci/instructions.md", "Do it.\n");
  box.write("home/work/skills/rel/SKILL.md", "---\nname: rel\ndescription: d\n---\nRun scripts/go.sh\n");
  box.write("home/work/skills/rel/scripts/go.sh", "echo go\n");
  return box;
}

function plugins(box: Sandbox) {
  const files = ["jira.ts", "util.ts"].map((name) => join(box.projectDir, "plugins", name));
  return [{ name: "jira", files, takes: ["Read"] }];
}

async function states(box: Sandbox): Promise<Record<string, string>> {
  const trust = box.trust();
  const items = trust.review(await trustItems(box.sources(), trust, plugins(box)));
  return Object.fromEntries(items.map(({ kind, name, state }) => [`${kind} ${name}`, state]));
}

const ALL = [
  "plugin jira",
  "config plugins",
  "provider openai",
  "mcp .mcp.json",
  "mcp .rnix/mcp.yaml",
  "init .rnix/init.yaml",
  "agent ci",
  "checks ci",
  "scripts rel",
];
const every = (state: string) => Object.fromEntries(ALL.map((name) => [name, state]));

async function accept(box: Sandbox): Promise<void> {
  const trust = box.trust();
  trust.accept(await trustItems(box.sources(), trust, plugins(box)), NOW);
}

describe("trust is asked for", () => {
  test("everything of a project that the table of project keys says needs it, and nothing else", async () => {
    using box = fullProject();
    expect(await states(box)).toEqual(every("new"));
  });

  test("in words that say what it does", async () => {
    using box = fullProject();
    const items = await trustItems(box.sources(), box.trust(), plugins(box));
    const what = items.map((item) => item.what).join("\n");
    expect(what).toContain("plugin jira: runs as you, 2 files, in place of the stock Read");
    expect(what).toContain('base_url "https://proxy.example/v1"');
    expect(what).toContain("npm test");
  });

  test("an agent's checks, though a skill of that agent is not there to be read", async () => {
    using box = new Sandbox();
    box.write(
      "home/work/agents/ci/agent.yaml",
      "name: ci\ndescription: d\nskills: [testing]\nchecks: [make]\n",
    );
    box.write("home/work/agents/broken/agent.yaml", "name: broken\nchecks: [make]\n");
    const items = await trustItems(box.sources(), box.trust(), []);
    expect(items.map(({ kind, name }) => `${kind} ${name}`)).toEqual(["agent ci", "checks ci"]);
  });

  test("nothing in a folder that is no project", async () => {
    using box = fullProject();
    const sources = box.sources(box.project(box.home));
    expect(await trustItems(sources, box.trust(sources.project), [])).toEqual([]);
    expect((await failure(() => box.trust(sources.project).follow([], NOW))).code).toBe("INVALID");
  });
});

describe("what was trusted", () => {
  test("keeps its earlier trust, recorded with the user and not in the project", async () => {
    using box = fullProject();
    const before = readdirSync(box.projectDir, { recursive: true }).length;
    await accept(box);
    expect(await states(box)).toEqual(every("trusted"));
    expect(readdirSync(box.projectDir, { recursive: true }).length).toBe(before);
    const [file] = readdirSync(join(box.userDataDir, "trust"));
    expect(file).toBe(`${box.project().id}.json`);
    expect(statSync(join(box.userDataDir, "trust", file ?? "")).mode & 0o777).toBe(0o600);
    expect(box.trust().since).toBe("2026-01-02T00:00:00.000Z");
  });

  const CHANGES: [string, string, string, string | null][] = [
    ["plugin jira", "a plugin's entry", "plugins/jira.ts", "export default 2;"],
    ["plugin jira", "a file that a plugin imports", "plugins/util.ts", "export const x = 2;"],
    ["plugin jira", "a plugin's file that is gone", "plugins/util.ts", null],
    ["config plugins", "a plugin's settings", ".rnix/config.yaml", "plugins: { jira: { site: b } }\n"],
    [
      "provider openai",
      "where a provider's key goes",
      ".rnix/providers.yaml",
      "providers: { openai: { base_url: 'https://x.example' } }\n",
    ],
    ["mcp .mcp.json", "an MCP server", ".mcp.json", '{"mcpServers":{}}'],
    ["init .rnix/init.yaml", "a service", ".rnix/init.yaml", "services: [1]\n"],
    ["checks ci", "a check", "agents/ci/agent.yaml", "name: ci\ndescription: d\nchecks: [rm -rf x]\n"],
    ["scripts rel", "a skill's script", "skills/rel/scripts/go.sh", "echo gone\n"],
    ["scripts rel", "one more script", "skills/rel/scripts/more.sh", "echo more\n"],
  ];
  test.each(CHANGES)("%s alone is changed by %s", async (item, _, path, text) => {
    using box = fullProject();
    await accept(box);
    if (text === null) rmSync(join(box.projectDir, path));
    else box.write(`home/work/${path}`, text);
    expect(await states(box)).toEqual({ ...every("trusted"), [item]: "changed" });
  });

  test.each([
    ["numbers in config.yaml", ".rnix/config.yaml", "# new\nmax_steps: 9\nplugins:\n  jira:\n    site: a\n"],
    [
      "what narrows of a provider",
      ".rnix/providers.yaml",
      "providers: { openai: { default_model: m, base_url: 'https://proxy.example/v1', concurrency: 1 } }\n",
    ],
    [
      "an agent's limits",
      "agents/ci/agent.yaml",
      "name: ci\ndescription: e\nmax_steps: 3\nchecks: [npm test]\n",
    ],
    ["a skill's text", "skills/rel/SKILL.md", "---\nname: rel\ndescription: e\n---\nOther words\n"],
  ])("stays trusted when only %s change", async (_, path, text) => {
    using box = fullProject();
    await accept(box);
    box.write(`home/work/${path}`, text);
    expect(await states(box)).toEqual(every("trusted"));
  });

  test("is forgotten by the next trusted state, so that an old state cannot come back", async () => {
    using box = fullProject();
    await accept(box);
    box.write("home/work/plugins/util.ts", "export const x = 2;");
    await accept(box);
    box.write("home/work/plugins/util.ts", "export const x = 1;");
    expect(await states(box)).toEqual({ ...every("trusted"), "plugin jira": "changed" });
  });

  test("is not what another project has, even with the same content", async () => {
    using box = fullProject();
    await accept(box);
    const other = box.write("home/other/plugins/jira.ts", "export default 1;");
    expect(box.trust(box.project(join(box.home, "other"))).allows(whole([other]))).toBe(false);
  });

  test("ends with revoke", async () => {
    using box = fullProject();
    await accept(box);
    const trust = box.trust();
    trust.revoke();
    expect(trust.since).toBeNull();
    expect(await states(box)).toEqual(every("new"));
    box.trust().revoke();
  });
});

describe("whole files", () => {
  test("is never true for no file, a missing one, a folder, or one more than was trusted", async () => {
    using box = fullProject();
    const [plugin] = plugins(box);
    const files = plugin?.files ?? [];
    await accept(box);
    const trust = box.trust();
    expect(trust.allows(whole(files))).toBe(true);
    expect(trust.allows(whole([...files, box.write("home/work/plugins/more.ts", "")]))).toBe(false);
    expect(trust.allows(whole([]))).toBe(false);
    expect(trust.allows(whole([join(box.projectDir, "gone")]))).toBe(false);
    expect(trust.allows(whole([box.projectDir]))).toBe(false);
  });

  test("of content that was read already goes by what was read, not by what lies there now", () => {
    using box = new Sandbox();
    const file = box.write("home/work/plugins/x.ts", "1");
    const hex = (text: string) => new Bun.CryptoHasher("sha256").update(text).digest("hex");
    const trust = box.trust();
    trust.accept([trust.item({ kind: "plugin", name: "x", what: "", file, ...whole([file]) })], NOW);
    box.write("home/work/plugins/x.ts", "2");
    expect(box.trust().allows({ files: [{ path: file, digest: hex("1") }] })).toBe(true);
    expect(box.trust().allows({ files: [{ path: file, digest: hex("2") }] })).toBe(false);
    expect(box.trust().allows({ files: [] })).toBe(false);
  });

  test("binds a file outside of the project, and what a link leads to", () => {
    using box = new Sandbox();
    const outside = box.write("lib/shared.ts", "1");
    const link = join(box.projectDir, "link.ts");
    symlinkSync(outside, link);
    const trust = box.trust();
    trust.accept(
      [trust.item({ kind: "plugin", name: "x", what: "", file: link, ...whole([link, outside]) })],
      NOW,
    );
    expect(box.trust().allows(whole([link, outside]))).toBe(true);
    box.write("lib/shared.ts", "2");
    expect(box.trust().allows(whole([link]))).toBe(false);
    expect(box.trust().allows(whole([outside]))).toBe(false);
  });
});

describe("what a trusted command names in the project", () => {
  const SCRIPT = ["ci/check.sh", "rm -rf .\n"] as const;
  const check = (command: string) => ["checks ci", "agents/ci/agent.yaml", agentWith(command)] as const;
  /** The item, the file that declares it with its text, and the file that then changes with its text. */
  const CASES: Record<string, readonly [string, string, string, ...change: (readonly [string, string])[]]> = {
    "a check's script": check("sh ./ci/check.sh --all"),
    "a script behind a quote, an option and a pipe": check("true|bash -c './ci/check.sh'"),
    "a script behind a variable": check('bash "$PWD/ci/check.sh"'),
    "a script behind a variable in braces": check(`bash \${PWD}/ci/check.sh`),
    "a script behind a command's output": check("bash $(git rev-parse --show-toplevel)/ci/check.sh"),
    "a script below a folder that a variable names": check("D=ci; bash $D/check.sh"),
    "a file that is an option's value": check("tool --config=ci/check.sh"),
    "a script below a folder that an option names": check("env --chdir=ci sh check.sh"),
    "a package's scripts": [...check("npm test"), ["package.json", '{"scripts":{"test":"rm -rf ."}}']],
    "a package's scripts in a folder that the command changes to": [
      ...check("cd web && npm test"),
      ["web/package.json", '{"scripts":{"test":"rm -rf ."}}'],
    ],
    "a Makefile": [...check("make -s check"), ["Makefile", "check:\n\trm -rf .\n"]],
    "an MCP server's program": [
      "mcp .mcp.json",
      ".mcp.json",
      '{"mcpServers":{"x":{"command":"node","args":["ci/check.sh"]}}}',
    ],
    "an MCP server's program below its own folder": [
      "mcp .rnix/mcp.yaml",
      ".rnix/mcp.yaml",
      "servers: { x: { command: ./check.sh, cwd: ci } }\n",
    ],
    "a service's program": [
      "init .rnix/init.yaml",
      ".rnix/init.yaml",
      "services: [{ name: s, type: command, config: { command: [python3, ci/check.sh] } }]\n",
    ],
    "the command that prints a key": [
      "provider openai",
      ".rnix/providers.yaml",
      "providers: { openai: { api_key_command: ci/check.sh } }\n",
    ],
  };
  test.each(Object.entries(CASES))("is bound: %s", async (_, [item, file, text, change = SCRIPT]) => {
    using box = fullProject();
    box.write("home/work/ci/check.sh", "true\n");
    for (const folder of ["", "web/"])
      box.write(`home/work/${folder}package.json`, '{"scripts":{"test":"true"}}');
    box.write("home/work/Makefile", "check:\n\ttrue\n");
    box.write(`home/work/${file}`, text);
    await accept(box);
    expect((await states(box))[item]).toBe("trusted");
    box.write(`home/work/${change[0]}`, change[1]);
    expect((await states(box))[item]).toBe("changed");
  });

  test("and cannot be put there later: a script that was missing is new", async () => {
    using box = fullProject();
    box.write("home/work/agents/ci/agent.yaml", agentWith("sh check.sh"));
    await accept(box);
    expect((await loadAgent("ci", box.sources())).checksWithheld).toBe(false);
    box.write("home/work/check.sh", "evil\n");
    expect((await loadAgent("ci", box.sources())).checksWithheld).toBe(true);
  });

  test("is bounded: a command with too many words or folders is never trusted", async () => {
    using box = fullProject();
    const words = Array.from({ length: 600 }, (_, i) => `w${i}`).join(" ");
    const folders = Array.from({ length: 9 }, (_, i) => `d${i}`);
    for (const folder of folders) box.folder(`home/work/${folder}`);
    for (const check of [words, folders.join(" ")]) {
      box.write("home/work/agents/ci/agent.yaml", agentWith(check));
      await accept(box);
      expect((await states(box))["checks ci"]).not.toBe("trusted");
      expect((await loadAgent("ci", box.sources())).checksWithheld).toBe(true);
      expect((await loadAgent("ci", box.trusted())).checksWithheld).toBe(false);
    }
  });

  test("is not what else a package.json says", async () => {
    using box = fullProject();
    box.write("home/work/package.json", '{"scripts":{"test":"true"}}');
    await accept(box);
    box.write("home/work/package.json", '{"version":"2","scripts":{"test":"true"},"dependencies":{}}');
    expect((await states(box))["checks ci"]).toBe("trusted");
  });
});

function agentWith(check: string): string {
  return `name: ci\ndescription: d\nchecks: [${JSON.stringify(check)}]\n`;
}

describe("following a folder", () => {
  test("trusts whatever is in it, until it is revoked", async () => {
    using box = fullProject();
    box.trust().follow([], NOW);
    expect(await states(box)).toEqual(every("trusted"));
    box.write("home/work/plugins/jira.ts", "export default 3;");
    expect(await states(box)).toEqual(every("trusted"));
    expect(box.trust().follows).toBe(true);
    box.trust().revoke();
    expect(await states(box)).toEqual(every("new"));
  });

  const now = (box: Sandbox) => trustItems(box.sources(), box.trust(), plugins(box));

  test("trusts its author's changes before a run, and no change during one", async () => {
    using box = fullProject();
    box.trust().follow(await now(box), NOW);
    box.write("home/work/plugins/jira.ts", "export default 'mine';");
    box.trust().beginRuns("k", await now(box));
    expect(await states(box)).toEqual(every("trusted"));
    box.write("home/work/plugins/jira.ts", "export default 'of a run';");
    box.write("home/work/agents/evil/agent.yaml", "name: evil\ndescription: d\n");
    const during = await states(box);
    expect(during).toEqual({ ...every("trusted"), "plugin jira": "by a run", "agent evil": "by a run" });

    expect(box.trust().settleRuns(["k"], await now(box))).toEqual([
      "plugins/jira.ts",
      "agents/evil/agent.yaml",
    ]);
    expect(await states(box)).toEqual(during);
    box.write("home/work/plugins/jira.ts", "export default 'of a run, and mine';");
    expect((await states(box))["plugin jira"]).toBe("by a run");
    box.trust().beginRuns("k", await now(box));
    expect((await states(box))["plugin jira"]).toBe("by a run");
    box.trust().settleRuns(["k"], await now(box));
    box.write("home/work/plugins/jira.ts", "export default 'mine';");
    expect((await states(box))["plugin jira"]).toBe("trusted");
  });

  test("trusts a run's changes once a person does, and continues to follow", async () => {
    using box = fullProject();
    box.trust().follow(await now(box), NOW);
    box.trust().beginRuns("k", await now(box));
    box.write("home/work/.mcp.json", '{"mcpServers":{}}');
    box.trust().settleRuns(["k"], await now(box));
    expect((await states(box))["mcp .mcp.json"]).toBe("by a run");
    box.trust().accept(await now(box), NOW);
    expect(await states(box)).toEqual(every("trusted"));
    expect(box.trust().follows).toBe(true);
    box.write("home/work/plugins/util.ts", "export const x = 'mine';");
    expect(await states(box)).toEqual(every("trusted"));
  });

  test("of a kernel that died is not taken for its author's, and one run leaves the others' mark", async () => {
    using box = fullProject();
    box.trust().follow(await now(box), NOW);
    box.trust().beginRuns("dead", await now(box));
    box.write("home/work/skills/rel/scripts/go.sh", "echo of a run\n");
    expect(box.trust().activeKernels()).toEqual(["dead"]);
    box.trust().beginRuns("next", null);
    box.trust().settleRuns(["next"], await now(box));
    expect(box.trust().activeKernels()).toEqual(["dead"]);
    expect((await states(box))["scripts rel"]).toBe("by a run");
    box.trust().settleRuns(["dead"], await now(box));
    expect(box.trust().activeKernels()).toEqual([]);
    expect((await states(box))["scripts rel"]).toBe("by a run");
  });

  test("holds of a file as a whole, and of a package.json for its scripts", async () => {
    using box = fullProject();
    const manifest = (more: object) =>
      box.write("home/work/package.json", JSON.stringify({ scripts: { test: "x" }, ...more }));
    manifest({});
    box.trust().follow(await now(box), NOW);
    box.trust().beginRuns("k", await now(box));
    manifest({ dependencies: { a: "1" } });
    box.write("home/work/agents/ci/agent.yaml", "name: ci\ndescription: of a run\nchecks: [npm test]\n");
    box.trust().settleRuns(["k"], await now(box));
    expect(await states(box)).toEqual({
      ...every("trusted"),
      "agent ci": "by a run",
      "checks ci": "by a run",
    });
    box.write("home/work/agents/ci/agent.yaml", "name: ci\ndescription: d\nchecks: [npm test]\n");
    expect(await states(box)).toEqual(every("trusted"));
    box.trust().beginRuns("k", await now(box));
    manifest({ scripts: { test: "of a run" } });
    box.trust().settleRuns(["k"], await now(box));
    expect(await states(box)).toEqual({ ...every("trusted"), "checks ci": "by a run" });
  });

  test("for one run writes nothing down", async () => {
    using box = fullProject();
    expect(trustAll.allows(whole([]))).toBe(true);
    expect(await states(box)).toEqual(every("new"));
  });
});

test("a damaged or newer record is refused with what to do, never read as trust", async () => {
  using box = new Sandbox();
  const project = box.project();
  const path = `home/.local/share/rnix/trust/${project.id}.json`;
  for (const text of ["{", '{"v":2,"follow":true}', '{"v":1,"follow":true}']) {
    box.write(path, text);
    const error = await failure(() => new Trust(box.userDataDir, project));
    expect(error.code).toBe("INVALID");
    expect(error.message).toContain("rnix trust");
  }
});
