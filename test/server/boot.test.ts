import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Client } from "../../src/client/client.ts";
import { ensureDaemon } from "../../src/client/daemon.ts";
import { openSession, type Session } from "../../src/client/session.ts";
import type { SpawnRequest, StreamEvent } from "../../src/protocol/methods.ts";
import { commit, version } from "../../src/version.ts";
import { isAlive } from "../support/is-alive.ts";
import { ModelServer, type Turn } from "../support/model-server/server.ts";
import { until } from "../support/until.ts";
import { Home } from "./support/home.ts";
import { refusal, wireCode } from "./support/refusal.ts";

// Daemons of their own start and die in them: a busy machine takes its time.
setDefaultTimeout(30_000);

/** The whole system but the commands: boot, kernel, plugins, drivers, a scripted model. */
const DAEMON = [process.execPath, join(import.meta.dir, "support/daemon-program.ts")];

const READ: Turn = { tool_calls: [{ name: "Read", input: { path: "a.txt" } }] };
const DONE: Turn = { text: "It says hello." };

async function inside(home: Home): Promise<Session & AsyncDisposable> {
  const session = await openSession({ env: home.env, inside: true });
  if (!session) throw new Error("no session");
  return {
    connect: () => session.connect(),
    close: () => session.close(),
    [Symbol.asyncDispose]: () => session.close(),
  };
}

function request(home: Home, model: ModelServer | null, more: Partial<SpawnRequest> = {}): SpawnRequest {
  const env = {
    ...home.env,
    ...(model && { OPENAI_BASE_URL: model.openaiUrl, OPENAI_API_KEY: "sk-test-0123456789" }),
  };
  return {
    intent: "read a.txt",
    cwd: home.project,
    provider: "openai",
    model: "m",
    sandbox: "off",
    env,
    ...more,
  };
}

async function follow(client: Client, spawn: SpawnRequest): Promise<StreamEvent[]> {
  const events: StreamEvent[] = [];
  for await (const event of await client.open("spawn", spawn)) events.push(event);
  return events;
}

function receipt(events: StreamEvent[]) {
  const last = events.at(-1);
  if (last?.type !== "complete") throw new Error(`the last event was ${last?.type}`);
  return last.payload;
}

function notices(events: StreamEvent[]): string[] {
  return events.flatMap((event) =>
    event.type === "progress" && event.payload.event === "notice" ? [event.payload.text] : [],
  );
}

describe("a run inside the command", () => {
  test("runs from intent to receipt with a real model server, devices and records, and leaves nothing", async () => {
    await using home = new Home();
    await using model = await ModelServer.start([READ, DONE]);
    writeFileSync(join(home.project, "a.txt"), "hello\n");
    let uuid = "";
    {
      await using session = await inside(home);
      const events = await follow(await session.connect(), request(home, model));
      const done = receipt(events);
      uuid = done.uuid;
      expect(done).toMatchObject({
        event: "complete",
        agent: "default",
        provider: "openai",
        model: "m",
        exit_code: 0,
        exit_reason: "completed",
        result: "It says hello.",
        steps: 2,
        tool_calls: 1,
        sandbox: "none",
        error: null,
      });
      const text = events.flatMap((event) => (event.type === "text_delta" ? [event.payload.text] : []));
      expect(text.join("")).toBe("It says hello.");

      const client = await session.connect();
      const shown = await client.request("show", { uuid });
      expect([shown.live, shown.receipt?.exit_reason]).toEqual([false, "completed"]);
      const step = await client.request("get_step_detail", { uuid, step: 1 });
      expect(step.tool_result).toContain("hello");
      expect(
        (await client.request("list_all_procs", { cwd: home.project })).processes.map((p) => p.uuid),
      ).toEqual([uuid]);
      expect((await client.request("list_events", { uuid })).events.map((e) => e.syscall)).toContain("Open");
      // The live log and the one from the records are the same lines.
      const live = events.flatMap((event) => (event.type === "log_entry" ? [lineOf(event)] : []));
      const later: string[] = [];
      for await (const event of await client.open("attach_log", { uuid })) {
        if (event.type === "log_entry") later.push(lineOf(event));
      }
      expect(later).toEqual([...live, expect.stringContaining("end completed (exit 0)")]);
      expect(later.length).toBeGreaterThan(2);
    }
    expect([...new Bun.Glob("kernels/*").scanSync(home.paths.dataDir)]).toEqual([]);
    expect([home.paths.socket, home.paths.pidFile, home.paths.lockFile].filter(existsSync)).toEqual([]);
    expect(existsSync(join(home.project, ".rnix/data/steps", uuid, "proc-info.json"))).toBe(true);
  });

  test("is suspended when its command ends first", async () => {
    await using home = new Home();
    await using model = await ModelServer.start([{ fault: { kind: "hang" } }]);
    const session = await inside(home);
    const client = await session.connect();
    const run = await client.open("spawn", request(home, model));
    await model.arrived(1);
    const last: StreamEvent[] = [];
    const reading = (async () => {
      for await (const event of run) last.push(event);
    })();
    await session.close();
    await reading;
    expect(receipt(last)).toMatchObject({ exit_code: 75, exit_reason: "suspended" });
  });

  test("applies the request's limits: absent or 0 is the default, a number is the limit, unlimited is no limit", async () => {
    await using home = new Home();
    await using model = await ModelServer.start({ turns: [DONE], loop: true });
    await using session = await inside(home);
    const limits: (number | null)[] = [];
    for (const max_steps of [undefined, 0, 7, "unlimited"] as const) {
      const events = await follow(await session.connect(), request(home, model, { max_steps }));
      const shown = await (await session.connect()).request("show", { uuid: receipt(events).uuid });
      limits.push(shown.max_steps);
    }
    expect(limits).toEqual([100, 100, 7, null]);
  });
});

describe("before a process exists", () => {
  let home: Home;
  let session: Session;
  beforeAll(async () => {
    home = new Home();
    session = await inside(home);
    mkdirSync(join(home.project, "agents/checked"), { recursive: true });
    writeFileSync(
      join(home.project, "agents/checked/agent.yaml"),
      'name: checked\ndescription: has a check\nchecks: ["true"]\n',
    );
    writeFileSync(join(home.project, "agents/checked/instructions.md"), "Do it.\n");
    writeFileSync(join(home.project, "binary"), new Uint8Array([0, 1, 2, 255]));
  });
  afterAll(async () => {
    await session.close();
    await home[Symbol.asyncDispose]();
  });

  const UNKNOWN_UUID = "00000000-0000-7000-8000-000000000001";
  const key = { OPENAI_API_KEY: "sk-test-0123456789", OPENAI_BASE_URL: "http://127.0.0.1:9/v1" };
  const cases: {
    title: string;
    more: Partial<SpawnRequest>;
    env?: Record<string, string>;
    code: string;
    says: string;
  }[] = [
    { title: "an unknown agent", more: { agent: "codr" }, code: "NOT_FOUND", says: "coder" },
    { title: "an unknown provider", more: { provider: "opnai" }, code: "NOT_FOUND", says: "openai" },
    { title: "a provider without its key", more: {}, env: {}, code: "UNAVAILABLE", says: "OPENAI_API_KEY" },
    {
      title: "no provider at all",
      more: { provider: undefined },
      env: {},
      code: "UNAVAILABLE",
      says: "ANTHROPIC_API_KEY",
    },
    { title: "an unknown tool", more: { deny: ["Bsh"] }, code: "INVALID", says: "Bash" },
    {
      title: "a sandbox that is required",
      more: { sandbox: "required" },
      env: { ...key, PATH: "/nonexistent" },
      code: "UNAVAILABLE",
      says: "sandbox",
    },
    { title: "a negative limit", more: { max_steps: -1 }, code: "INVALID", says: "max_steps" },
    {
      title: "a folder that is not there",
      more: { cwd: "/no/such/folder" },
      code: "NOT_FOUND",
      says: "/no/such/folder",
    },
    {
      title: "a file to attach that is not there",
      more: { add: ["/no/such/file"] },
      code: "NOT_FOUND",
      says: "/no/such/file",
    },
    {
      title: "checks of a project that is not trusted",
      more: { agent: "checked" },
      code: "INVALID",
      says: "rnix trust",
    },
    {
      title: "a parent that is not alive",
      more: { parent_uuid: UNKNOWN_UUID },
      code: "NOT_FOUND",
      says: UNKNOWN_UUID,
    },
    {
      title: "a unit that is not alive",
      more: {},
      env: { ...key, RNIX_UNIT: UNKNOWN_UUID },
      code: "NOT_FOUND",
      says: UNKNOWN_UUID,
    },
  ];
  for (const { title, more, env = key, code, says } of cases) {
    test(`${title} is ${code}, and nothing is left`, async () => {
      const client = await session.connect();
      const base = request(home, null);
      const error = await refusal(client.open("spawn", { ...base, ...more, env: { ...base.env, ...env } }));
      expect(wireCode(error)).toBe(code);
      expect(error.message).toContain(says);
      expect((await client.request("list_procs", {})).processes).toEqual([]);
      expect((await client.request("list_all_procs", {})).processes).toEqual([]);
    });
  }

  test("an attached file that is not text is INVALID", async () => {
    const client = await session.connect();
    const spawn = request(home, null, { add: [join(home.project, "binary")], env: { ...home.env, ...key } });
    expect((await refusal(client.open("spawn", spawn))).code).toBe("INVALID");
  });
});

describe("the untrusted parts of a project", () => {
  const PLUGIN = `import { definePlugin } from "rnix/plugin";
export default definePlugin({ name: "extra", devices: { "/dev/extra": { factory: () => { throw new Error("x"); } } } });\n`;

  test("are left out and named, and are loaded with --trust", async () => {
    await using home = new Home();
    await using model = await ModelServer.start({ turns: [DONE], loop: true });
    mkdirSync(join(home.project, "plugins"));
    writeFileSync(join(home.project, "plugins/extra.ts"), PLUGIN);
    await using session = await inside(home);
    const untrusted = notices(await follow(await session.connect(), request(home, model)));
    expect(untrusted.filter((text) => text.includes("extra"))).toHaveLength(1);
    const trusted = await follow(await session.connect(), request(home, model, { trust: true }));
    expect(notices(trusted).filter((text) => text.includes("extra"))).toEqual([]);
    expect(receipt(trusted).exit_code).toBe(0);
  });

  test("can't be trusted from inside a run", async () => {
    await using home = new Home();
    await using model = await ModelServer.start([{ fault: { kind: "hang" } }]);
    await using session = await inside(home);
    const parent = await (await session.connect()).open("spawn", request(home, model));
    await model.arrived(1);
    const child = request(home, model, { trust: true, parent_uuid: parent.answer.uuid });
    expect((await refusal((await session.connect()).open("spawn", child))).code).toBe("PERMISSION");
  });
});

test("a spawn in a process's shell makes a child of that process", async () => {
  await using home = new Home();
  await using model = await ModelServer.start([{ fault: { kind: "hang" } }, DONE]);
  await using session = await inside(home);
  const parent = await (await session.connect()).open("spawn", request(home, model));
  await model.arrived(1);
  const spawn = request(home, model);
  const child = receipt(
    await follow(await session.connect(), { ...spawn, env: { ...spawn.env, RNIX_UNIT: parent.answer.uuid } }),
  );
  const shown = await (await session.connect()).request("show", { uuid: child.uuid });
  expect([shown.ppid, shown.parent_uuid]).toEqual([parent.answer.pid, parent.answer.uuid]);
});

describe("a child's provider", () => {
  /** A run that hangs, and what a shell in it would have for an environment: no key, and what it likes. */
  async function childOf(
    home: Home,
    model: ModelServer,
    env: Record<string, string>,
    more: Partial<SpawnRequest> = {},
  ): Promise<StreamEvent[]> {
    await using session = await inside(home);
    const parent = await (await session.connect()).open("spawn", request(home, model));
    await model.arrived(1);
    const inShell = { ...home.env, ...env, RNIX_UNIT: parent.answer.uuid };
    return await follow(await session.connect(), {
      intent: "help",
      cwd: home.project,
      env: inShell,
      ...more,
    });
  }

  test.each([
    ["when it names none", {}, {}, "m"],
    ["when it names the same", { RNIX_PROVIDER: "openai" }, {}, "m"],
    ["with another model", {}, { model: "other" }, "other"],
    [
      "whatever address its shell names",
      { OPENAI_BASE_URL: "http://127.0.0.1:1/v1" },
      { provider: "openai" },
      "m",
    ],
  ] as const)("is its parent's, with address and key, %s", async (_when, env, more, named) => {
    await using home = new Home();
    await using model = await ModelServer.start([{ fault: { kind: "hang" } }, DONE]);
    expect(receipt(await childOf(home, model, env, more))).toMatchObject({
      exit_code: 0,
      provider: "openai",
      model: named,
    });
  });

  test("with another name never combines an address from its shell with the user's key", async () => {
    await using home = new Home();
    await using model = await ModelServer.start([{ fault: { kind: "hang" } }, DONE]);
    await using elsewhere = await ModelServer.start({ turns: [DONE], loop: true });
    writeFileSync(join(home.paths.configDir, "env"), "OPENAI_API_KEY=sk-of-the-user-0123\n", { mode: 0o600 });
    const shell = { OPENAI_BASE_URL: elsewhere.openaiUrl };
    const more = { provider: "openai-compatible", model: "m" };
    expect(receipt(await childOf(home, model, shell, more)).exit_code).toBe(0);
    expect(elsewhere.requests).toEqual([]);
  });
});

describe("the catalog", () => {
  test("lists with their source agents, skills, tools with the agent's rights, providers with the chosen one", async () => {
    await using home = new Home();
    await using session = await inside(home);
    const client = await session.connect();
    const place = { cwd: home.project, env: { ...home.env, OPENAI_API_KEY: "sk-test-0123456789" } };
    expect((await client.request("list_agents", place)).agents.map(({ name }) => name)).toContain("default");
    expect((await client.request("list_skills", place)).skills.length).toBeGreaterThan(0);
    expect((await client.request("list_plugins", place)).plugins.map(({ name }) => name)).toContain("fs");
    const { tools } = await client.request("list_tools", { ...place, agent: "code-analyst" });
    const allowed = Object.fromEntries(tools.map((tool) => [tool.name, tool.allowed]));
    expect(allowed).toMatchObject({ Read: true, Write: false, Complete: true });
    const { providers } = await client.request("list_providers", place);
    expect(providers.filter(({ chosen }) => chosen).map(({ name, because }) => [name, because])).toEqual([
      ["openai", "found OPENAI_API_KEY"],
    ]);
    expect(JSON.stringify(providers)).not.toContain("sk-test");
  });

  test("probes a provider by a call to its model", async () => {
    await using home = new Home();
    await using model = await ModelServer.start({
      turns: [{ text: "OK" }],
      models: ["gpt-test"],
      loop: true,
    });
    await using session = await inside(home);
    const probed = async (RNIX_MODEL: string) => {
      const env = { ...request(home, model).env, RNIX_MODEL };
      const { providers } = await (await session.connect()).request("list_providers", {
        cwd: home.project,
        env,
        probe: true,
      });
      return providers.find(({ name }) => name === "openai")?.probe?.ok;
    };
    expect([await probed("gpt-test"), await probed("gone")]).toEqual([true, false]);
  });
});

test("a run whose daemon was killed is shown as suspended, with the reason, and its PID is not used again", async () => {
  await using home = new Home();
  await using model = await ModelServer.start([{ fault: { kind: "hang" } }, DONE]);
  const daemon = { env: home.env, version, build: commit, command: DAEMON };
  const first = await ensureDaemon(daemon);
  const run = await first.open("spawn", request(home, model));
  await model.arrived(1);
  const pid = home.daemonPid();
  process.kill(pid, "SIGKILL");
  await until(() => !isAlive(pid));
  const cut = (async () => {
    for await (const _ of run);
  })();
  expect((await refusal(cut)).code).toBe("UNAVAILABLE");

  const client = await ensureDaemon(daemon);
  const shown = await client.request("show", { uuid: run.answer.uuid });
  expect(shown).toMatchObject({ state: "suspended", exit_code: 75, error: { code: "CLOSED" } });
  expect((await client.request("wait", { pid: run.answer.pid })).exit_reason).toBe("suspended");
  const next = receipt(await follow(client, request(home, model)));
  expect(next.pid).toBeGreaterThan(run.answer.pid);
  const stopper = await ensureDaemon(daemon);
  await stopper.request("shutdown", {});
  await until(() => !existsSync(home.paths.pidFile));
  expect(readFileSync(join(home.paths.dataDir, "daemon.log"), "utf8")).not.toMatch(/\bfault\b/);
});

function lineOf(event: StreamEvent & { type: "log_entry" }): string {
  return `${event.payload.step} ${event.payload.kind} ${event.payload.text}`;
}
