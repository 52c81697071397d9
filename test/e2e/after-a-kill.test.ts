import { expect, test } from "bun:test";
import { isAlive } from "../support/is-alive.ts";
import { until } from "../support/until.ts";
import { Machine } from "./support/machine.ts";
import { toolResults } from "./support/requests.ts";
import { bash, says } from "./support/scenes.ts";
import { receiptOf } from "./support/verdict.ts";

/** Ends only when it is killed, and does what it was asked to until then. */
const stubborn = "trap '' TERM; echo $$ > program; while :; do echo x >> effects; sleep 0.1; done";

for (const inside of [false, true]) {
  test(`a run whose ${inside ? "command" : "daemon"} was killed resumes only after its program has ended`, async () => {
    await using machine = new Machine();
    let left: boolean | undefined;
    const program = (): number => Number(machine.read("program"));
    const model = await machine.play({
      "do it": [
        bash(stubborn),
        () => {
          left = isAlive(program());
          return says("done");
        },
      ],
    });
    // In the second case a daemon is there all the time: its start has swept nothing of the command's.
    await machine.ok(["daemon", "start"]);
    const run = machine.start(["spawn", "do it", ...(inside ? ["--no-daemon"] : ["--detach"])]);
    await until(() => machine.has("effects"), "the program's first effect");
    if (inside) run.signal("SIGKILL");
    else machine.killDaemon();
    await run.done;
    const uuid =
      /"uuid": ?"([^"]+)"/.exec((await machine.run(["ps", "-a", "--json"])).stdout)?.[1] ??
      expect.unreachable();
    expect(receiptOf(await machine.run(["resume", uuid, "--output", "json"]))).toMatchObject({
      exit_code: 0,
      result: "done",
    });
    expect(left).toBe(false);
    expect(toolResults(model.last).at(-1)).toContain("may or may not have happened");
  });
}
