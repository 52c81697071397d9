import { expect, test } from "bun:test";
import type { SpawnOpts } from "../../../src/kernel/types.ts";
import type { OpenContext, Plugin } from "../../../src/plugin/index.ts";
import { FakeClock, settled } from "../../support/fake-clock.ts";
import { calls, KernelHarness, says, script, toolDevice } from "../../support/kernel.ts";

/** A run that changes two files in one step and none in the next, beside a plugin `test` with this hook. */
function harness(hook: NonNullable<Plugin["filesChanged"]>, clock?: FakeClock) {
  const h = new KernelHarness({
    devices: {
      "/dev/change": toolDevice("Change", ({ file }, _signal, context) => {
        context.changed(String(file));
        return "changed";
      }),
    },
    model: script(calls(["Change", { file: "/a" }], ["Change", { file: "/b" }]), says("done")),
    clock,
  });
  const { devices } = h.opts();
  const source = { plugin: "test", layer: "stock" as const, needs: [], config: {}, filesChanged: hook };
  const opts: Partial<SpawnOpts> = { devices: { ...devices, hooks: [source] } };
  return { h, run: () => h.run("go", opts) };
}

test("a plugin's text about the files of a step reaches the model with the next step, once", async () => {
  const asked: { files: readonly string[]; context: OpenContext }[] = [];
  const { h, run } = harness(async (files, context) => {
    asked.push({ files, context });
    return "two problems";
  });
  await using _ = h;
  await run();
  expect(asked.map(({ files }) => files)).toEqual([["/a", "/b"]]);
  expect(asked[0]?.context.call).toBeUndefined();
  const texts = h.requests.map(({ messages }) => JSON.stringify(messages).split("two problems").length - 1);
  expect(texts).toEqual([0, 1]);
  h.leases -= 1;
});

test("a hook that fails, or has no end, does not stop the run", async () => {
  const failing = harness(async () => {
    throw new Error("broken");
  });
  await using _ = failing.h;
  expect((await failing.run()).info.exit_code).toBe(0);
  failing.h.leases -= 1;

  const clock = new FakeClock();
  const begun = Promise.withResolvers<void>();
  const endless = harness(() => {
    begun.resolve();
    return new Promise(() => undefined);
  }, clock);
  await using __ = endless.h;
  const ended = endless.run();
  await begun.promise;
  await settled();
  clock.advance(5_000);
  expect((await ended).info.exit_code).toBe(0);
  endless.h.leases -= 1;
});
