import { expect, test } from "bun:test";
import { Machine } from "../support/machine.ts";
import { toolResults } from "../support/requests.ts";
import { type Book, calls, says } from "../support/scenes.ts";
import { verdict } from "../support/verdict.ts";

/** A tool that answers "up", hangs with its thread, or ends its plugin. */
const MORTAL = `import { defineTool } from "rnix/plugin";
export default defineTool({
  name: "Mortal",
  description: "Answers, hangs or crashes.",
  input: { type: "object", properties: { how: { type: "string" } }, required: ["how"] },
  async run({ how }) {
    if (how === "hang") for (;;);
    if (how === "crash") setTimeout(() => { throw new Error("boom"); });
    if (how !== "answer") await new Promise(() => {});
    return "up";
  },
});
`;

const mortal = (how: string) => calls(["Mortal", { how }]);

async function machineWith(book: Book) {
  const machine = new Machine();
  machine.config({ tool_timeout: "2s" });
  machine.write(".rnix/plugins/mortal.ts", MORTAL);
  return { machine, model: await machine.play(book) };
}

test("a tool that hung or crashed answers the next call of the same run, and other runs", async () => {
  const { machine, model } = await machineWith({
    "do it": [mortal("hang"), mortal("answer"), mortal("crash"), mortal("answer"), says("done")],
    "and this": [mortal("answer"), says("done")],
  });
  await using _machine = machine;
  await machine.ok(["trust", "--yes"]);
  const { receipt } = await verdict(machine, ["do it"]);
  expect(receipt).toMatchObject({ exit_code: 0, result: "done", tool_calls: 4 });
  const [last] = model.requests.slice(-1);
  expect(last && toolResults(last)).toEqual([
    expect.stringMatching(/^Error TIMEOUT/),
    "up",
    expect.stringMatching(/^Error CLOSED: .*boom.*the next call starts it again/),
    "up",
  ]);
  await verdict(machine, ["and this"]);
  const [other] = model.requests.slice(-1);
  expect(other && toolResults(other)).toEqual(["up"]);
});

test("a plugin that crashes repeatedly is not restarted for a while; the call says why and until when", async () => {
  const crash = mortal("crash");
  const { machine, model } = await machineWith({
    "do it": [crash, crash, crash, crash, mortal("answer"), says("done")],
  });
  await using _machine = machine;
  const { receipt } = await verdict(machine, ["do it", "--trust"]);
  expect(receipt).toMatchObject({ exit_code: 0, result: "done" });
  const [last] = model.requests.slice(-1);
  expect(last && toolResults(last)).toEqual([
    ...Array<unknown>(4).fill(expect.stringMatching(/^Error CLOSED: .*boom/)),
    expect.stringMatching(
      /^Error EXHAUSTED: Plugin mortal ended 4 times within 60 s\. Ended: boom.* It can be started again in \d+ s/,
    ),
  ]);
});
