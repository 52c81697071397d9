import { describe, expect, test } from "bun:test";
import type { RecordedRequest } from "../support/model-server/server.ts";
import { Machine } from "./support/machine.ts";
import { firstUserMessage } from "./support/requests.ts";
import { listed } from "./support/runs.ts";

/** The first line of the first message, in capitals; "bad" is refused. */
const answer = (request: RecordedRequest) => {
  const [intent = ""] = firstUserMessage(request).split("\n");
  if (intent.startsWith("bad")) return { fault: { kind: "status", status: 400, message: "no" } } as const;
  if (intent.startsWith("list")) return { text: '{"files": ["a", "b", "c"]}' };
  return { text: intent.toUpperCase() };
};

const PLAN = `
name: port
nodes:
  plan:
    prompt: list the files
    output_schema: { type: object, properties: { files: { type: array, items: { type: string } } }, required: [files] }
  each:
    needs: [plan]
    for_each: plan.files
    prompt: port {{item}}
  review:
    needs: { each: completed }
    prompt: review {{each}}
`;

describe("rnix compose up", () => {
  test.concurrent("nodes get fields, items and answers of those that they need", async () => {
    await using machine = new Machine();
    const model = await machine.model(answer);
    machine.write("port.yaml", PLAN);
    const { stdout } = await machine.ok(["compose", "up", "-f", "port.yaml"]);
    expect(JSON.parse(stdout)).toMatchObject({
      each: { status: "completed", value: ["PORT A", "PORT B", "PORT C"] },
      review: { status: "completed", value: 'REVIEW ["PORT A","PORT B","PORT C"]' },
    });
    const review = model.requests.map((one) => firstUserMessage(one)).find((one) => one.startsWith("review"));
    expect(review).toContain('The answer of the agent "each", as data:');
    const [run] = (await listed(machine)).filter(({ parent_uuid }) => parent_uuid === null);
    const status = await machine.ok(["compose", "status", run?.uuid ?? ""]);
    expect(status.stdout).toMatch(/\nplan\n.*✓ plan [\s\S]*\neach\n.*✓ each 1 [\s\S]*\nreview\n/);
  });

  test.concurrent("a failed node: its handler runs, others are left out, and the graph exits 1", async () => {
    await using machine = new Machine();
    await machine.model(answer);
    machine.write(
      "g.yaml",
      `nodes:
  work: { prompt: bad work, retries: 1 }
  next: { needs: [work], prompt: never }
  handler: { needs: { work: failed }, prompt: handle it }
  last: { needs: { next: ended, handler: ended }, prompt: tidy up }
`,
    );
    const failed = await machine.run(["compose", "up", "-f", "g.yaml"]);
    expect(failed.code).toBe(1);
    expect(failed.stderr).toContain("1 of 4 nodes failed: work");
    const intents = (await listed(machine)).map(({ intent }) => intent.split("\n")[0]);
    expect(intents.filter((one) => one === "bad work")).toHaveLength(2);
    expect(intents).toContain("handle it");
    expect(intents).toContain("tidy up");
    expect(intents).not.toContain("never");
  });

  test.concurrent("allow_failure: exit 0, and the end says what became of it", async () => {
    await using machine = new Machine();
    await machine.model(answer);
    machine.write("g.yaml", "nodes:\n  a: { prompt: bad, allow_failure: true }\n  b: { prompt: good }\n");
    const { stdout } = await machine.ok(["compose", "up", "-f", "g.yaml"]);
    expect(JSON.parse(stdout)).toMatchObject({ a: { status: "failed" }, b: { value: "GOOD" } });
  });

  test.concurrent.each([
    ["a circle", "nodes: { a: { prompt: x, needs: [b] }, b: { prompt: x, needs: [a] } }", "a → b → a"],
    ["an unknown need", "nodes: { a: { prompt: x, needs: [c] } }", "there is no node c"],
    ["an unknown key", "nodes: { a: { prompt: x, promt: y } }", '"promt"'],
    [
      "a value of a node that it does not need",
      "nodes: { a: { prompt: x }, b: { prompt: '{{a}}' } }",
      "not among its needs",
    ],
    ["an unknown agent", "nodes: { a: { prompt: x, agent: nowhere } }", "nodes.a: "],
    ["an unknown model's provider", "nodes: { a: { prompt: x, output_schema: { type: 5 } } }", "nodes.a: "],
    ["no YAML", "nodes: [", "g.yaml"],
    [
      "aliases without bound",
      `a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [${"*a,".repeat(10)}]\nc: &c [${"*b,".repeat(10)}]\nnodes: { d: { prompt: x, for_each: [*c,*c] } }`,
      "g.yaml",
    ],
  ])("%s is found before a token is spent", async (_, text, message) => {
    await using machine = new Machine();
    const model = await machine.model(answer);
    machine.write("g.yaml", text);
    const { code, stderr } = await machine.run(["compose", "up", "-f", "g.yaml"]);
    expect(code).toBe(64);
    expect(stderr).toContain(message);
    expect(model.requests).toHaveLength(0);
  });

  test.concurrent("a limit of the file is that of the run", async () => {
    await using machine = new Machine();
    await machine.model(() => ({ text: "x", usage: { input_tokens: 900, output_tokens: 100 } }));
    const nodes = Array.from(
      { length: 9 },
      (_, i) => `  n${i}: { prompt: p${i}${i > 0 ? `, needs: [n${i - 1}]` : ""} }`,
    );
    machine.write("g.yaml", `context_budget: 2000\nnodes:\n${nodes.join("\n")}\n`);
    const { code } = await machine.run(["compose", "up", "-f", "g.yaml"]);
    expect(code).toBe(2);
  });
});

test.concurrent("rnix compose graph prints Mermaid", async () => {
  await using machine = new Machine();
  machine.write("port.yaml", PLAN);
  expect((await machine.ok(["compose", "graph", "-f", "port.yaml"])).stdout).toBe(
    'flowchart TD\n  n1["plan"]\n  n2["each × items"]\n  n1 --> n2\n  n3["review"]\n  n2 --> n3\n',
  );
  machine.write(
    "names.yaml",
    "nodes: { end: { prompt: x }, a-b: { prompt: x, needs: [end] }, a_b: { prompt: x } }",
  );
  expect((await machine.ok(["compose", "graph", "-f", "names.yaml"])).stdout).toBe(
    'flowchart TD\n  n1["end"]\n  n2["a-b"]\n  n1 --> n2\n  n3["a_b"]\n',
  );
});
