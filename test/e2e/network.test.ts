import { describe, expect, test } from "bun:test";
import { chmodSync } from "node:fs";
import { dirname } from "node:path";
import { RunAuthority } from "../../src/proxy/certificates.ts";
import { installed } from "../support/installed.ts";
import { Machine } from "./support/machine.ts";
import { mcpJson } from "./support/mcp.ts";
import { toolResults } from "./support/requests.ts";
import { bash, calls, says } from "./support/scenes.ts";
import { receiptOf, recordOf, verdict } from "./support/verdict.ts";

/** Reaches what its environment names as the page, and a host that nothing lists. */
const FETCH = (page: string): string => `curl -sS ${page}; curl -sS http://refused.test/; echo "code $?"`;

describe.skipIf(!installed("bwrap", "nsenter", "curl"))("rnix spawn --network", () => {
  test("lets programs reach what is listed; a refusal names the entry, to program, model, user and record", async () => {
    await using page = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("the page\n") });
    await using machine = new Machine();
    const at = `127.0.0.1:${page.port}`;
    const model = await machine.play({ "look it up": [bash(FETCH(`http://${at}/`)), says("done")] });
    const ended = await machine.run(["spawn", "look it up", "--network", at, "--output", "json"]);
    const refusal =
      "The network of this run does not reach refused.test:80: it is not listed. Only the user can allow it: --network refused.test";
    expect(model.requests.flatMap(toolResults).at(-1)).toBe(`the page\n${refusal}\ncode 0\n[${refusal}]`);
    expect(ended.stderr).toContain(refusal);
    const { uuid } = receiptOf(ended);
    expect(recordOf(machine, uuid).options).toMatchObject({ network: [at] });
    expect((await machine.run(["show", uuid])).stdout).toContain(`network  ${at}`);
    const trace = (await machine.run(["strace", uuid])).stdout;
    expect(trace).toMatch(
      /Connect\(host="127.0.0.1", port=\d+, .*rule="127.0.0.1:\d+", address="127.0.0.1"\) = ok/,
    );
    expect(trace).toContain('Connect(host="refused.test"');
    expect(machine.strays()).toEqual([]);
  });

  test("a child and a check reach no more than their run", async () => {
    await using page = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("the page\n") });
    await using machine = new Machine();
    const get = `curl -sSf --noproxy '*' http://127.0.0.1:${page.port}/`;
    const model = await machine.play({
      parent: [bash(`rnix spawn child --network on -q; ${get} || echo parent refused`), says("done")],
      child: [bash(`${get} || echo child refused`), says("child done")],
    });
    const args = ["spawn", "parent", "--network", "off", "--check", `! ${get}`, "--output", "json"];
    expect((await machine.run(args)).code).toBe(0);
    const results = model.requests.flatMap(toolResults);
    expect(results.some((text) => text.includes("child refused"))).toBe(true);
    expect(results.at(-1)).toContain("parent refused");
    expect(results.join("")).not.toContain("the page");
  });

  test("binds the tools of the web and an MCP server at an address; the settings limit a run without the flag", async () => {
    const seen: string[] = [];
    await using page = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: (request) => {
        seen.push(new URL(request.url).pathname);
        return new Response("the page\n");
      },
    });
    await using machine = new Machine();
    const at = `127.0.0.1:${page.port}`;
    const web = { addresses: ["127.0.0.1"], search: { engine: "searxng", url: `http://${at}` } };
    machine.config({ network: [at], plugins: { web } });
    mcpJson(machine, { remote: { type: "http", url: `http://${at}/mcp` } });
    const model = await machine.play({
      "look it up": [
        calls(["WebFetch", { url: `http://${at}/page` }], ["WebSearch", { query: "pears" }]),
        says("done"),
      ],
    });
    const allowed = await machine.run(["spawn", "look it up", "--output", "json"]);
    const [fetched] = toolResults(model.last);
    expect(fetched).toContain("the page");
    expect(seen).toContain("/search");
    const shown = (await machine.run(["show", receiptOf(allowed).uuid])).stdout;
    expect(shown).toMatch(new RegExp(`${at} +2 connections`));
    seen.length = 0;
    const args = [
      "spawn",
      "look it up",
      "--network",
      "off",
      "--mcp",
      "remote",
      "--trust",
      "--output",
      "json",
    ];
    const required = await machine.run(args);
    expect(required).toMatchObject({ code: 69 });
    const refused = await machine.run(["spawn", "look it up", "--network", "off", "--output", "json"]);
    const refusal = `The network of this run does not reach ${at}: it is not listed. Only the user can allow it: --network 127.0.0.1`;
    expect(required.stderr + required.stdout).toContain(refusal);
    for (const result of toolResults(model.last)) expect(result).toContain(`Error PERMISSION: ${refusal}`);
    expect(seen).toEqual([]);
    expect((await machine.run(["show", receiptOf(refused).uuid])).stdout).toContain(
      "2 connections, 2 refused or failed",
    );
  });

  test("sends a secret of the settings to its host; programs, records and the model have a placeholder", async () => {
    const world = new RunAuthority(Date.now());
    const seen: (string | null)[] = [];
    await using api = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      tls: world.certificateOf("127.0.0.1"),
      fetch: (request) => {
        seen.push(request.headers.get("authorization"));
        return new Response(`hello ${request.headers.get("authorization")}\n`);
      },
    });
    await using machine = new Machine();
    const at = `127.0.0.1:${api.port}`;
    machine.config({ secrets: { API_TOKEN: { from: "env", hosts: [at] } } });
    const get = `curl -sS -H "Authorization: Bearer $API_TOKEN" https://${at}/; echo "[$API_TOKEN]"`;
    const model = await machine.play({ "use it": [bash(get), says("done")] });
    const value = "a-secret-of-the-user-123";
    const env = { API_TOKEN: value, NODE_EXTRA_CA_CERTS: machine.write("world.pem", world.cert) };
    const ended = await machine.run(["spawn", "use it", "--network", at, "--output", "json"], { env });
    const placeholder = "rnix-secret-API_TOKEN";
    expect(toolResults(model.last).at(-1)).toBe(`hello Bearer ${placeholder}\n[${placeholder}]`);
    expect(seen).toEqual([`Bearer ${value}`]);
    const { uuid } = receiptOf(ended);
    expect((await machine.run(["strace", uuid])).stdout).toContain('secrets=["API_TOKEN"]');
    await machine.run(["spawn", "use it", "--network", at, "--sandbox", "required"], { env });
    expect(toolResults(model.last).at(-1)).toBe(`hello Bearer ${placeholder}\n[${placeholder}]`);
    const unlimited = await machine.run(["spawn", "use it", "--output", "json"], { env });
    expect(receiptOf(unlimited).notices).toContainEqual(
      expect.stringContaining("not given to programs: API_TOKEN"),
    );
    expect(toolResults(model.last).at(-1)).toContain("[]");
    expect(seen).toHaveLength(2);
    expect(machine.search(value)).toEqual([]);
    machine.config({ secrets: { API_TOKEN: { from: "env", hosts: ["*"] } } });
    const wrong = await machine.run(["spawn", "use it"], { env });
    expect(wrong).toMatchObject({ code: 64, stderr: expect.stringContaining("secrets.API_TOKEN.hosts") });
  });

  test("where no namespace can be made, the run is not limited and says so", async () => {
    await using machine = new Machine();
    await machine.play({ "do it": [says("done")] });
    const bwrap = machine.write("bin/bwrap", "#!/bin/sh\necho no namespaces here >&2; exit 1\n");
    chmodSync(bwrap, 0o755);
    const env = { PATH: `${dirname(bwrap)}:${process.env.PATH}` };
    const { receipt } = await verdict(machine, ["do it", "--network", "off", "--no-daemon"], { env });
    expect(receipt.notices).toContainEqual(
      expect.stringMatching(/^network not limited: .*no namespaces here/),
    );
  });
});
