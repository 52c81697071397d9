import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "../support/machine.ts";
import { receiptOf } from "../support/verdict.ts";

const KEY = "acme-secret-0123456789";

/** The driver of docs/plugins.md. All that Rnix knows of it stands in its plugin. */
const [, ACME = ""] =
  /<!-- example: acme.ts -->\n```ts\n([\s\S]*?)```/.exec(
    readFileSync(join(import.meta.dir, "../../../docs/plugins.md"), "utf8"),
  ) ?? [];

/** The service: it calls Bash, then answers with the result and its key. */
function acme(command: string) {
  const keys: (string | null)[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: async (request) => {
      keys.push(request.headers.get("authorization"));
      const { messages }: { messages: { role: string; content: string }[] } = JSON.parse(
        await request.text(),
      );
      const result = messages.find(({ role }) => role === "tool")?.content;
      const usage = { type: "usage", usage: { input_tokens: 10, output_tokens: 5, cached_tokens: 0 } };
      if (result === undefined) {
        const call = { id: "call-1", name: "Bash", input: { command } };
        return Response.json([{ type: "tool_call", call }, usage, { type: "stop", reason: "tool_calls" }]);
      }
      const text = `<${result.trim()}> with ${KEY}`;
      return Response.json([{ type: "text_delta", text }, usage, { type: "stop", reason: "end_turn" }]);
    },
  });
  return { url: server.url.href, keys, [Symbol.asyncDispose]: () => server.stop(true) };
}

async function withPlugin(folder: (machine: Machine) => string): Promise<Machine> {
  const machine = new Machine();
  machine.write(`${folder(machine)}/acme.ts`, ACME);
  return machine;
}

describe("a driver of a third party", () => {
  test.each(["ACME_TOKEN", "the user's file"])(
    "is found by its own key variable and called at its own address: %s",
    async (where) => {
      await using machine = await withPlugin(({ configDir }) => `${configDir}/plugins`);
      await using service = acme("printenv ACME_TOKEN ACME_OLD_TOKEN; env | grep -c acme-secret; echo end");
      const env: Record<string, string> = { ACME_URL: service.url, OTHER: `Bearer ${KEY}` };
      if (where === "ACME_TOKEN") env.ACME_TOKEN = KEY;
      else {
        machine.write(`${machine.configDir}/env`, `ACME_TOKEN=${KEY}\n`);
        Bun.spawnSync(["chmod", "600", `${machine.configDir}/env`]);
      }
      const done = await machine.run(["spawn", "go", "--output", "json"], { env });
      const receipt = receiptOf(done);
      expect(receipt).toMatchObject({ exit_code: 0, provider: "acme", model: "acme-1" });
      expect(done.stderr).toContain("found ACME_TOKEN");
      expect(service.keys).toEqual([`Bearer ${KEY}`, `Bearer ${KEY}`]);
      // The tool has no variable with the key, and what the model wrote is redacted.
      expect(receipt.result).toBe("<0\nend> with [key]");
      const log = await machine.run(["log", receipt.uuid]);
      expect(log.stdout).not.toContain(KEY);
      expect(machine.search(KEY).filter((file) => file !== "config/rnix/env")).toEqual([]);
    },
  );

  test("does not pass its key to a tool that is called without a model", async () => {
    await using machine = await withPlugin(({ configDir }) => `${configDir}/plugins`);
    const command = "printenv ACME_TOKEN; env | grep -c acme-secret; echo end";
    const env = { ACME_TOKEN: KEY, OTHER: `Bearer ${KEY}` };
    const called = await machine.run(["call", "Bash", JSON.stringify({ command })], { env });
    expect(called.stdout.trim()).toBe("0\nend");
  });

  test("is listed with its variables and what it lacks", async () => {
    await using machine = await withPlugin(({ configDir }) => `${configDir}/plugins`);
    const listed = async (env: Record<string, string>) => {
      const { stdout } = await machine.run(["providers", "--json"], { env });
      const providers: { name: string }[] = JSON.parse(stdout);
      return providers.find(({ name }) => name === "acme");
    };
    const ACME_URL = "http://127.0.0.1:9/v1";
    expect(await listed({})).toMatchObject({
      usable: false,
      key: "ACME_TOKEN (missing)",
      base_url: "https://api.acme.example/answers",
    });
    expect(await listed({ ACME_URL })).toMatchObject({ usable: false, base_url: ACME_URL });
    expect(await listed({ ACME_URL, ACME_OLD_TOKEN: KEY })).toMatchObject({
      usable: true,
      key: "ACME_OLD_TOKEN",
    });
    const noKey = await machine.run(["spawn", "go", "--provider", "acme"], { env: { ACME_URL } });
    expect(noKey.code).toBe(69);
    expect(noKey.stderr).toContain("set ACME_TOKEN");
  });

  test("has the prices that it declares, at its default address", async () => {
    await using machine = await withPlugin(({ configDir }) => `${configDir}/plugins`);
    await using service = acme("true");
    const limited = (env: Record<string, string>, cost: string) =>
      machine.run(["spawn", "go", "--max-cost", cost], { env: { ACME_TOKEN: KEY, ...env } });
    // Its price is known, and the limit covers no call: nothing is sent.
    expect((await limited({}, "0.0000001")).code).toBe(2);
    const elsewhere = await limited({ ACME_URL: service.url }, "1");
    expect(elsewhere.code).toBe(64);
    expect(elsewhere.stderr).toContain("the price of acme-1 at");
    expect(service.keys).toEqual([]);
  });

  test("of a project chooses no variable until the project is trusted", async () => {
    await using machine = await withPlugin(({ project }) => `${project}/.rnix/plugins`);
    await using service = acme("true");
    const env = { ACME_URL: service.url, ACME_TOKEN: KEY };
    const untrusted = await machine.run(["spawn", "go"], { env });
    expect(untrusted.code).toBe(69);
    expect(untrusted.stderr).toContain("No model provider found");
    expect(service.keys).toEqual([]);
    await machine.ok(["trust", "--yes"]);
    const checked = await machine.run(["plugins", "check", ".rnix/plugins/acme.ts"]);
    expect(checked.stdout).toContain(
      "/dev/llm/acme, a model provider that gets ACME_TOKEN or ACME_OLD_TOKEN",
    );
    const trusted = await machine.run(["spawn", "go"], { env });
    expect(trusted.code).toBe(0);
    expect(trusted.stdout).toBe("<[no output]> with [key]\n");
    expect(service.keys).toEqual([`Bearer ${KEY}`, `Bearer ${KEY}`]);
  });
});
