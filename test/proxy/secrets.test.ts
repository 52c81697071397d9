import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Secrets } from "../../src/kernel/process/secrets.ts";
import { realClock } from "../../src/lib/clock.ts";
import { Children } from "../../src/os/children.ts";
import { type BoundSecret, placeholderOf } from "../../src/proxy/bound-secret.ts";
import { RunAuthority } from "../../src/proxy/certificates.ts";
import type { ConnectionReport } from "../../src/proxy/connection-report.ts";
import { NetworkDoor } from "../../src/proxy/network-door.ts";
import { installed } from "../support/installed.ts";
import { until } from "../support/until.ts";

const ROOT = join(import.meta.dir, "../..");
const VALUE = "s3cret/value+of=the:user";
const NAME = "API_TOKEN";
const HAS_NAMESPACES = installed("bwrap", "nsenter", "curl");

let folder: string;
let children: Children;
/** Stands for the authority of the public network. */
const world = new RunAuthority(Date.now());
/** What the server got: its headers, path and body. */
const seen: { authorization: string | null; url: string; body: string }[] = [];

async function answer(request: Request): Promise<Response> {
  const authorization = request.headers.get("authorization");
  const { pathname, search } = new URL(request.url);
  if (pathname === "/large") {
    seen.push({ authorization, url: pathname, body: "" });
    return new Response(await request.bytes());
  }
  seen.push({ authorization, url: pathname + search, body: await request.text() });
  if (pathname === "/info/refs") return new Response("no repository", { status: 404 });
  // It gives the secret back, in pieces, and encoded.
  const body = new ReadableStream({
    async start(controller) {
      controller.enqueue(new TextEncoder().encode(`you sent ${VALUE.slice(0, 9)}`));
      await Bun.sleep(20);
      controller.enqueue(new TextEncoder().encode(`${VALUE.slice(9)}; ${btoa(VALUE)}\n`));
      controller.close();
    },
  });
  return new Response(body, { headers: { "x-echo": authorization ?? "" } });
}

const serve = (name: string) =>
  Bun.serve({ port: 0, hostname: "127.0.0.1", tls: world.certificateOf(name), fetch: answer });
let server: ReturnType<typeof serve>;
let impostor: ReturnType<typeof serve>;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "rnix-secrets-"));
  chmodSync(folder, 0o755);
  server = serve("api.test");
  impostor = serve("other.test");
  children = new Children({
    ledgerDir: join(folder, "ledger"),
    kernelId: `secrets-${crypto.randomUUID()}`,
    graceMs: 500,
    memoryBytes: 1_000_000,
    diskBytes: 1_000_000,
  });
});
afterAll(async () => {
  await children.close();
  await Promise.all([server.stop(true), impostor.stop(true)]);
  rmSync(folder, { recursive: true, force: true });
});

async function open() {
  const owner = { uuid: crypto.randomUUID(), spillDir: join(folder, "spill") };
  const reports: ConnectionReport[] = [];
  const ports = [server.port, impostor.port];
  const secret: BoundSecret = { name: NAME, value: VALUE, hosts: ports.map((port) => `api.test:${port}`) };
  const env = { PATH: process.env.PATH ?? "", HOME: folder, [NAME]: placeholderOf(secret) };
  const readable = join(folder, `readable-${owner.uuid.slice(-12)}`);
  const door = await NetworkDoor.open({
    network: ["api.test", "plain.test", "127.0.0.1"],
    exec: (request) => children.exec(owner, { ...request, cwd: "/", env: { ...env, ...request.env } }),
    program: [process.execPath, join(ROOT, "src/main.ts")],
    folder: join(folder, owner.uuid.slice(-12)),
    report: (report) => reports.push(report),
    resolve: async () => ["127.0.0.1"],
    clock: realClock,
    signal: new AbortController().signal,
    bound: {
      secrets: [secret],
      redaction: new Secrets({ labels: new Map([[VALUE, placeholderOf(secret)]]) }),
      readable,
      env: {},
      trusted: [world.cert],
    },
  });
  seen.length = 0;
  return {
    reports,
    readable,
    async sh(script: string): Promise<{ code: number | null; output: string }> {
      const request = { argv: ["sh", "-c", script], cwd: folder, env, life: "process" as const };
      const child = await children.exec(owner, { ...door.confined(request), timeoutMs: 15_000 });
      let output = "";
      for (let piece = await child.read(); piece !== null; piece = await child.read())
        output += Buffer.from(piece.data).toString();
      return { code: (await child.exited()).code, output };
    },
    [Symbol.asyncDispose]: () => children.endOwner(owner.uuid),
  };
}

const at = (path: string): string => `https://api.test:${server.port}${path}`;
const SHOWN = "you sent rnix-secret-API_TOKEN; rnix-secret-API_TOKEN";

describe.skipIf(!HAS_NAMESPACES)("a secret that is bound to a host", () => {
  test.each([
    ["curl", `curl -sSf -H "Authorization: Bearer $${NAME}" ADDRESS`],
    [
      "node",
      // Without a proxy's help: Node.js has it from 22.21 on.
      `node -e 'const to = new URL("ADDRESS"), proxy = new URL(process.env.HTTPS_PROXY), headers = { authorization: "Bearer " + process.env.${NAME} };
        require("http").request({ host: proxy.hostname, port: proxy.port, method: "CONNECT", path: to.host }).on("connect", (_, socket) => {
          const createConnection = () => require("tls").connect({ socket, servername: to.hostname });
          require("https").get(to, { createConnection, headers }, (answer) => answer.pipe(process.stdout));
        }).end()'`,
    ],
    [
      "python3",
      `python3 -c 'import os, urllib.request as u; print(u.urlopen(u.Request("ADDRESS", headers={"Authorization": "Bearer " + os.environ["${NAME}"]})).read().decode(), end="")'`,
    ],
  ])(
    "is sent there by %s, which knows a placeholder only; the answer shows the placeholder",
    async (program, script) => {
      if (!installed(program)) return;
      await using door = await open();
      const { code, output } = await door.sh(script.replace("ADDRESS", at("/")));
      expect({ code, output: output.trim() }).toEqual({ code: 0, output: SHOWN });
      expect(seen[0]?.authorization).toBe(`Bearer ${VALUE}`);
      await until(() => door.reports.length > 0);
      expect(door.reports[0]).toMatchObject({ host: "api.test", secrets: [NAME], address: "127.0.0.1" });
    },
  );

  test("is sent within Basic authentication by git, and in a path; no body is filled", async () => {
    await using door = await open();
    const url = `https://user:$${NAME}@api.test:${server.port}/`;
    await door.sh(`GIT_TERMINAL_PROMPT=0 git -c http.proactiveAuth=basic ls-remote ${url}`);
    const sent = await door.sh(
      `curl -sS -u user:$${NAME} -d "token=$${NAME}" "${at("/x")}?key=$${NAME}" -o /dev/null -D -`,
    );
    expect(sent.output).toContain("200");
    const [{ authorization = "", url: path, body } = {}] = seen.slice(-1);
    expect(atob(authorization?.replace("Basic ", "") ?? "")).toBe(`user:${VALUE}`);
    expect(path).toBe(`/x?key=${encodeURIComponent(VALUE)}`);
    expect(body).toBe(`token=rnix-secret-${NAME}`);
    expect(sent.output).not.toContain(authorization?.replace("Basic ", "") ?? "");
    expect(seen.some(({ url: asked }) => asked.startsWith("/info/refs"))).toBe(true);
  });

  test("is sent with uploads of any size, and large answers come whole", async () => {
    await using door = await open();
    const send = (bytes: number, how: string): string =>
      `head -c ${bytes} /dev/zero | curl -sSf -H "Authorization: Bearer $${NAME}" ${how} ${at("/large")} | wc -c`;
    // With "Expect: 100-continue", and in pieces.
    const { output } = await door.sh(`${send(3_000_000, "--data-binary @-")}; ${send(20_000_000, "-T -")}`);
    expect(output.trim().split(/\s+/)).toEqual(["3000000", "20000000"]);
    expect(seen.map(({ authorization }) => authorization)).toEqual([`Bearer ${VALUE}`, `Bearer ${VALUE}`]);
  });

  test("goes to no server whose certificate is another's, to no other host, and not without TLS", async () => {
    await using plain = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: answer });
    await using door = await open();
    const send = (url: string): Promise<{ output: string }> =>
      door.sh(`curl -sSk -H "Authorization: Bearer $${NAME}" ${url}`);
    const { output } = await send(`https://api.test:${impostor.port}/`);
    expect(output).toContain(`api.test:${impostor.port} failed`);
    expect(seen).toEqual([]);
    await send(`http://plain.test:${plain.port}/`);
    await send(`http://api.test:${plain.port}/`);
    await send(`https://plain.test:${server.port}/`);
    expect(seen.map(({ authorization }) => authorization)).toEqual(
      Array.from({ length: 3 }, () => `Bearer rnix-secret-${NAME}`),
    );
  });

  test("needs an authority of the run alone, which is gone afterwards", async () => {
    const door = await open();
    const files = readdirSync(door.readable);
    expect(files).toEqual(["run-ca-bundle.pem", "run-ca.pem"]);
    await door[Symbol.asyncDispose]();
    await until(() => !existsSync(join(door.readable, "run-ca.pem")));
    expect(readdirSync(door.readable)).toEqual([]);
  });

  test("has a certificate that strict readers take", () => {
    const root = new X509Certificate(world.cert);
    for (const host of ["a.test", "127.0.0.1", "2001:db8::1"]) {
      const leaf = new X509Certificate(world.certificateOf(host).cert);
      expect(leaf.checkIssued(root) && leaf.verify(root.publicKey)).toBe(true);
      expect(leaf.checkHost(host) ?? leaf.checkIP(host)).toBe(host);
      expect(leaf.ca).toBe(false);
    }
    expect(root.ca).toBe(true);
  });
});
