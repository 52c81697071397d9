import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { loadProjectInit, loadUserInit, projectInitFile } from "../../src/config/init.ts";
import { failure, Sandbox } from "./sandbox.ts";

const USER = "home/.config/rnix/init.yaml";
const PROJECT = "home/work/.rnix/init.yaml";

const user = (box: Sandbox) => loadUserInit(box.configDir, box.home);
const project = (box: Sandbox) => loadProjectInit(`${box.projectDir}/.rnix/init.yaml`);

describe("init.yaml", () => {
  test("is read whole, in its order, with durations in ms; settings supply what it does not name", async () => {
    using box = new Sandbox();
    const file = box.write(
      PROJECT,
      `
services:
  - name: web
    type: command
    required: true
    config:
      command: npm run dev
      cwd: site
      env: { PORT: "3000" }
      restart: transient
      max_restarts: none
      period: 5m
      shutdown: brutal_kill
  - name: queue.2
    type: command
    config: { command: [redis-server, --port, "7000"] }
supervisors:
  - name: reviewers
    strategy: rest_for_one
    max_restarts: 5
    period: 60s
    required: true
    children:
      - id: triage
        intent: Triage what is new
        agent: code-analyst
        provider: openai
        model: m
        restart: temporary
        shutdown: 1m30s
        max_steps: unlimited
        context_budget: 5000
        max_cost: 1.5
        timeout: 2h
        allow: [Read, "Bash(git *)"]
        deny: [Write]
  - name: others
    children: [{ id: one, intent: Watch }]
`,
    );
    expect<unknown>(await project(box)).toEqual({
      file,
      services: [
        {
          name: "web",
          type: "command",
          required: true,
          config: {
            argv: ["/bin/sh", "-c", "npm run dev"],
            cwd: "site",
            env: { PORT: "3000" },
            restart: "transient",
            maxRestarts: 0,
            periodMs: 300_000,
            shutdown: "brutal_kill",
          },
        },
        {
          name: "queue.2",
          type: "command",
          required: false,
          config: { argv: ["redis-server", "--port", "7000"], env: {}, restart: "permanent" },
        },
      ],
      supervisors: [
        {
          name: "reviewers",
          strategy: "rest_for_one",
          maxRestarts: 5,
          periodMs: 60_000,
          required: true,
          children: [
            {
              id: "triage",
              intent: "Triage what is new",
              restart: "temporary",
              shutdown: 90_000,
              options: {
                agent: "code-analyst",
                provider: "openai",
                model: "m",
                max_steps: null,
                context_budget: 5000,
                max_cost: 1.5,
                timeout_ms: 7_200_000,
                allow: ["Read", "Bash(git *)"],
                deny: ["Write"],
              },
            },
          ],
        },
        {
          name: "others",
          strategy: "one_for_one",
          required: false,
          children: [{ id: "one", intent: "Watch", restart: "permanent", options: {} }],
        },
      ],
    });
  });

  test("has MCP servers as mcp.yaml has them, and reports the position of a mistake in one", async () => {
    using box = new Sandbox();
    const TOKEN = `\${ISSUES_TOKEN}`;
    const file = box.write(
      USER,
      `services:\n  - name: issues\n    type: mcp\n    required: true\n    config:\n      command: issues\n      args: [--all]\n      env: { TOKEN: '${TOKEN}' }\n      mount_timeout: 20s\n`,
    );
    const [service] = (await user(box))?.services ?? [];
    expect(service).toMatchObject({
      name: "issues",
      type: "mcp",
      required: true,
      config: { command: "issues", args: ["--all"], env: { TOKEN }, mount_timeout: 20_000 },
    });
    if (service?.type !== "mcp") throw new Error("no MCP server");
    expect(service.wrong(["env", "TOKEN"], "it is not set").message).toBe(`${file}:8:21: it is not set`);
    box.write(USER, "services:\n  - { name: a, type: mcp, config: { comand: x } }\n");
    expect((await failure(() => user(box))).message).toStartWith(`${file}:2:37: unknown key "comand"`);
  });

  test("of the documentation can be read", async () => {
    using box = new Sandbox();
    const text = readFileSync(join(import.meta.dir, "../../docs/unattended.md"), "utf8");
    const [, yaml = ""] = /```yaml\n(services:[\s\S]*?)```/.exec(text) ?? [];
    box.write(USER, yaml);
    const init = await user(box);
    expect(init?.services.map(({ name }) => name)).toEqual(["redis", "issues"]);
    expect(init?.supervisors).toMatchObject([{ name: "reviewers", project: `${box.home}/work/shop` }]);
  });

  test("that is not there is nothing, and an empty one has nothing in it", async () => {
    using box = new Sandbox();
    expect([await user(box), await project(box)]).toEqual([null, null]);
    const file = box.write(PROJECT, "# later\n");
    expect(await project(box)).toEqual({ file, services: [], supervisors: [] });
  });

  test("of the user names each supervisor's project, absolute or below HOME", async () => {
    using box = new Sandbox();
    const supervisor = (name: string, dir: string) =>
      `  - { name: ${name}, project: ${dir}, children: [{ id: a, intent: go }] }\n`;
    box.write(USER, `supervisors:\n${supervisor("a", "~/work")}${supervisor("b", "/srv/app")}`);
    const read = await user(box);
    expect(read?.supervisors.map((one) => one.project)).toEqual([`${box.home}/work`, "/srv/app"]);
  });

  test("of a project is in its .rnix; outside of a project there is none", () => {
    using box = new Sandbox();
    expect(projectInitFile(box.project())).toBe(`${box.projectDir}/.rnix/init.yaml`);
    expect(projectInitFile(box.project(box.home))).toBeNull();
  });
});

describe("a mistake is reported with file, line and column", () => {
  const child = "[{ id: a, intent: go }]";
  const cases: [what: string, tier: "user" | "project", yaml: string, place: string, message: string][] = [
    ["a key", "user", "servces: []\n", "1:1", 'unknown key "servces"; did you mean "services"?'],
    ["a list", "user", "services: web\n", "1:11", "expected a list of services"],
    [
      "a service",
      "user",
      "services:\n  - web\n",
      "2:5",
      'expected a mapping of name, type, required, config, got "web"',
    ],
    ["a type", "user", "services:\n  - { name: a, type: mpc }\n", "2:22", "expected one of command, mcp"],
    ["no type", "user", "services:\n  - { name: a }\n", "2:5", "got nothing"],
    [
      "a config",
      "user",
      "services:\n  - { name: a, type: command }\n",
      "2:5",
      "expected a mapping of command",
    ],
    [
      "a key of a config",
      "project",
      "services:\n  - name: a\n    type: command\n    config:\n      comand: x\n      command: x\n",
      "5:7",
      'did you mean "command"?',
    ],
    [
      "an empty program",
      "project",
      "services:\n  - { name: a, type: command, config: { command: [] } }\n",
      "2:50",
      "expected a program and its arguments",
    ],
    [
      "a variable",
      "project",
      "services:\n  - { name: a, type: command, config: { command: x, env: { PORT: 3000 } } }\n",
      "2:66",
      "expected a text, in quotes if need be, got 3000",
    ],
    [
      "required",
      "project",
      "services:\n  - { name: a, type: command, required: 1, config: { command: x } }\n",
      "2:41",
      "true or false",
    ],
    ["a name", "project", `supervisors:\n  - { name: a__b, children: ${child} }\n`, "2:13", 'without "__"'],
    [
      "a path for a name",
      "project",
      `supervisors:\n  - { name: ../a, children: ${child} }\n`,
      "2:13",
      "expected",
    ],
    ["no child", "project", "supervisors:\n  - { name: a, children: [] }\n", "2:26", "at least one child"],
    [
      "a strategy",
      "project",
      `supervisors:\n  - { name: a, strategy: one_for_al, children: ${child} }\n`,
      "2:26",
      'did you mean "one_for_all"?',
    ],
    [
      "a duration",
      "project",
      `supervisors:\n  - { name: a, period: 60, children: ${child} }\n`,
      "2:24",
      "such as 60s",
    ],
    [
      "no restarts",
      "project",
      `supervisors:\n  - { name: a, max_restarts: 0, children: ${child} }\n`,
      "2:30",
      "write none for not at all",
    ],
    [
      "a shutdown",
      "project",
      "supervisors:\n  - { name: a, children: [{ id: a, intent: go, shutdown: infinity }] }\n",
      "2:58",
      "or brutal_kill",
    ],
    [
      "no intent",
      "project",
      "supervisors:\n  - { name: a, children: [{ id: a }] }\n",
      "2:27",
      "intent: expected what the agent is to do, got nothing",
    ],
    [
      "a limit",
      "project",
      "supervisors:\n  - { name: a, children: [{ id: a, intent: go, max_steps: 0 }] }\n",
      "2:59",
      "write unlimited for no limit",
    ],
    [
      "a name that is taken",
      "project",
      `services:\n  - { name: a, type: command, config: { command: x } }\nsupervisors:\n  - { name: a, children: ${child} }\n`,
      "4:13",
      'expected another name: "a" is taken',
    ],
    [
      "an id that is taken",
      "project",
      "supervisors:\n  - { name: a, children: [{ id: b, intent: go }, { id: b, intent: go }] }\n",
      "2:56",
      'expected another id: "b" is taken',
    ],
    [
      "no project",
      "user",
      `supervisors:\n  - { name: a, children: ${child} }\n`,
      "2:5",
      "expected the folder of the project",
    ],
    [
      "a relative project",
      "user",
      `supervisors:\n  - { name: a, project: work, children: ${child} }\n`,
      "2:25",
      "expected an absolute path",
    ],
    [
      "a project in a project's file",
      "project",
      `supervisors:\n  - { name: a, project: /w, children: ${child} }\n`,
      "2:16",
      'unknown key "project"',
    ],
  ];
  for (const [what, tier, yaml, place, message] of cases) {
    test(`${what}, in the ${tier}'s`, async () => {
      using box = new Sandbox();
      const file = box.write(tier === "user" ? USER : PROJECT, yaml);
      const error = await failure(() => (tier === "user" ? user(box) : project(box)));
      expect(error.code).toBe("INVALID");
      const [line = ""] = error.message.split("\n");
      expect(line.slice(0, file.length + place.length + 2)).toBe(`${file}:${place}:`);
      expect(line).toContain(message);
    });
  }
});
