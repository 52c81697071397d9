import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { realClock } from "../../src/lib/clock.ts";
import { Children } from "../../src/os/children.ts";
import type { ConnectionReport } from "../../src/proxy/connection-report.ts";
import { NetworkDoor } from "../../src/proxy/network-door.ts";
import { installed } from "../support/installed.ts";
import { isAlive } from "../support/is-alive.ts";
import { until } from "../support/until.ts";

const ROOT = join(import.meta.dir, "../..");
const HAS_NAMESPACES = installed("bwrap", "nsenter");

let folder: string;
let web: ReturnType<typeof Bun.serve>;
let children: Children;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "rnix-door-"));
  chmodSync(folder, 0o755);
  makeRepository();
  web = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: answer });
  children = new Children({
    ledgerDir: join(folder, "ledger"),
    kernelId: `door-${crypto.randomUUID()}`,
    graceMs: 500,
    memoryBytes: 1_000_000,
    diskBytes: 1_000_000,
  });
});
afterAll(async () => {
  await children.close();
  await web.stop(true);
  rmSync(folder, { recursive: true, force: true });
});

/** A page, a registry of npm and PyPI with one package, and a git repository. */
async function answer(request: Request): Promise<Response> {
  const { pathname, origin } = new URL(request.url);
  if (pathname === "/small") {
    const dist = { tarball: `${origin}/small.tgz`, shasum: await sha1(join(folder, "small.tgz")) };
    return Response.json({
      name: "small",
      "dist-tags": { latest: "1.0.0" },
      versions: { "1.0.0": { name: "small", version: "1.0.0", dist } },
    });
  }
  const file = join(folder, pathname);
  return existsSync(file) ? new Response(Bun.file(file)) : new Response("no such page", { status: 404 });
}

async function sha1(file: string): Promise<string> {
  return Bun.CryptoHasher.hash("sha1", await Bun.file(file).bytes(), "hex");
}

function makeRepository(): void {
  const run = (command: string): void => {
    const { exitCode, stderr } = Bun.spawnSync(["sh", "-c", command], { cwd: folder });
    if (exitCode !== 0) throw new Error(stderr.toString());
  };
  writeFileSync(join(folder, "page"), "the page\n");
  mkdirSync(join(folder, "package"));
  writeFileSync(join(folder, "package/package.json"), '{"name":"small","version":"1.0.0"}');
  run("tar czf small.tgz package");
  run(
    "git init -q w && git -C w -c user.name=a -c user.email=a@b commit -q --allow-empty -m first && git clone -q --bare w r.git && git -C r.git update-server-info",
  );
}

/** Stands for DNS: every name is this machine. */
const resolve = async (): Promise<string[]> => ["127.0.0.1"];

async function open(...network: string[]) {
  const owner = { uuid: crypto.randomUUID(), spillDir: join(folder, "spill") };
  const reports: ConnectionReport[] = [];
  const env = { PATH: process.env.PATH ?? "", HOME: folder };
  const place = join(folder, owner.uuid.slice(-12));
  const door = await NetworkDoor.open({
    network,
    exec: (request) => children.exec(owner, { ...request, cwd: "/", env: { ...env, ...request.env } }),
    program: [process.execPath, join(ROOT, "src/main.ts")],
    folder: place,
    report: (report) => reports.push(report),
    resolve,
    clock: realClock,
    signal: new AbortController().signal,
  });
  return {
    reports,
    place,
    async sh(script: string): Promise<{ code: number | null; output: string }> {
      const request = { argv: ["sh", "-c", script], cwd: folder, env, life: "process" as const };
      const child = await children.exec(owner, { ...door.confined(request), timeoutMs: 15_000 });
      let output = "";
      for (let piece = await child.read(); piece !== null; piece = await child.read())
        output += Buffer.from(piece.data).toString();
      return { code: (await child.exited()).code, output };
    },
    pids: () => children.list().flatMap(({ pid, uuid }) => (uuid === owner.uuid ? [pid] : [])),
    [Symbol.asyncDispose]: () => children.endOwner(owner.uuid),
  };
}

describe.skipIf(!HAS_NAMESPACES)("the network of a run's programs", () => {
  test.each([
    ["curl", "curl -sSf http://a.test:PORT/page", "the page\n"],
    ["git", "git clone -q http://a.test:PORT/r.git cloned && git -C cloned log --format=%s", "first\n"],
    [
      "npm",
      "mkdir -p n && cd n && npm install --silent --no-audit --no-fund --registry http://a.test:PORT/ small && cat node_modules/small/package.json",
      '{"name":"small","version":"1.0.0"}',
    ],
    [
      "python3",
      `python3 -c 'import urllib.request as u; print(u.urlopen("http://a.test:PORT/page").read().decode(), end="")'`,
      "the page\n",
    ],
  ])("%s works by name through the proxy, and not beside it", async (program, script, expected) => {
    if (!installed(program)) return;
    await using door = await open("a.test", "127.0.0.1");
    const command = script.replaceAll("PORT", String(web.port));
    expect(await door.sh(command)).toEqual({ code: 0, output: expected });
    expect(door.reports.every(({ host, rule }) => host === "a.test" && rule === "a.test")).toBe(true);
    const direct = await door.sh(
      `unset http_proxy HTTP_PROXY all_proxy ALL_PROXY; curl -sS http://127.0.0.1:${web.port}/page`,
    );
    expect(direct.code).not.toBe(0);
  });

  test("a refused host answers with the entry that would allow it", async () => {
    await using door = await open("off");
    const { output } = await door.sh(`curl -sS http://b.test:${web.port}/page`);
    expect(output).toContain(
      `b.test:${web.port}: it is not listed. Only the user can allow it: --network b.test`,
    );
    expect(door.reports).toHaveLength(1);
  });

  test("programs share their loopback, and reach a listed port of the machine's", async () => {
    await using door = await open(`127.0.0.1:${web.port}`);
    const { output } = await door.sh(
      `unset http_proxy; curl -sS http://127.0.0.1:${web.port}/page; python3 -m http.server 7070 --bind 127.0.0.1 >/dev/null 2>&1 & sleep 0.1; until curl -sSf http://127.0.0.1:7070/page 2>/dev/null; do sleep 0.1; done`,
    );
    expect(output).toBe("the page\nthe page\n");
  });

  test("a program keeps its exit code, and neither leaves the namespace nor reaches processes outside", async () => {
    await using door = await open("off");
    expect((await door.sh("exit 7")).code).toBe(7);
    for (const way of [
      `nsenter --target=${process.pid} --net true`,
      `cat /proc/${process.pid}/environ`,
      `ls /proc/${process.pid}/root/`,
    ])
      expect((await door.sh(way)).code).not.toBe(0);
  });

  test("the end of the owner closes the bridge, the proxy and its folder", async () => {
    const door = await open("a.test");
    const pids = door.pids();
    expect(readdirSync(door.place)).toEqual(["proxy"]);
    await door[Symbol.asyncDispose]();
    await until(() => !existsSync(door.place) && pids.every((pid) => !isAlive(pid)));
    expect(door.sh("true")).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });
});
