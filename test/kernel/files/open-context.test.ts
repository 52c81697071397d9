import { expect, test } from "bun:test";
import { definePlugin, type OpenContext } from "../../../src/plugin/index.ts";
import { calls, KernelHarness, says, script } from "../../support/kernel.ts";

test("a driver that needs the history reads the runs' records, its own too", async () => {
  const found: unknown[] = [];
  const look = async ({ history, process }: OpenContext): Promise<string> => {
    const [self] = (await history?.runs({ uuid: process.uuid, limit: 1 })) ?? [];
    found.push(self?.intent, self?.ended_at_ms, (await history?.steps(process.uuid, 0, 9))?.length);
    return "looked";
  };
  const { devices } = definePlugin({
    name: "look",
    needs: ["history"],
    devices: {
      "/dev/look": {
        tools: [{ name: "Look", description: "Looks at the runs", input: { type: "object" } }],
        factory: (_subpath, _flags, context) => {
          let result = "";
          return {
            write: async () => {
              result = await look(context);
            },
            read: async () => {
              const all = result;
              result = "";
              return all;
            },
            close: async () => {},
            stat: async () => ({ name: "look", size: 0, isDevice: true, devicePath: "/dev/look" }),
          };
        },
      },
    },
  });
  await using h = new KernelHarness({
    model: script(calls(["Look", {}]), calls(["Look", {}]), says("done")),
    devices,
    needs: { "/dev/look": ["history"] },
  });
  await h.run("go and look");
  expect(found).toEqual(["go and look", null, 0, "go and look", null, 1]);
});
