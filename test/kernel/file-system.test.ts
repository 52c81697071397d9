import { describe, expect, test } from "bun:test";
import { type Device, type FileStat, O_RDONLY, O_WRONLY, type VFSFile } from "../../src/plugin/index.ts";
import { codeOf } from "../support/failure.ts";
import { FakeClock, passing } from "../support/fake-clock.ts";
import { idle } from "../support/idle.ts";
import { KernelHarness, says, script } from "../support/kernel.ts";

const silent = script(says("never asked"));
const STAT: FileStat = { name: "x", size: 7, isDevice: true, devicePath: "/dev/x", colour: "blue" };

/** A device that counts what is open of it, and whose parts can be replaced. */
class Counting {
  open = 0;
  readonly device: Device;

  constructor(parts: { factory?: () => Promise<void>; stat?: VFSFile["stat"] } = {}) {
    const { factory = async () => {}, stat = async () => STAT } = parts;
    this.device = {
      factory: async () => {
        await factory();
        this.open++;
        return {
          stat,
          write: async () => {},
          read: async () => "",
          close: async () => {
            this.open--;
          },
        };
      },
    };
  }
}

const never = (): Promise<never> => new Promise(() => {});

test.each([
  [O_RDONLY, "write"],
  [O_WRONLY, "read"],
] as const)("a file that is opened with %i refuses to %s, for every driver", async (flags, call) => {
  await using h = new KernelHarness({ model: silent, devices: { "/dev/x": new Counting().device } });
  const proc = await idle(h);
  const { files } = h.kernel;
  const fd = await files.open(proc, "/dev/x", flags);
  const made = () => (call === "write" ? files.write(proc, fd, "x") : files.read(proc, fd, 10));
  expect(await codeOf(made)).toBe("PERMISSION");
});

describe("Stat", () => {
  test("returns the driver's answer, leaves nothing open, and is recorded", async () => {
    const counting = new Counting();
    await using h = new KernelHarness({ model: silent, devices: { "/dev/x": counting.device } });
    const proc = await idle(h);
    const trace = h.kernel.attachDebug(proc.pid);
    expect(await h.kernel.files.stat(proc, "/dev/x")).toEqual(STAT);
    trace.end();
    expect(counting.open).toBe(0);
    for await (const event of trace)
      expect(event).toMatchObject({
        syscall: "Stat",
        args: { path: "/dev/x" },
        result: { size: 7, isDevice: true },
      });
  });

  test.each([
    ["/dev/y", "NOT_FOUND"],
    ["/dev/x/below", "NOT_FOUND"],
    ["/proc/1/status", "PERMISSION"],
    ["dev/x", "INVALID"],
  ])("of %s is %s", async (path, code) => {
    await using h = new KernelHarness({ model: silent, devices: { "/dev/x": new Counting().device } });
    const proc = await idle(h, { allow: ["/dev/**"] });
    expect(await codeOf(() => h.kernel.files.stat(proc, path))).toBe(code);
  });

  test.each([
    ["its factory", { factory: never }],
    ["its answer", { stat: never }],
  ])("waits for a driver up to a tool call's deadline: %s", async (_, parts) => {
    const clock = new FakeClock();
    const counting = new Counting(parts);
    await using h = new KernelHarness({
      model: silent,
      clock,
      devices: { "/dev/x": counting.device },
      limits: { tool_timeout: 5_000 },
    });
    const proc = await idle(h);
    const code = codeOf(() => h.kernel.files.stat(proc, "/dev/x"));
    expect(await passing(clock, code)).toBe("TIMEOUT");
    expect(counting.open).toBe(0);
  });

  test("ends with its process", async () => {
    const asked = Promise.withResolvers<void>();
    const clock = new FakeClock();
    const counting = new Counting({
      stat: () => {
        asked.resolve();
        return never();
      },
    });
    await using h = new KernelHarness({ model: silent, clock, devices: { "/dev/x": counting.device } });
    const proc = await idle(h);
    const code = codeOf(() => h.kernel.files.stat(proc, "/dev/x"));
    await asked.promise;
    await h.kernel.processes.kill(proc.pid, 2);
    expect(await passing(clock, code)).toBe("CANCELLED");
    expect(counting.open).toBe(0);
  });
});
