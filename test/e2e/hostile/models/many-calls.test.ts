import { expect, test } from "bun:test";
import { join } from "node:path";
import { z } from "zod";
import { ModelServer, type RecordedRequest } from "../../../support/model-server/server.ts";
import { until } from "../../../support/until.ts";
import { Machine } from "../../support/machine.ts";
import { recordOf } from "../../support/verdict.ts";
import { RawClient } from "../../support/wire.ts";

const SPAWNERS = 8;
/** More than Bun's own limit of 256 requests. */
const RUNS = 262;
/** Less than a model may be silent, and more than half of it. */
const SILENT_MS = 5_000;
const Spawned = z.looseObject({ uuid: z.string() });

/** Two servers of models, each behind a provider that allows any number of calls at once. */
class Servers implements AsyncDisposable {
  readonly machine: Machine;
  readonly slow: ModelServer;
  readonly quick: ModelServer;
  /** Requests under way at the slow one, and the most there were. */
  open = 0;
  most = 0;

  static async start(answer: (request: RecordedRequest) => Promise<void>): Promise<Servers> {
    const servers: { self?: Servers } = {};
    const slow = await ModelServer.start(async (request) => {
      const { self } = servers;
      if (self) self.most = Math.max(self.most, ++self.open);
      await answer(request);
      if (self) self.open--;
      return { text: "slow" };
    });
    servers.self = new Servers(slow, await ModelServer.start(() => ({ text: "quick" })));
    return servers.self;
  }

  private constructor(slow: ModelServer, quick: ModelServer) {
    this.slow = slow;
    this.quick = quick;
    this.machine = new Machine();
    this.machine.write(
      join(this.machine.configDir, "providers.yaml"),
      `providers:
  slow: { driver: openai-compatible, base_url: "${slow.openaiUrl}", default_model: m, concurrency: 2000 }
  quick: { driver: openai-compatible, base_url: "${quick.openaiUrl}", default_model: m, concurrency: 2000 }
`,
    );
  }

  /** Spawns detached runs, some at a time; resolves with their UUIDs. */
  async spawn(provider: string, count: number): Promise<string[]> {
    const uuids: string[] = [];
    let begun = 0;
    const spawner = async (): Promise<void> => {
      while (begun < count) uuids.push(await this.#spawnOne(provider, `${provider} ${begun++}`));
    };
    await Promise.all(Array.from({ length: SPAWNERS }, spawner));
    return uuids;
  }

  async #spawnOne(provider: string, intent: string): Promise<string> {
    const { machine } = this;
    const client = await RawClient.connect(machine.socket);
    const request = { intent, cwd: machine.project, env: machine.env, provider, detach: true };
    const { payload } = await client.ask("spawn", request);
    client.destroy();
    return Spawned.parse(payload).uuid;
  }

  exitOf(uuid: string) {
    const { exit_code, error } = recordOf(this.machine, uuid);
    return error?.message ?? exit_code;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.machine[Symbol.asyncDispose]();
    await this.slow.stop();
    await this.quick.stop();
  }
}

test("a daemon opens more requests than its runtime's default limit, and serves another provider at once", async () => {
  const release = Promise.withResolvers<void>();
  await using servers = await Servers.start(() => release.promise);
  const { machine } = servers;
  machine.config({ model_idle_timeout: "20s", live_processes: 2_000 });
  await machine.ok(["daemon", "start"]);
  const slow = await servers.spawn("slow", RUNS);
  await servers.slow.arrived(RUNS);
  const [quick = ""] = await servers.spawn("quick", 1);
  await until(() => servers.exitOf(quick) === 0);
  expect(servers.open).toBe(RUNS);
  release.resolve();
  for (const uuid of slow) await until(() => servers.exitOf(uuid) === 0);
});

test("calls above the limit wait in the daemon's queue: none times out as silent, no provider starves", async () => {
  let release = Promise.withResolvers<void>();
  await using servers = await Servers.start(() => release.promise);
  const { machine } = servers;
  machine.config({ model_idle_timeout: "9s" });
  // 16 of the runtime: 12 of models, 3 of which are reserved for another provider.
  const daemon = machine.start(["daemon", "start", "--foreground"], {
    env: { BUN_CONFIG_MAX_HTTP_REQUESTS: "16" },
  });
  await until(() => machine.has(machine.socket));
  const slow = await servers.spawn("slow", 18);
  await servers.slow.arrived(9);
  const [quick = ""] = await servers.spawn("quick", 1);
  await until(() => servers.exitOf(quick) === 0);
  expect([servers.open, servers.slow.requests.length]).toEqual([9, 9]);
  // Each is silent for less than it may be; the last nine have waited for longer than that.
  for (const arrived of [9, 18]) {
    await servers.slow.arrived(arrived);
    const { at } = servers.slow.last;
    await until(() => performance.now() - at > SILENT_MS);
    const before = release;
    release = Promise.withResolvers<void>();
    before.resolve();
  }
  await until(() => slow.every((uuid) => servers.exitOf(uuid) !== null), "the end of all");
  expect(slow.map((uuid) => servers.exitOf(uuid))).toEqual(Array(18).fill(0));
  expect(servers.most).toBeLessThanOrEqual(12);
  daemon.signal("SIGTERM");
  expect((await daemon.done).code).toBe(0);
});

test("a foreground daemon restarts itself with the raised limit under the same PID", async () => {
  const release = Promise.withResolvers<void>();
  await using servers = await Servers.start(() => release.promise);
  const { machine } = servers;
  const daemon = machine.start(["daemon", "start", "--foreground"]);
  await until(() => machine.daemonPid !== null && machine.has(machine.socket));
  expect(machine.daemonPid).toBe(daemon.pid);
  const environment = await Bun.file(`/proc/${daemon.pid}/environ`).text();
  expect(environment).toContain("BUN_CONFIG_MAX_HTTP_REQUESTS");
  release.resolve();
  daemon.signal("SIGTERM");
  expect((await daemon.done).code).toBe(0);
});
