import { afterAll, describe, expect, test } from "bun:test";
import { Machine } from "./support/machine.ts";
import { toolResults } from "./support/requests.ts";
import { calls, says } from "./support/scenes.ts";
import { verdict } from "./support/verdict.ts";

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: (request) =>
    new URL(request.url).pathname === "/search"
      ? Response.json({ results: [{ title: "Pears", url: "https://fruit.example/", content: "ripe" }] })
      : new Response("<html><title>Pears</title><body><p>They <b>ripen</b> late.</p></body></html>", {
          headers: { "content-type": "text/html" },
        }),
});
afterAll(() => server.stop(true));
const origin = `http://127.0.0.1:${server.port}`;

const WEB = { addresses: ["127.0.0.1"], search: { engine: "searxng", url: origin } };

describe("a run reads the web", () => {
  test("as Markdown marked as data, and searches it, with the compiled binary", async () => {
    await using machine = new Machine();
    machine.config({ plugins: { web: WEB } });
    const model = await machine.play({
      "read it": [
        calls(["WebFetch", { url: `${origin}/pears` }], ["WebSearch", { query: "pears" }]),
        says("done"),
      ],
    });
    await verdict(machine, ["read it"]);
    const [page = "", found = ""] = toolResults(model.last);
    expect(page).toContain(`<untrusted source="${origin}/pears">`);
    expect(page).toContain("They **ripen** late.");
    expect(found).toContain("1. Pears\nhttps://fruit.example/\nripe");
  });

  test("but no address that is not public, and none that a project lists", async () => {
    await using machine = new Machine();
    machine.write(".rnix/config.yaml", `plugins: ${JSON.stringify({ web: WEB })}\n`);
    const model = await machine.play({
      "read it": [calls(["WebFetch", { url: `${origin}/pears` }]), says("done")],
    });
    await verdict(machine, ["read it"]);
    expect(toolResults(model.last)[0]).toContain("127.0.0.1 is not public");
  });

  test("and a rule for an address binds it", async () => {
    await using machine = new Machine();
    machine.config({ plugins: { web: WEB } });
    const model = await machine.play({
      "read it": [
        calls(
          ["WebFetch", { url: `${origin}/secret/a/b?c=1&d=2` }],
          ["WebFetch", { url: `${origin}/x/../secret/a` }],
          ["WebFetch", { url: `${origin}/pears?c=1&d=2` }],
        ),
        says("done"),
      ],
    });
    await verdict(machine, ["read it", "--deny", `WebFetch(${origin}/secret/*)`]);
    const [denied, roundabout, allowed] = toolResults(model.last);
    for (const refused of [denied, roundabout]) expect(refused).toContain("Error PERMISSION");
    expect(allowed).toContain("ripen");
  });
});
