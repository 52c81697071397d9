import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { OAuthMcpServer } from "../support/mcp-server/oauth.ts";
import { until } from "../support/until.ts";
import { binary } from "./support/binary.ts";
import { Machine } from "./support/machine.ts";
import { toolResults } from "./support/requests.ts";
import { bash, calls, says } from "./support/scenes.ts";
import { verdict } from "./support/verdict.ts";

/** Logs in as a person whose browser follows the address. Returns the command's end. */
async function logIn(machine: Machine, way: string[] = []) {
  const login = machine.start(["mcp", "login", "docs", ...way]);
  const address = /^http:\S+\/authorize\?\S+$/m;
  await until(() => address.test(login.stderr.text));
  const page = await fetch(address.exec(login.stderr.text)?.[0] ?? "");
  return { ended: await login.done, page: await page.text() };
}

function tokenFile(machine: Machine): string {
  const folder = join(machine.configDir, "mcp-tokens");
  const [file, ...others] = readdirSync(folder);
  expect(others).toEqual([]);
  return join(folder, file ?? "");
}

describe("an MCP server that wants a login", () => {
  for (const way of [[], ["--no-daemon"]]) {
    test(`names the command, is used after it, and refreshes its token ${way.join("")}`, async () => {
      await using machine = new Machine();
      await using server = await new OAuthMcpServer().start();
      const added = await machine.run(["mcp", "add", "docs", "--url", server.url]);
      expect([added.code, added.stderr]).toEqual([0, expect.stringContaining("rnix mcp login docs")]);
      const echo = () => machine.run(["call", "mcp__docs__echo", '{"text": "hi"}', ...way]);
      // No run waits for a person.
      const refused = await echo();
      expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining("rnix mcp login docs")]);

      const { ended, page } = await logIn(machine, way);
      expect([ended.code, page]).toEqual([0, expect.stringContaining("You can close this page")]);
      expect((await echo()).stdout).toBe('{"text":"hi"}\n');
      expect([...server.codes.values()]).toEqual([]);
      expect(statSync(tokenFile(machine)).mode & 0o777).toBe(0o600);
      const [token = ""] = server.tokens;
      expect(machine.search(token)).toEqual([expect.stringContaining("mcp-tokens")]);

      // The server forgets the token: it is refreshed, once for many calls.
      server.tokens.clear();
      const many = await Promise.all([echo(), echo(), echo()]);
      expect(many.map(({ stdout }) => stdout)).toEqual(Array(3).fill('{"text":"hi"}\n'));
      expect(server.refreshes).toBe(1);
      // It has expired by its own time: it is refreshed before a request.
      const file = tokenFile(machine);
      const stored = JSON.parse(readFileSync(file, "utf8"));
      writeFileSync(file, JSON.stringify({ ...stored, expiresAt: Date.now() - 1 }));
      expect((await echo()).stdout).toBe('{"text":"hi"}\n');
      expect(server.refreshes).toBe(2);

      // A refresh that is refused needs a new login.
      server.tokens.clear();
      server.refreshTokens.clear();
      expect((await echo()).stderr).toContain("rnix mcp login docs");
      expect((await logIn(machine, way)).ended.code).toBe(0);
      expect((await echo()).code).toBe(0);
      expect((await machine.run(["mcp", "logout", "docs", ...way])).stderr).toBe("logged out of docs\n");
      expect((await machine.run(["mcp", "logout", "docs", ...way])).stderr).toBe(
        "there is no login at docs\n",
      );
      expect((await echo()).stderr).toContain("rnix mcp login docs");
    });
  }

  test("refuses a login that the person refuses, another state, and a login inside a run", async () => {
    await using machine = new Machine();
    await using server = await new OAuthMcpServer().start();
    await machine.ok(["mcp", "add", "docs", "--no-test", "--url", server.url]);
    server.refuses = true;
    const { ended } = await logIn(machine);
    expect([ended.code, ended.stderr]).toEqual([
      1,
      expect.stringContaining("docs refused the login: access_denied"),
    ]);

    server.refuses = false;
    const login = machine.start(["mcp", "login", "docs"]);
    const address = /redirect_uri=(\S+?)&/;
    await until(() => address.test(login.stderr.text));
    const back = decodeURIComponent(address.exec(login.stderr.text)?.[1] ?? "");
    expect((await fetch(`${back}?code=stolen&state=other`)).status).toBe(400);
    login.signal("SIGINT");
    expect((await login.done).code).not.toBe(0);

    const model = await machine.play({
      "log in": [bash(`'${binary()}' mcp login docs; '${binary()}' mcp logout docs`), says("done")],
      "use it": [calls(["mcp__docs__echo", { text: "x" }]), says("done")],
    });
    await verdict(machine, ["log in", "--agent", "code-analyst", "--allow", "Bash"]);
    expect(toolResults(model.last)[0]).toMatch(/mcp login is for a person[\s\S]*mcp logout is for a person/);
    const required = await machine.run(["spawn", "use it", "--mcp", "docs"]);
    expect([required.code, required.stderr]).toEqual([69, expect.stringContaining("rnix mcp login docs")]);
  });

  test("is not sent the tokens of another URL, and one that wants no login gets none", async () => {
    await using machine = new Machine();
    await using server = await new OAuthMcpServer().start();
    await machine.ok(["mcp", "add", "docs", "--no-test", "--url", server.url]);
    expect((await logIn(machine)).ended.code).toBe(0);
    const elsewhere = `${server.url}?other`;
    await machine.ok(["mcp", "add", "other", "--no-test", "--url", elsewhere]);
    expect((await machine.run(["mcp", "test", "other"])).stderr).toContain("rnix mcp login other");
    await machine.ok(["mcp", "add", "program", "--no-test", "--", "true"]);
    const program = await machine.run(["mcp", "login", "program"]);
    expect([program.code, program.stderr]).toEqual([64, expect.stringContaining("it has no login")]);
  });
});
