/** A plugin that misbehaves is ended and named; its run, the next run and the daemon continue. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { isAlive } from "../../../support/is-alive.ts";
import { until } from "../../../support/until.ts";
import { Machine } from "../../support/machine.ts";
import { toolResults } from "../../support/requests.ts";
import { calls, says } from "../../support/scenes.ts";
import { verdict } from "../../support/verdict.ts";

const MISBEHAVIOURS: Record<string, { body: string; says: RegExp }> = {
  "allocates in a loop of microtasks": {
    body: "const kept = []; const grow = () => { kept.push(new Array(1e5).fill(kept.length)); return Promise.resolve().then(grow); }; await grow();",
    says: /memory|ended/,
  },
  "crashes in native code": { body: "require('bun:ffi').read.u8(8);", says: /the signal SIG\w+ ended it/ },
  "kills itself": { body: "process.kill(process.pid, 'SIGKILL');", says: /the signal SIGKILL ended it/ },
  "ends its process": { body: "process.exit(3);", says: /ended|exit/ },
};

for (const [what, misbehaviour] of Object.entries(MISBEHAVIOURS)) {
  test(`a plugin that ${what}`, async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "ask it": [calls(["Oracle", {}]), says("asked")],
      "ask nothing": [says("done")],
    });
    machine.write("plugins/oracle.ts", oracle(misbehaviour.body));

    const asked = await verdict(machine, ["ask it", "--trust"]);
    const daemon = machine.daemonPid;
    expect(asked.receipt).toMatchObject({ exit_code: 0, result: "asked" });
    const last = model.requests.at(-1);
    expect(last && toolResults(last)[0]).toMatch(misbehaviour.says);

    const next = await verdict(machine, ["ask nothing", "--trust"]);
    expect(next.receipt).toMatchObject({ exit_code: 0, result: "done" });
    expect(machine.daemonPid).toBe(daemon);
  });
}

test("a plugin in an endless loop does not outlive a kill -9 of the daemon and the next start", async () => {
  await using machine = new Machine();
  await machine.play({ "ask it": [calls(["Oracle", {}]), says("asked")] });
  const file = JSON.stringify(join(machine.project, "pid"));
  machine.write(
    "plugins/oracle.ts",
    oracle(`require("node:fs").writeFileSync(${file}, String(process.pid)); for (;;);`),
  );
  await machine.ok(["spawn", "ask it", "--trust", "--detach"]);
  await until(() => machine.has("pid"), "the call");
  const pid = Number(machine.read("pid"));
  expect(isAlive(pid)).toBe(true);
  await machine.endDaemon();
  await machine.ok(["daemon", "start"]);
  await until(() => !isAlive(pid), "its end");
});

function oracle(body: string): string {
  return `import { definePlugin } from "rnix/plugin";
    const tool = { name: "Oracle", description: "Answers.", input: { type: "object", properties: {} } };
    const factory = () => {
      let answer = "";
      return {
        async write() { ${body} answer = "done"; },
        async read() { const now = answer; answer = ""; return now; },
        async close() {},
        async stat() { return { name: "oracle", size: 0 }; },
      };
    };
    export default definePlugin({ name: "oracle", devices: { "/dev/oracle": { factory, tools: [tool] } } });`;
}
