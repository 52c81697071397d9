import { expect, test } from "bun:test";
import daemons from "../../../plugins/daemons.ts";
import shell from "../../../plugins/shell.ts";
import { type Device, type LLMRequest, SyscallError } from "../../../src/plugin/index.ts";
import { byIntent, calls, KernelHarness, type Model, says, script } from "../../support/kernel.ts";
import { until } from "../../support/until.ts";

/** A kernel with the real shell and the units' own device. */
function harness(model: Model): KernelHarness {
  const devices: Record<string, Device> = { ...shell.devices, ...daemons.devices };
  const needs = { "/dev/shell": ["exec", "units"], "/dev/daemons": ["units"] } as const;
  return new KernelHarness({
    model,
    devices,
    needs: Object.fromEntries(Object.entries(needs).map(([path, names]) => [path, [...names]])),
  });
}

/** The last message that the model was sent. */
function lastMessage(request: LLMRequest | undefined): string {
  return request?.messages.at(-1)?.content ?? "";
}

const background = (command: string) =>
  ["Bash", { command, run_in_background: true }] as [string, object] as never;

test("a command in the background answers at once, and its end wakes the agent", async () => {
  await using h = harness(
    script(calls(background("echo built; exit 3")), says("started it"), says("the build failed")),
  );
  const { info } = await h.run("build");
  expect(info.exit_code).toBe(0);
  expect(info.result).toBe("the build failed");
  const woken = lastMessage(h.requests[2]);
  expect(woken).toMatch(/unit b[0-9a-z]{8} \[local_bash\] failed, exit code 3/);
  expect(woken).toContain("built");
  const { records } = await h.runs.steps(info.uuid);
  expect(records.map(({ action }) => action)).toEqual(["tool_call", "text", "complete"]);
});

test("the end of a unit reaches a working agent between two tool calls", async () => {
  await using h = harness(
    script(
      calls(background("exit 0")),
      calls([
        "Bash",
        {
          command: "until grep -q announced .rnix/data/steps/*/units.jsonl; do sleep 0.02; done",
        },
      ]),
      calls(["Bash", { command: "true" }]),
      says("done"),
    ),
  );
  const { info } = await h.run("build");
  expect(info.exit_code).toBe(0);
  const reached = h.requests.findIndex(({ messages }) =>
    messages.some(({ content }) => content.includes("completed, exit code 0")),
  );
  expect(reached).toBeGreaterThan(0);
  expect(reached).toBeLessThan(3);
});

test("an agent reads, lists and stops its units; an ended one can be read, and stopped without effect", async () => {
  let id = "";
  const answers: Model = (request) => {
    const turn = request.messages.filter(({ role }) => role === "assistant").length;
    id = /unit (b[0-9a-z]{8})/.exec(request.messages.map(({ content }) => content).join("\n"))?.[1] ?? id;
    const unit = { daemon_id: id };
    const script = [
      calls(background("trap '' TERM; echo ready; while :; do sleep 0.1; done")),
      calls(
        ["DaemonList", {}],
        ["DaemonList", { kind: "monitor" }],
        ["Bash", { command: "until grep -q ready .rnix/data/steps/*/units/*.out; do sleep 0.02; done" }],
      ),
      calls(["DaemonStop", unit]),
      says("stopped it"),
      calls(
        ["DaemonStop", unit],
        ["DaemonOutput", unit],
        ["DaemonList", {}],
        ["DaemonList", { include_terminal: true }],
      ),
      calls(["DaemonStop", { daemon_id: "b00000000" }], ["DaemonOutput", { daemon_id: "b00000000" }]),
      says("done"),
    ];
    return script[turn] ?? says("more");
  };
  await using h = harness(answers);
  const { info } = await h.run("serve");
  expect(info.exit_code).toBe(0);
  const { records } = await h.runs.steps(info.uuid);
  const results = records.flatMap(({ tool_calls }) =>
    tool_calls.map(({ result, error_code }) => result ?? error_code ?? ""),
  );
  expect(results[1]).toMatch(/^- b[0-9a-z]{8} \[local_bash\/running\] /);
  expect(results[2]).toBe("no daemons");
  expect(results[4]).toContain("terminating");
  expect(results[5]).toContain("has already ended: killed");
  expect(results[6]).toContain("---\nready");
  expect(results[7]).toBe("no daemons");
  expect(results[8]).toContain("local_bash/killed");
  expect(records.at(-2)?.tool_calls.map(({ error_code }) => error_code)).toEqual(["NOT_FOUND", "NOT_FOUND"]);
});

test("a monitor's lines are events, and its end follows them", async () => {
  await using h = harness(
    script(
      calls([
        "Monitor",
        { command: "for i in 1 2 3; do echo line $i; done; exit 2", description: "three lines" },
      ]),
      says("watching"),
      says("seen"),
    ),
  );
  const { info } = await h.run("watch");
  expect(info.result).toBe("seen");
  const woken = h.requests.slice(2).map(lastMessage).join("\n");
  expect(woken).toMatch(/unit m[0-9a-z]{8} \[monitor\] events:\nline 1\nline 2\nline 3\n\(stream closed\)/);
  // Lines, closing and end come together: they cost one call of the model.
  expect(h.requests.length).toBe(3);
  expect(woken).toMatch(/\[monitor\] failed, events=3: three lines/);
});

test("units end with their agent, however it ends, and their ends are recorded", async () => {
  await using h = harness(
    script(calls(background("echo $$; sleep 1000")), calls(["Bash", { command: "true" }])),
  );
  const { info } = await h.run("serve", { max_steps: 2 });
  expect(info.exit_reason).toBe("max_steps");
  expect(h.children.list()).toEqual([]);
  const { records } = await h.runs.units(info.uuid);
  expect(records.map(({ t }) => t).filter((t) => t !== "program")).toEqual(["started", "ended"]);
  expect(records.at(-1)).toMatchObject({ snapshot: { status: "killed" } });
});

test("a process has a limited number of live units", async () => {
  await using h = harness(
    script(
      calls(background("sleep 100"), background("sleep 100"), background("sleep 100")),
      calls(["Bash", { command: "true" }]),
    ),
  );
  const { info } = await h.run("serve", { max_steps: 2, limits: { ...h.opts().limits, live_units: 2 } });
  const { records } = await h.runs.steps(info.uuid);
  h.leases--;
  expect(records[0]?.tool_calls.map(({ error_code }) => error_code ?? null)).toEqual([
    null,
    null,
    "EXHAUSTED",
  ]);
});

/** The text of all that a request holds, as one. */
function textOf(request: LLMRequest | undefined): string {
  return request?.messages.map(({ content }) => content).join("\n") ?? "";
}

test("an agent in the background is a unit: its parent goes on, and reads its answer", async () => {
  await using h = harness(
    byIntent({
      parent: [
        () => calls(["Agent", { intent: "child", run_in_background: true }]),
        () => says("waiting"),
        (request) => says(textOf(request).includes("the child's answer") ? "got it" : "nothing"),
      ],
      child: [() => says("the child's answer")],
    }),
  );
  const { info } = await h.run("parent");
  expect(info.result).toBe("got it");
  expect(textOf(h.requests.at(-1))).toMatch(/unit a[0-9a-z]{8} \[local_agent\] completed: child/);
});

test("the failure of an agent in the background is reported, and is none of its parent's", async () => {
  await using h = harness(
    byIntent({
      parent: [
        () => calls(["Agent", { intent: "child", run_in_background: true }]),
        () => says("waiting"),
        () => says("it failed"),
      ],
      child: [
        () => {
          throw new SyscallError("INVALID", "this model has no answer");
        },
      ],
    }),
  );
  const { info } = await h.run("parent");
  expect(info.exit_code).toBe(0);
  expect(info.children).toMatchObject([{ exit_code: 1 }]);
  expect(textOf(h.requests.at(-1))).toMatch(
    /\[local_agent\] failed: child\nerror: .*this model has no answer/,
  );
});

test("a resumed run reads once what became of its units, and reads their output", async () => {
  let id = "";
  const answers: Model = (request) => {
    const text = textOf(request);
    id = /unit (b[0-9a-z]{8})/.exec(text)?.[1] ?? id;
    const turn = request.messages.filter(({ role }) => role === "assistant").length;
    return turn === 0
      ? calls(background("echo before; sleep 1000"))
      : turn === 1
        ? says("serving")
        : turn === 2
          ? calls(["DaemonOutput", { daemon_id: id }])
          : says("seen");
  };
  await using h = harness(answers);
  const pid = await h.spawn("serve");
  await until(() => h.requests.length === 2);
  await until(() => h.kernel.doing({ uuid: h.kernel.processes.identity(pid).uuid })?.kind === "unit");
  const { uuid } = h.kernel.processes.identity(pid);
  await until(async () => (await h.kernel.units.output(id)).text.includes("before"));
  await h.kernel.lifecycle.suspend(pid);
  expect(h.children.list()).toEqual([]);
  const { info } = await h.resumed(uuid);
  expect(info.result).toBe("seen");
  const { records } = await h.runs.steps(uuid);
  expect(records.flatMap(({ tool_calls }) => tool_calls).at(-1)?.result).toContain("---\nbefore");
  const said = textOf(h.requests.at(-1)).split(`unit ${id} [local_bash] killed`).length - 1;
  expect(said).toBe(1);
});

test("a command that is moved to the background outlives its call and its time limit, and ends with its agent", async () => {
  await using h = harness(
    script(
      calls(["Bash", { command: "echo begun; sleep 1000", timeout_ms: 2_000 }]),
      calls(["Bash", { command: "sleep 2.1" }]),
      calls(["DaemonList", {}]),
      calls(["Bash", { command: "true" }]),
    ),
  );
  const pid = await h.spawn("serve", { max_steps: 4 });
  const { uuid } = h.kernel.processes.identity(pid);
  await until(() => h.kernel.units.moveCalls(uuid) === 1);
  const { info } = await h.follow(pid);
  expect(info.exit_reason).toBe("max_steps");
  const { records } = await h.runs.steps(uuid);
  const results = records.flatMap(({ tool_calls }) => tool_calls.map(({ result }) => result));
  expect(results[0]).toMatch(/^(begun\n)?\[moved to the background by the user as unit b\w{8}\./);
  expect(results[2]).toMatch(/^- b\w{8} \[local_bash\/running\] echo begun; sleep 1000 /);
  expect(h.children.list()).toEqual([]);
  expect((await h.runs.units(uuid)).records.at(-1)).toMatchObject({
    snapshot: { status: "killed", metadata: { output: "begun\n" } },
  });
});

test("a process at its limit of units keeps the command in the foreground", async () => {
  await using h = harness(
    script(
      calls(background("sleep 100"), [
        "Bash",
        { command: "echo begun; until [ -e go ]; do sleep 0.02; done; echo done" },
      ]),
      calls(["Bash", { command: "true" }]),
    ),
  );
  const pid = await h.spawn("serve", { max_steps: 2, limits: { ...h.opts().limits, live_units: 1 } });
  h.leases--;
  const { uuid } = h.kernel.processes.identity(pid);
  await until(() => h.kernel.units.moveCalls(uuid) === 1);
  await Bun.write(`${h.project}/go`, "");
  const { info } = await h.follow(pid);
  const { records } = await h.runs.steps(info.uuid);
  expect(records[0]?.tool_calls[1]?.result).toBe("begun\ndone");
});
