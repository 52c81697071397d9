import { describe, expect, test } from "bun:test";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { freePort } from "../../support/free-port.ts";
import { installed } from "../../support/installed.ts";
import { Machine } from "../support/machine.ts";
import { says } from "../support/scenes.ts";
import { faultsOf, launch } from "./browser.ts";

const PASSWORD = "correct horse battery";

async function listening(settings: object, password?: string): Promise<{ machine: Machine; port: number }> {
  const machine = new Machine();
  const port = await freePort();
  machine.config({ dashboard: { port, ...settings } });
  if (password !== undefined) {
    const file = machine.write(join(machine.configDir, "env"), `RNIX_DASHBOARD_PASSWORD=${password}\n`);
    await Bun.$`chmod 600 ${file}`.quiet();
  }
  return { machine, port };
}

const signIn = (origin: string, password: string, headers: Record<string, string> = {}) =>
  fetch(`${origin}/sign-in`, {
    method: "POST",
    body: new URLSearchParams({ password }),
    redirect: "manual",
    headers,
  });

describe("a dashboard that others reach", () => {
  test("does not listen without a password of its own, or with a short one", async () => {
    for (const password of [undefined, "short"]) {
      const { machine, port } = await listening({ listen: "0.0.0.0" }, password);
      await using _ = machine;
      const refused = await machine.run(["dashboard", "--no-browser"]);
      expect(refused.code).not.toBe(0);
      expect(refused.stderr).toContain("RNIX_DASHBOARD_PASSWORD");
      expect(await fetch(`http://127.0.0.1:${port}/`).catch(() => "nothing")).toBe("nothing");
      expect(machine.read(join(machine.dataDir, "daemon.log"))).toContain("warn dashboard: ");
    }
  }, 20_000);

  test("listens with the daemon, and gives a session for the password alone, by any address of its own", async () => {
    const { machine, port } = await listening({ listen: "0.0.0.0", hosts: ["box.example"] }, PASSWORD);
    await using _ = machine;
    await machine.play({ hello: [says("a secret of the run")] });
    await machine.ok(["spawn", "hello"]);
    const others = Object.values(networkInterfaces()).flatMap((all = []) =>
      all.filter(({ family, internal }) => family === "IPv4" && !internal).map(({ address }) => address),
    );
    for (const address of ["127.0.0.1", ...others.slice(0, 1)]) {
      const origin = `http://${address}:${port}`;
      const asked = await fetch(`${origin}/`);
      expect([asked.status, asked.headers.get("content-type")]).toEqual([401, "text/html; charset=utf-8"]);
      expect(asked.headers.get("content-security-policy")).toContain(
        "default-src 'none'; form-action 'self'",
      );
      expect(await asked.text()).toContain('type="password"');
      expect((await fetch(`${origin}/api/list_all_procs`)).status).toBe(401);
      const { status, headers } = await signIn(origin, PASSWORD, { origin });
      const cookie = headers.get("set-cookie") ?? "";
      expect([status, headers.get("location")]).toEqual([303, "/"]);
      expect(cookie).toContain("HttpOnly; SameSite=Strict");
      const listed = await fetch(`${origin}/api/list_all_procs`, {
        headers: { cookie: cookie.split(";")[0] ?? "" },
      });
      expect(await listed.text()).toContain("hello");
    }
    const origin = `http://127.0.0.1:${port}`;
    // By the proxy's name, which speaks TLS.
    const tls = await signIn(origin, PASSWORD, { host: "box.example", origin: "https://box.example" });
    expect(tls.headers.get("set-cookie")).toEndWith("; Secure");
    expect((await fetch(`${origin}/`, { headers: { host: "evil.example" } })).status).toBe(421);
    expect((await fetch(`${origin}/`, { headers: { host: `evil.example:${port}` } })).status).toBe(421);
    expect((await signIn(origin, PASSWORD, { origin: "http://evil.example" })).status).toBe(403);
    // The token alone is never enough: there is none.
    const printed = (await machine.ok(["dashboard", "--no-browser"])).stdout.trim();
    expect(printed).toBe(`${origin}/`);
    expect((await fetch(`${origin}/?token=${"x".repeat(43)}`)).status).toBe(401);
    const other = await machine.run(["dashboard", "--no-browser", "--port", String(port + 1)]);
    expect([other.code, other.stderr]).toEqual([64, expect.stringContaining(`has the port ${port}`)]);
  }, 20_000);

  test("makes all wait after ten wrong passwords; its metrics need their token", async () => {
    const { machine, port } = await listening({ hosts: ["box.example"] }, PASSWORD);
    await using _ = machine;
    const { stdout, stderr } = await machine.ok(["dashboard", "--metrics-token"]);
    const origin = `http://127.0.0.1:${port}`;
    for (let i = 0; i < 10; i++) expect((await signIn(origin, `${PASSWORD}${i}`)).status).toBe(401);
    expect((await signIn(origin, PASSWORD)).status).toBe(429);
    expect(stderr.trim()).toBe(`${origin}/metrics`);
    expect((await fetch(`${origin}/metrics`)).status).toBe(401);
    const authorization = `Bearer ${stdout.trim()}`;
    expect((await fetch(`${origin}/metrics`, { headers: { authorization } })).status).toBe(200);
  }, 20_000);

  test("the port of the settings alone keeps it on this machine, with its tokens, over a restart", async () => {
    const { machine, port } = await listening({});
    await using _ = machine;
    const { stdout } = await machine.ok(["dashboard", "--metrics-token"]);
    await machine.ok(["daemon", "restart"]);
    const authorization = `Bearer ${stdout.trim()}`;
    const url = `http://127.0.0.1:${port}/metrics`;
    expect((await fetch(url, { headers: { authorization } })).status).toBe(200);
    const page = (await machine.ok(["dashboard", "--no-browser"])).stdout.trim();
    expect((await fetch(page, { redirect: "manual" })).status).toBe(303);
    machine.write(".rnix/config.yaml", JSON.stringify({ dashboard: { listen: "0.0.0.0" } }));
    expect((await machine.run(["spawn", "x", "--trust"])).code).toBe(64);
  }, 20_000);
});

describe.skipIf(!installed("chromium"))("in a browser", () => {
  test("the form signs in, says what is wrong, and fits a phone", async () => {
    const { machine, port } = await listening({ listen: "0.0.0.0" }, PASSWORD);
    await using _ = machine;
    await machine.play({ hello: [says("done")] });
    await machine.ok(["spawn", "hello"]);
    const browser = await launch();
    try {
      const page = await browser.newPage({ viewport: { width: 375, height: 700 } });
      await page.goto(`http://127.0.0.1:${port}/`);
      expect(await faultsOf(page)).toEqual([]);
      await page.getByLabel("Password").fill("wrong password");
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByText("The password is wrong.").waitFor();
      await page.getByLabel("Password").fill(PASSWORD);
      await page.keyboard.press("Enter");
      await page.getByText("hello").first().waitFor();
      expect(new URL(page.url()).pathname).toBe("/");
    } finally {
      await browser.close();
    }
  }, 30_000);
});
