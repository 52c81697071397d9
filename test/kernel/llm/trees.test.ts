import { expect, test } from "bun:test";
import { KernelHarness, says } from "../../support/kernel.ts";
import { until } from "../../support/until.ts";

test("two runs with many children each: their trees take turns", async () => {
  const asked: string[] = [];
  const answers = new Map<string, () => void>();
  await using h = new KernelHarness({
    model: async ({ intent }) => {
      asked.push(intent);
      await new Promise<void>((resolve) => answers.set(intent, resolve));
      return says("done");
    },
  });
  // Two of the places are kept to the end, by those whose end would end what is below them.
  const provider = { ...h.opts().provider, concurrency: 3 };
  h.leases--;
  const parent = await h.spawn("parent", { provider });
  const child = await h.spawn("child", { provider, parentPid: parent });
  const pids = [parent, child];
  for (const intent of ["a", "b", "c", "d"]) {
    pids.push(await h.spawn(intent, { provider, parentPid: intent < "c" ? child : parent }));
  }
  pids.push(await h.spawn("alone", { provider }), await h.spawn("alone too", { provider }));
  const ends = pids.map((pid) => h.follow(pid));
  await until(() => h.kernel.modelQueues()[0]?.waiting === 5);
  expect(h.kernel.modelQueues()).toMatchObject([{ provider: "scripted", running: 3, trees: 3 }]);
  const order = ["a", "b", "alone", "alone too", "c", "d"];
  for (const next of [...order, "child", "parent"]) {
    await until(() => answers.has(next));
    answers.get(next)?.();
  }
  await Promise.all(ends);
  expect(asked).toEqual(["parent", "child", ...order]);
});
