import { expect, test } from "bun:test";
import { SyscallError } from "../../src/plugin/index.ts";
import { KernelHarness, says, script } from "../support/kernel.ts";

test("a failed spawn is in its parent's trace, or in PID 0's", async () => {
  const gone = Promise.withResolvers<void>();
  await using computer = new KernelHarness({
    model: async () => {
      await gone.promise;
      return says("done");
    },
  });
  const { kernel } = computer;
  const deny = ["NoSuchTool"];
  await expect(computer.spawn("unknown", { deny })).rejects.toMatchObject({ code: "INVALID" });
  expect(kernel.debug.ofPid0.at(-1)).toMatchObject({ pid: 0, syscall: "Spawn", error_code: "INVALID" });

  const parentPid = await computer.spawn("the parent");
  const trace = kernel.attachDebug(parentPid);
  await expect(computer.spawn("its child", { parentPid, deny })).rejects.toMatchObject({ code: "INVALID" });
  for await (const event of trace) {
    expect(event).toMatchObject({ pid: parentPid, syscall: "Spawn", error_code: "INVALID" });
    break;
  }
  gone.resolve();
  await kernel.processes.wait(parentPid);
});

test("the runtime's own abort reasons have a code", async () => {
  await using computer = new KernelHarness({ model: script(() => says("done")) });
  const { kernel } = computer;
  const failure = async (reason: unknown): Promise<string> => {
    const thrown = await kernel.debug
      .callFor(undefined, undefined, "Wait", {}, () => Promise.reject(reason))
      .catch((error: unknown) => error);
    if (!(thrown instanceof SyscallError)) throw new Error("expected a SyscallError");
    return thrown.code;
  };
  expect(await failure(AbortSignal.abort().reason)).toBe("CANCELLED");
  const timeout = AbortSignal.timeout(0);
  await new Promise((resolve) => timeout.addEventListener("abort", resolve, { once: true }));
  expect(await failure(timeout.reason)).toBe("TIMEOUT");
  expect(await failure(new Error("TimeoutError"))).toBe("INTERNAL");
});
