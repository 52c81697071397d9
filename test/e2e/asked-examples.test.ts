import { expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { EXAMPLES } from "./support/asked-examples.ts";
import peers from "./support/asked-peers.json";
import { Machine } from "./support/machine.ts";
import { plainTerminal } from "./support/questions.ts";
import { toolResults } from "./support/requests.ts";
import { calls, says } from "./support/scenes.ts";

const FILE = join(import.meta.dir, "../../docs/permissions.md");
const BETWEEN = /(<!-- asked-examples -->\n)[\s\S]*?(<!-- \/asked-examples -->)/;
const Listed = z.array(
  z.object({
    request_id: z.string(),
    call_id: z.string(),
    call: z.object({ why: z.array(z.string()), always: z.array(z.string()) }),
  }),
);

/** A call that is missing was not tried, and null was not asked. */
const cell = (tried: Record<string, string | null>, shown: string) =>
  (tried[shown] === undefined ? "" : (tried[shown] ?? "no")).replaceAll("|", "\\|");

/** With UPDATE_DOCS=1 the table is written instead of compared. */
test("the table of examples in docs/permissions.md says what the program asks in the mode outside", async () => {
  await using machine = new Machine({ git: true });
  machine.write("a.txt", "b\na\n");
  const made = calls(...EXAMPLES.map(([, call]) => call));
  const turn = { ...made, tool_calls: made.tool_calls?.map((call, i) => ({ ...call, id: `c${i}` })) };
  const model = await machine.play({ go: [turn, says("done")] });
  await using terminal = plainTerminal(machine, ["spawn", "go", "--ask-mode", "outside"]);
  const asked = new Map<string, z.infer<typeof Listed>[number]["call"]>();
  const ended = terminal.done.then(() => true);
  while (!(await Promise.race([ended, Bun.sleep(50)]))) {
    for (const { request_id, call_id, call } of Listed.parse(await machine.json(["asks", "--json"]))) {
      asked.set(call_id, call);
      await machine.run(["answer", request_id, "no"]);
    }
  }
  const refused = toolResults(model.last).filter((result) => result.startsWith("Error "));
  expect(refused.filter((result) => !result.includes("The user said no"))).toEqual([]);
  const home = dirname(machine.project);
  const rows = EXAMPLES.map(([shown], i) => {
    const question = asked.get(`c${i}`);
    const code = (text: string) => `\`${text.replaceAll("|", "\\|")}\``;
    const why = question ? `yes, because ${question.why.join("; ").replace(home, "/home/me")}` : "no";
    const always = question?.always.map((rule) => code(rule.replace(home, "/home/me"))).join(", ") ?? "";
    const others = [peers.claude.asked, peers.opencode.asked].map((tried) => cell(tried, shown));
    return `| ${[code(shown), why, question && always === "" ? "–" : always, ...others].join(" | ")} |`;
  });
  const heads = `| call | asked | always | Claude Code ${peers.claude.version} | opencode ${peers.opencode.version} |`;
  const table = [heads, "|---|---|---|---|---|", ...rows, ""].join("\n");
  const document = readFileSync(FILE, "utf8");
  expect(document).toMatch(BETWEEN);
  const expected = document.replace(BETWEEN, (_all, head: string, foot: string) => `${head}${table}${foot}`);
  if (process.env.UPDATE_DOCS) writeFileSync(FILE, expected);
  else expect(document, "UPDATE_DOCS=1 writes the table").toBe(expected);
});
