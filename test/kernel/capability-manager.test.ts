import { describe, expect, test } from "bun:test";
import { type Facts, Permissions } from "../../src/kernel/permission/permissions.ts";
import type { Process } from "../../src/kernel/process/process.ts";
import type { PID } from "../../src/kernel/types.ts";
import { SIGKILL } from "../../src/lib/signals.ts";
import { type Device, O_RDWR, SyscallError } from "../../src/plugin/index.ts";
import { codeOf } from "../support/failure.ts";
import { idle } from "../support/idle.ts";
import { calls, KernelHarness, says, script, silent, toolDevice } from "../support/kernel.ts";
import { Mountable } from "../support/mountable.ts";
import { seeded } from "../support/seeded.ts";
import { until } from "../support/until.ts";

/** A tool whose calls run until they are aborted. */
class Hanging {
  begun = 0;
  readonly aborted: unknown[] = [];
  readonly device: Device;

  constructor(name: string, more: Parameters<typeof toolDevice>[2] = {}) {
    this.device = toolDevice(name, (_input, signal) => this.#hang(signal), more);
  }

  #hang(signal: AbortSignal): Promise<string> {
    this.begun++;
    return new Promise((_resolve, reject) => {
      signal.addEventListener("abort", () => {
        this.aborted.push(signal.reason);
        reject(new SyscallError("CANCELLED", "aborted"));
      });
    });
  }
}

const tool = (name: string): Device => toolDevice(name, () => `${name} was used`);

const bash = (): Device =>
  toolDevice("Bash", (input) => `ran ${input.command}`, {
    subject: "command",
    input: { type: "object", properties: { command: { type: "string" } } },
  });

async function callsOf(h: KernelHarness, uuid: string) {
  return (await h.runs.steps(uuid)).records.flatMap(({ tool_calls }) => tool_calls);
}

const shown = (h: KernelHarness, request: number): string[] =>
  (h.requests[request]?.tools ?? []).map(({ name }) => name);

/** All that the model was sent beside the results of its calls. */
const notices = (h: KernelHarness): string =>
  h.requests
    .flatMap(({ messages }) => messages.filter(({ role }) => role === "user"))
    .map(({ content }) => content)
    .join("\n");

describe("CapGrant to a live agent", () => {
  test("is announced to the model, listed behind the other tools, used, and on disk at once", async () => {
    const pid: { is?: PID } = {};
    const saved: unknown[] = [];
    const grant = toolDevice("Ask", async () => {
      const rights = await h.kernel.capabilities.grant(pid.is ?? 0, ["Bash(git *)"]);
      const uuid = h.kernel.processes.info(pid.is ?? 0).uuid;
      saved.push(
        (await h.runs.info(uuid))?.permissions,
        (await h.runs.meta(uuid))?.tools.map(({ name }) => name),
      );
      return rights.allowed.join(", ");
    });
    await using h = new KernelHarness({
      model: script(
        calls(["Ask", {}]),
        calls(["Bash", { command: "git log" }], ["Bash", { command: "ls" }]),
        says("done"),
      ),
      devices: { "/dev/ask": grant, "/dev/shell": bash(), "/dev/other": tool("Another") },
    });
    pid.is = await h.spawn("go", { allow: ["Ask", "Complete"] });
    const { info } = await h.follow(pid.is);
    expect(shown(h, 0)).toEqual(["Ask", "Complete"]);
    expect(shown(h, 1)).toEqual(["Ask", "Complete", "Bash"]);
    expect(notices(h)).toContain("You may now use Bash(git *): the operator (PID 0) has allowed it.");
    const permissions = { allow: [["Ask", "Complete", "Bash(git *)"]], deny: [], fixed: true as const };
    expect(saved).toEqual([permissions, ["Ask", "Complete", "Bash"]]);
    expect((await callsOf(h, info.uuid)).map(({ state, result }) => result ?? state)).toEqual([
      "Ask, Bash(git *), Complete",
      "ran git log",
      "denied",
    ]);
    expect(info.permissions).toEqual(permissions);
  });

  test("sends no notice for a right that it has already", async () => {
    const pid: { is?: PID } = {};
    const grant = toolDevice("Ask", async () =>
      (await h.kernel.capabilities.grant(pid.is ?? 0, ["Ask"])).allowed.join(),
    );
    await using h = new KernelHarness({
      model: script(calls(["Ask", {}]), says("done")),
      devices: { "/dev/ask": grant },
    });
    pid.is = await h.spawn("go", { allow: ["Ask"] });
    const { info } = await h.follow(pid.is);
    expect(info.steps).toBe(2);
    expect(new Set(notices(h).split("\n"))).toEqual(new Set(["go"]));
  });

  test("reaches its descendants within their own lists", async () => {
    await using h = new KernelHarness({
      model: silent,
      devices: { "/dev/a": tool("A"), "/dev/b": tool("B") },
    });
    const parent = await idle(h, { allow: ["A"] });
    const wide = await idle(h, { allow: ["*"], parentPid: parent.pid });
    const narrow = await idle(h, { allow: ["A"], parentPid: parent.pid });
    await h.kernel.capabilities.grant(parent.pid, ["B"]);
    expect([wide, narrow].map(({ permissions }) => permissions.allowedTools())).toEqual([["A", "B"], ["A"]]);
    expect([...wide.toolset.shown.keys()]).toEqual(["A", "B"]);
    expect((await h.runs.info(wide.uuid))?.permissions.allow).toEqual([["*"], ["A", "B"]]);
  });
});

describe("the right to grant", () => {
  const devices = { "/dev/a": tool("A"), "/dev/b": tool("B"), "/dev/shell": bash() };

  test("gives the grantor's rights to its descendants", async () => {
    await using h = new KernelHarness({ model: silent, devices });
    const { capabilities } = h.kernel;
    const top = await idle(h, { allow: ["A", "Bash(git *)"] });
    const child = await idle(h, { allow: [], parentPid: top.pid });
    const stranger = await idle(h, { allow: ["*"] });
    expect(await capabilities.grant(child.pid, ["A", "Bash(git log *)"], top)).toEqual({
      allowed: ["A", "Bash(git log *)"],
      denied: [],
    });
    const refused: [PID, string[], Process, RegExp][] = [
      [child.pid, ["B"], top, /PID 1 does not hold B itself: it may use A, Bash\(git \*\)/],
      [child.pid, ["A", "Bash"], top, /does not hold Bash itself/],
      [child.pid, ["A"], stranger, /PID 3 can't change the rights of PID 2: a process changes/],
      [top.pid, ["A"], child, /PID 2 can't change the rights of PID 1/],
      [child.pid, ["A"], child, /PID 2 can't change the rights of PID 2/],
    ];
    for (const [pid, rules, by, message] of refused) {
      const failed = capabilities.grant(pid, rules, by);
      expect(await failed.catch((thrown: unknown) => thrown)).toMatchObject({
        code: "PERMISSION",
        syscall: "CapGrant",
        message: expect.stringMatching(message),
      });
    }
    expect(child.permissions.allowedTools()).toEqual(["A", "Bash(git log *)"]);
  });

  test("is refused for a right that the parent lacks: the error names the first", async () => {
    await using h = new KernelHarness({ model: silent, devices });
    const top = await idle(h, { allow: ["A"] });
    const middle = await idle(h, { allow: ["A"], parentPid: top.pid });
    const low = await idle(h, { allow: ["A"], parentPid: middle.pid });
    const refusal = async (): Promise<string> =>
      h.kernel.capabilities.grant(low.pid, ["B"]).then(
        () => "",
        (thrown: SyscallError) => `${thrown.code} ${thrown.message}`,
      );
    expect(await refusal()).toMatch(/^PERMISSION PID 1, above PID 3, does not hold B .*rnix allow 1 'B'$/);
    await h.kernel.capabilities.grant(top.pid, ["B"]);
    expect(await refusal()).toMatch(/rnix allow 2 'B'$/);
    await h.kernel.capabilities.grant(middle.pid, ["B"]);
    expect(await refusal()).toBe("");
    expect(low.permissions.allowedTools()).toEqual(["A", "B"]);
  });

  test("does not give what a deny rule would still refuse", async () => {
    await using h = new KernelHarness({ model: silent, devices });
    const proc = await idle(h, { allow: ["A"], deny: ["/dev/b"] });
    expect(await codeOf(() => h.kernel.capabilities.grant(proc.pid, ["B"]))).toBe("PERMISSION");
    expect(proc.permissions.record()).toEqual({ allow: [["A"]], deny: ["/dev/b"], fixed: true });
    await h.kernel.capabilities.grant(proc.pid, ["/dev/b"]);
    expect(proc.permissions.allowedTools()).toEqual(["A", "B"]);
  });

  test("an unknown name is refused with the nearest, an ended process by name", async () => {
    await using h = new KernelHarness({ model: silent, devices });
    const proc = await idle(h);
    const unknown = h.kernel.capabilities.grant(proc.pid, ["Bsh"]).catch((thrown: unknown) => thrown);
    expect(await unknown).toMatchObject({ code: "INVALID", message: expect.stringContaining('"Bash"') });
    expect(await codeOf(() => h.kernel.capabilities.revoke(proc.pid, ["A("]))).toBe("INVALID");
    h.kernel.processes.kill(proc.pid, SIGKILL);
    const ended = h.kernel.processes.wait(proc.pid);
    expect(await codeOf(() => h.kernel.capabilities.revoke(proc.pid, ["A"]))).toBe("NOT_FOUND");
    await ended;
    expect(await codeOf(() => h.kernel.capabilities.grant(proc.pid, ["A"]))).toBe("NOT_FOUND");
  });

  test("PID 0 may give anything to a process whose parent has ended", async () => {
    await using h = new KernelHarness({ model: silent, devices });
    const parent = await idle(h, { allow: ["A"], deny: ["Bash(rm *)"] });
    const child = await idle(h, { allow: ["*"], parentPid: parent.pid });
    h.kernel.processes.kill(parent.pid, SIGKILL);
    await h.kernel.processes.wait(parent.pid);
    expect(child.permissions.allowedTools()).toEqual(["A"]);
    await h.kernel.capabilities.grant(child.pid, ["B", "Bash(rm *)"]);
    expect(child.permissions.allowedTools()).toEqual(["A", "B", "Bash(rm *)"]);
  });
});

describe("CapRevoke", () => {
  test("ends a call under way as denied, naming who withdrew it; the run continues and its model is notified", async () => {
    const hanging = new Hanging("Bash", {
      subject: "command",
      input: { type: "object", properties: { command: { type: "string" } } },
    });
    await using h = new KernelHarness({
      model: script(
        calls(["Bash", { command: "sleep" }], ["A", {}]),
        calls(["Bash", { command: "ls" }]),
        says("done"),
        says("notified after the last answer"),
      ),
      devices: { "/dev/shell": hanging.device, "/dev/a": tool("A") },
    });
    const pid = await h.spawn("go");
    await until(() => hanging.begun === 1);
    const before = h.kernel.detail(pid).fds;
    const rights = await h.kernel.capabilities.revoke(pid, ["Bash"]);
    expect(rights.denied).toEqual(["Bash"]);
    expect(rights.allowed).not.toContain("Bash");
    const { uuid } = h.kernel.processes.info(pid);
    expect((await h.runs.info(uuid))?.permissions).toEqual({ allow: [["*"]], deny: ["Bash"] });
    const { info } = await h.follow(pid);
    const made = await callsOf(h, uuid);
    expect(made.map(({ name, state, error_code }) => [name, state, error_code])).toEqual([
      ["Bash", "denied", "PERMISSION"],
      ["A", "done", null],
      ["Bash", "denied", "PERMISSION"],
    ]);
    expect(made[0]?.error).toContain(
      "It was withdrawn by the operator (PID 0). The deny rule Bash forbids it.",
    );
    expect(hanging.aborted).toHaveLength(1);
    expect(hanging.begun).toBe(1);
    expect(before.map(({ path }) => path)).toEqual(["/dev/llm/scripted", "/dev/shell"]);
    expect(notices(h)).toContain("Bash was withdrawn by the operator (PID 0)");
    expect(shown(h, 1)).toEqual(shown(h, 0));
    expect(info.exit_code).toBe(0);
    // The word of it may come with the last answer: then there is one more.
    expect([3, 4]).toContain(info.steps);
  });

  test("of a pattern ends only the calls that it covers", async () => {
    const hanging = new Hanging("Run", {
      subject: "command",
      input: { type: "object", properties: { command: { type: "string" } } },
      annotations: { readOnlyHint: true },
    });
    await using h = new KernelHarness({
      model: script(
        calls(["Run", { command: "git push -f" }], ["Run", { command: "git log" }]),
        says("done"),
      ),
      devices: { "/dev/run": hanging.device },
    });
    const pid = await h.spawn("go");
    await until(() => hanging.begun === 2);
    await h.kernel.capabilities.revoke(pid, ["Run(git push *)"]);
    expect(hanging.aborted).toHaveLength(1);
    await h.kernel.capabilities.revoke(pid, ["Run"]);
    const { info } = await h.follow(pid);
    expect(
      (await callsOf(h, info.uuid)).map(({ state, error }) => [
        state,
        /rule ([^ ]+.*) forbids/.exec(error ?? "")?.[1],
      ]),
    ).toEqual([
      ["denied", "Run(git push *)"],
      ["denied", "Run"],
    ]);
  });

  test("ends a call that is still being opened, and closes the file that comes too late", async () => {
    const opening = Promise.withResolvers<void>();
    let begun = 0;
    const slow = tool("Slow");
    await using h = new KernelHarness({
      model: script(calls(["Slow", {}]), says("done")),
      devices: {
        "/dev/slow": {
          ...slow,
          factory: async (...args) => {
            begun++;
            await opening.promise;
            return slow.factory(...args);
          },
        },
      },
    });
    const pid = await h.spawn("go");
    await until(() => begun === 1);
    await h.kernel.capabilities.revoke(pid, ["Slow"]);
    opening.resolve();
    const { info } = await h.follow(pid);
    expect((await callsOf(h, info.uuid)).map(({ state, error }) => [state, error])).toEqual([
      ["denied", expect.stringContaining("It was withdrawn by the operator (PID 0)")],
    ]);
    await until(() => h.openFiles === 0);
  });

  test("ends a call whose file is denied by its real path, under any name", async () => {
    const opened: (string | null)[] = [];
    const hanging = new Hanging("Show", { subject: "path", input: { type: "object" } });
    await using h = new KernelHarness({
      model: script(calls(["Show", { path: "link" }]), says("done")),
      devices: {
        "/dev/show": {
          ...hanging.device,
          factory: async (subpath, flags, context) => {
            opened.push(...(await context.access([`${context.project.dir}/secret/key`], ["Other"])));
            return hanging.device.factory(subpath, flags, context);
          },
        },
      },
    });
    const pid = await h.spawn("go");
    await until(() => hanging.begun === 1);
    expect(opened).toEqual([null]);
    await h.kernel.capabilities.revoke(pid, ["Show(public/**)"]);
    expect(hanging.aborted).toHaveLength(0);
    await h.kernel.capabilities.revoke(pid, ["Show(secret/**)"]);
    const { info } = await h.follow(pid);
    expect((await callsOf(h, info.uuid)).map(({ state, error }) => [state, error])).toEqual([
      ["denied", expect.stringContaining("The deny rule Show(secret/**) forbids it.")],
    ]);
  });

  test("decides what a driver opened by the rules of that moment, up to a limit per call", async () => {
    const answers: unknown[] = [];
    const device = toolDevice("Show", () => "shown", { subject: "path", input: { type: "object" } });
    await using h = new KernelHarness({
      model: script(calls(["Show", { path: "a" }]), says("done")),
      devices: {
        "/dev/show": {
          ...device,
          factory: async (subpath, flags, context) => {
            const files = ["a", "secret/key"].map((name) => `${context.project.dir}/${name}`);
            answers.push(await context.access(files));
            await h.kernel.capabilities.revoke(pid.is ?? 0, ["Show(secret/**)"]);
            answers.push(await context.access(files));
            for (const paths of [["relative"], Array(1_001).fill("/a")]) {
              answers.push(await codeOf(context.access(paths)));
            }
            return device.factory(subpath, flags, context);
          },
        },
      },
    });
    const pid: { is?: PID } = {};
    pid.is = await h.spawn("go");
    await h.follow(pid.is);
    expect(answers).toEqual([
      [null, null],
      [null, "The deny rule Show(secret/**) forbids it."],
      "INVALID",
      "INVALID",
    ]);
  });

  test("closes the device files that a process opened itself, and nothing else", async () => {
    const hanging = new Hanging("A");
    await using h = new KernelHarness({
      model: silent,
      devices: { "/dev/a": hanging.device, "/dev/b": tool("B") },
    });
    const { files } = h.kernel;
    const proc = await idle(h, { allow: ["/dev/a", "/dev/b"] });
    const [busy, resting, other] = [
      await files.open(proc, "/dev/a", O_RDWR),
      await files.open(proc, "/dev/a", O_RDWR),
      await files.open(proc, "/dev/b", O_RDWR),
    ];
    const writing = codeOf(files.write(proc, busy, "{}"));
    await until(() => hanging.begun === 1);
    await h.kernel.capabilities.revoke(proc.pid, ["A"]);
    expect(await writing).toBe("PERMISSION");
    expect(proc.fds.list()).toEqual([{ fd: other, path: "/dev/b" }]);
    expect(h.openFiles).toBe(1);
    expect(await codeOf(files.write(proc, resting, "{}"))).toBe("NOT_FOUND");
    expect(await codeOf(files.open(proc, "/dev/a", O_RDWR))).toBe("PERMISSION");
    await files.write(proc, other, "{}");
  });

  test("reaches all descendants, also in the middle of a call", async () => {
    const hanging = new Hanging("Hang");
    await using h = new KernelHarness({
      model: script(calls(["Hang", {}]), says("done")),
      devices: { "/dev/hang": hanging.device },
    });
    const top = await idle(h);
    const middle = await idle(h, { parentPid: top.pid });
    const low = await h.spawn("go", { parentPid: middle.pid });
    await until(() => hanging.begun === 1);
    await h.kernel.capabilities.revoke(top.pid, ["Hang"]);
    const { info } = await h.follow(low);
    expect((await callsOf(h, info.uuid)).map(({ state }) => state)).toEqual(["denied"]);
    expect(notices(h)).toContain("Hang was withdrawn by the operator (PID 0)");
    expect(info.permissions).toEqual({ allow: [["*"], ["*"], ["*"]], deny: [], deny_above: ["Hang"] });
    await h.kernel.capabilities.grant(top.pid, ["Hang"]);
    expect(middle.permissions.showsTool("Hang")).toBe(true);
  });

  test("applies to a process's descendants, and only it or PID 0 undoes it", async () => {
    await using h = new KernelHarness({ model: silent, devices: { "/dev/a": tool("A") } });
    const { capabilities } = h.kernel;
    const top = await idle(h);
    const middle = await idle(h, { parentPid: top.pid });
    const low = await idle(h, { parentPid: middle.pid });
    await capabilities.revoke(low.pid, ["A"], top);
    expect(await codeOf(capabilities.grant(low.pid, ["A"], middle))).toBe("PERMISSION");
    await capabilities.grant(low.pid, ["A"], top);
    expect(low.permissions.showsTool("A")).toBe(true);
    await capabilities.revoke(low.pid, ["A"], low);
    expect(await codeOf(capabilities.revoke(top.pid, ["A"], low))).toBe("PERMISSION");
    expect(low.permissions.showsTool("A")).toBe(false);
    await h.kernel.capabilities.grant(low.pid, ["A"]);
    expect(low.permissions.showsTool("A")).toBe(true);
  });
});

test("an unmount removes the mount's tools from the processes below, too", async () => {
  const { type } = new Mountable();
  const request = { type: "table", name: "one", config: {} };
  await using h = new KernelHarness({ model: silent, mounts: [type] });
  const parent = await idle(h);
  const path = await h.kernel.mounts.mount(parent.pid, request);
  const child = await idle(h, { parentPid: parent.pid });
  expect(child.permissions.record().allow[1]).toContain("table__one__*");
  await h.kernel.mounts.unmount(parent.pid, path);
  expect(child.permissions.record().allow[1]).toEqual(["*"]);
});

test("every change is recorded, and every Open names its rule, or why none applies", async () => {
  await using h = new KernelHarness({ model: silent, devices: { "/dev/a": tool("A") } });
  const { files, capabilities } = h.kernel;
  const parent = await idle(h);
  const proc = await idle(h, { allow: ["/dev/**"], parentPid: parent.pid });
  const trace = h.kernel.attachDebug(proc.pid);
  await files.close(proc, await files.open(proc, "/dev/a", O_RDWR));
  await h.kernel.capabilities.revoke(proc.pid, ["A"]);
  await codeOf(files.open(proc, "/dev/a", O_RDWR));
  await codeOf(() => h.kernel.capabilities.grant(proc.pid, ["Nope"]));
  await capabilities.grant(proc.pid, ["A"]);
  trace.end();
  const seen: unknown[] = [];
  for await (const event of trace) if (event.syscall !== "Close") seen.push(event);
  const args = { path: "/dev/a", flags: O_RDWR };
  expect(seen).toMatchObject([
    { syscall: "Open", args: { ...args, rule: "/dev/**" }, result: 3 },
    { syscall: "CapRevoke", args: { pid: 2, rules: ["A"], by: 0 } },
    {
      syscall: "Open",
      args,
      error_code: "PERMISSION",
      error: expect.stringContaining("deny rule A forbids"),
    },
    { syscall: "CapGrant", args: { pid: 2, rules: ["Nope"], by: 0 }, error_code: "INVALID" },
    { syscall: "CapGrant", args: { pid: 2, rules: ["A"], by: 0 } },
  ]);

  const ofParent = h.kernel.attachDebug(parent.pid);
  await capabilities.revoke(proc.pid, ["A"], parent);
  ofParent.end();
  for await (const event of ofParent) {
    expect(event).toMatchObject({ pid: 1, syscall: "CapRevoke", args: { pid: 2, rules: ["A"] } });
  }
});

describe("random spawns, grants, revokes and kills", () => {
  const NAMES = ["A", "B", "C"];
  const RULES = ["*", ...NAMES, "/dev/a", "/dev/**", "Bash", "Bash(git *)", "Bash(git log *)"];
  const devices = {
    ...Object.fromEntries(NAMES.map((name) => [`/dev/${name.toLowerCase()}`, tool(name)])),
    "/dev/shell": bash(),
  };
  const CALLS = [
    ...NAMES.flatMap((name) => [
      { tool: name, path: `/dev/${name.toLowerCase()}` },
      { tool: null, path: `/dev/${name.toLowerCase()}` },
    ]),
    ...["git log -1", "git push", "ls"].map((subject) => ({ tool: "Bash", path: "/dev/shell", subject })),
  ];
  const FACTS: Facts = {
    tools: [
      ...NAMES.map((name) => ({ name, path: `/dev/${name.toLowerCase()}` })),
      { name: "Bash", path: "/dev/shell", subject: "command" },
    ],
    devices: Object.keys(devices),
  };

  test.each([1, 2, 3, 4, 5, 6])(
    "no child holds more than its parent, in memory and on disk (seed %p)",
    async (seed) => {
      await using h = new KernelHarness({ model: silent, devices, limits: { live_children: 50 } });
      const random = seeded(seed);
      const upTo = (end: number): number => Math.floor(random() * end);
      const some = (): string[] =>
        Array.from({ length: 1 + upTo(2) }, () => RULES[upTo(RULES.length)] ?? "*");
      const live: Process[] = [await idle(h)];
      const { capabilities } = h.kernel;
      for (let turn = 0; turn < 60; turn++) {
        const proc = live[upTo(live.length)];
        if (!proc) break;
        const by = [undefined, ...live][upTo(live.length + 1)];
        const what = random();
        // Refusals are part of it.
        if (what < 0.25 && live.length < 10) {
          const parentPid = proc.spec.depth < 4 ? proc.pid : undefined;
          live.push(await idle(h, { allow: some(), deny: random() < 0.3 ? some() : [], parentPid }));
        } else if (what < 0.6) await codeOf(capabilities.grant(proc.pid, some(), by));
        else if (what < 0.85) await codeOf(capabilities.revoke(proc.pid, some(), by));
        else if (live.length > 3) {
          h.kernel.processes.kill(proc.pid, SIGKILL);
          await h.kernel.processes.wait(proc.pid);
          live.splice(live.indexOf(proc), 1);
        }
        for (const one of live) {
          const parent = live.find(({ pid }) => pid === one.family.ppid);
          const record = (await h.runs.info(one.uuid))?.permissions;
          expect(record).toEqual(one.permissions.record());
          const restored = Permissions.from(record ?? { allow: [], deny: [] }, FACTS);
          for (const call of CALLS) {
            const covered = one.permissions.covers(call);
            expect(restored.covers(call)).toBe(covered);
            if (covered && parent) expect(parent.permissions.covers(call)).toBe(true);
          }
        }
      }
      expect(h.warnings).toEqual([]);
    },
  );
});
