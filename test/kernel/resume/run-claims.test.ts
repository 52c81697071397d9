import { expect, test } from "bun:test";
import { RunClaims } from "../../../src/kernel/resume/suspended-runs.ts";
import type { SyscallError } from "../../../src/plugin/index.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { KernelHarness, says } from "../../support/kernel.ts";

/** Two kernels that share one folder of records, each with its claims, and a run that has ended. */
async function twoKernels(h: KernelHarness) {
  const clock = new FakeClock();
  const claims = (): RunClaims => new RunClaims({ clock, runs: () => h.runs });
  const { info } = await h.follow(await h.spawn("go"));
  return { clock, uuid: info.uuid, here: claims(), there: claims() };
}

const done = (): KernelHarness => new KernelHarness({ model: () => says("done") });

function refusal(taking: Promise<unknown>): Promise<Partial<SyscallError>> {
  return taking.then(
    () => ({}),
    (thrown: SyscallError) => thrown,
  );
}

test.each(["here", "there"] as const)(
  "a resume waits for the kernel that writes the record %s",
  async (where) => {
    await using h = done();
    const { clock, uuid, ...kernels } = await twoKernels(h);
    const writing = await kernels[where].take(uuid, h.dataDir, "record");
    let taken = false;
    const taking = kernels.here.take(uuid, h.dataDir, "resume").then((claim) => {
      taken = true;
      return claim;
    });
    await clock.advance(1_000);
    expect(taken).toBe(false);
    writing.release();
    await clock.advance(1_000);
    (await taking).release();
    expect(clock.pending).toBe(0);
  },
);

test("a resumed run refuses the next claim at once, and after two seconds in another kernel", async () => {
  await using h = done();
  const { clock, uuid, here, there } = await twoKernels(h);
  const going = await here.take(uuid, h.dataDir, "resume");
  expect((await refusal(here.take(uuid, h.dataDir, "resume"))).code).toBe("INVALID");
  const refused = refusal(there.take(uuid, h.dataDir, "record"));
  await clock.advance(2_000);
  expect((await refused).code).toBe("INVALID");
  going.release();
  (await there.take(uuid, h.dataDir, "resume")).release();
  expect(clock.pending).toBe(0);
});

test("of many waiting claims, one succeeds", async () => {
  await using h = done();
  const { clock, uuid, here, there } = await twoKernels(h);
  const writing = await here.take(uuid, h.dataDir, "record");
  const waiting = [here, there, here, there].map((claims) => refusal(claims.take(uuid, h.dataDir, "resume")));
  await clock.advance(100);
  writing.release();
  await clock.advance(2_000);
  const codes = (await Promise.all(waiting)).map(({ code }) => code ?? "taken").sort();
  expect(codes).toEqual(["INVALID", "INVALID", "INVALID", "taken"]);
});
