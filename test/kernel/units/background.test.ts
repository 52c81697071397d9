import { expect, test } from "bun:test";
import daemons from "../../../plugins/daemons.ts";
import shell from "../../../plugins/shell.ts";
import type { Device, LLMRequest } from "../../../src/plugin/index.ts";
import { calls, KernelHarness, type Model, says, script } from "../../support/kernel.ts";

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

const background = (command: string) => ["Bash", { command, run_in_background: true }] as [string, object] as never;

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
