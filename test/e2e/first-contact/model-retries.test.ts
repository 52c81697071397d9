import { expect, test } from "bun:test";
import { join } from "node:path";
import type { ProcInfo } from "../../../src/store/runs/schema.ts";
import type { Fault, Turn } from "../../support/model-server/script.ts";
import { until } from "../../support/until.ts";
import { writeKeys } from "../support/keys-file.ts";
import { Machine } from "../support/machine.ts";
import { detach } from "../support/runs.ts";
import { says } from "../support/scenes.ts";
import { recordOf, uuidOf, verdict } from "../support/verdict.ts";

const fault = (fault: Fault): Turn => ({ fault });
const OVERLOADED = fault({ kind: "status", status: 529, message: "Overloaded" });

function retrying(machine: Machine, model_retry_time: string): void {
  machine.config({ model_retries: "unlimited", model_retry_time });
}

function infoOf(machine: Machine, uuid: string): ProcInfo | undefined {
  try {
    return recordOf(machine, uuid);
  } catch {
    return undefined; // It is just being replaced.
  }
}

test.concurrent("a model that fails in every way and then answers: each retry says why and when, and the run completes", async () => {
  await using machine = new Machine();
  retrying(machine, "1m");
  const limited = fault({
    kind: "status",
    status: 429,
    headers: { "retry-after": "1" },
    message: "Slow down",
  });
  const model = await machine.play({
    "do it": [OVERLOADED, limited, fault({ kind: "cut" }), { text: "" }, says("done")],
  });
  const { code, stdout, stderr } = await machine.run(["spawn", "do it"]);
  expect({ code, stdout }).toEqual({ code: 0, stdout: "done\n" });
  const lines = stderr.split("\n").filter((line) => line.includes("failed:"));
  expect(lines).toHaveLength(4);
  for (const [n, why] of [/529: Overloaded/, /429: Slow down/, /broke off/, /empty answer/].entries()) {
    expect(lines[n]).toMatch(why);
    expect(lines[n]).toMatch(/retry in [\d.]+m?s, for at most [\dm.]+s more$/);
    expect(lines[n]).toStartWith(`  attempt ${n + 1} failed: `);
  }
  expect(lines[1]).toMatch(/retry in 1\.\ds/);
  expect(model.requests).toHaveLength(5);
});

test.concurrent("a model that stays down ends a followed run, and says what to do; resume finishes it later", async () => {
  await using machine = new Machine();
  retrying(machine, "1s");
  await machine.play({ "do it": [OVERLOADED, OVERLOADED, OVERLOADED, OVERLOADED, says("done")] });
  const { receipt, stderr } = await verdict(machine, ["do it"]);
  expect(receipt).toMatchObject({ exit_code: 1, exit_reason: "llm_error", error: { code: "UNAVAILABLE" } });
  expect(receipt.error?.message).toMatch(/It was tried [34] times/);
  expect(stderr).toMatch(
    /attempt 1 failed: .*529: Overloaded; .*\n {2}attempt 2 failed with the same error; retry in/,
  );
  expect(stderr).toContain(`to resume it later: rnix resume ${receipt.uuid}`);
  expect(await machine.run(["resume", receipt.uuid])).toMatchObject({ code: 0, stdout: "done\n" });
});

test.concurrent.each(["started by init.yaml", "with --detach"])(
  "a run %s is suspended for the wait and completes by itself",
  async (how) => {
    await using machine = new Machine();
    retrying(machine, "1s");
    let up = false;
    const model = await machine.model(({ text }) =>
      up && text.includes("do it") ? says("done") : OVERLOADED,
    );
    const run = how === "with --detach" ? await detach(machine, "do it") : await supervised(machine);
    await until(() => infoOf(machine, run.uuid)?.state === "suspended", "its suspension");
    const info = infoOf(machine, run.uuid);
    expect(info).toMatchObject({
      exit_code: 75,
      error: null,
      suspended: { cause: "model", by_itself: true },
    });
    expect(info?.suspended?.reason).toContain("529: Overloaded");
    // Once more: the server is still down when it resumes.
    await until(() => (infoOf(machine, run.uuid)?.pid ?? 0) > run.pid, "its first resume");
    await until(() => infoOf(machine, run.uuid)?.state === "suspended", "its second suspension");
    up = true;
    await until(() => infoOf(machine, run.uuid)?.exit_code === 0, "its end");
    expect(infoOf(machine, run.uuid)).toMatchObject({ result: "done", suspended: null });
    expect(model.requests.length).toBeGreaterThan(4);
  },
);

test.concurrent("rnix log -f and rnix attach show the retries of a detached run", async () => {
  await using machine = new Machine();
  retrying(machine, "1m");
  let up = false;
  await machine.model(() => (up ? says("done") : OVERLOADED));
  const { uuid } = await detach(machine, "do it");
  const log = machine.start(["log", uuid, "-f"]);
  const attached = machine.start(["attach", uuid]);
  await Promise.all([
    log.stdout.has(/attempt \d+ failed: .*529: Overloaded; retry in/),
    attached.stderr.has(/attempt \d+ failed: .*529: Overloaded; retry in .* for at most/),
  ]);
  up = true;
  expect((await attached.done).code).toBe(0);
  expect((await log.done).code).toBe(0);
});

test.concurrent("Ctrl-C during the wait before a retry suspends the run at once", async () => {
  await using machine = new Machine();
  retrying(machine, "5m");
  const wait = fault({
    kind: "status",
    status: 529,
    headers: { "retry-after": "60" },
    message: "Overloaded",
  });
  await machine.play({ "do it": [wait] });
  const command = machine.start(["spawn", "do it"]);
  const uuid = await uuidOf(command);
  await command.stderr.has(/retry in 1m0\ds/);
  command.signal("SIGINT");
  expect((await command.done).code).toBe(75);
  expect(infoOf(machine, uuid)).toMatchObject({ state: "suspended", suspended: { cause: "asked" } });
});

async function supervised(machine: Machine): Promise<{ pid: number; uuid: string }> {
  writeKeys(machine, ["OPENAI_API_KEY", "OPENAI_BASE_URL", "RNIX_PROVIDER", "RNIX_MODEL"]);
  const child = "{ id: c, intent: do it, restart: temporary }";
  machine.write(
    join(machine.configDir, "init.yaml"),
    `supervisors:\n  - { name: s, project: ${machine.project}, strategy: one_for_one, children: [${child}] }\n`,
  );
  await machine.ok(["daemon", "start"]);
  let run: ProcInfo | undefined;
  await until(async () => {
    const all: ProcInfo[] = await machine.json(["ps", "-a", "--json", "--all-projects"]);
    run = all.find(({ intent, kind }) => intent === "do it" && kind === "agent");
    return run !== undefined;
  }, "the run of init.yaml");
  if (!run) throw new Error("no run");
  return run;
}
