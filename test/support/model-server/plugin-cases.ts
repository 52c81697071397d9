import { expect } from "bun:test";
import type { Code } from "../../../src/plugin/index.ts";
import type { PluginCases } from "../conformance/plugin.ts";
import { request } from "./device.ts";
import { ModelServer } from "./server.ts";

/** The contract's cases for a driver that speaks HTTP, against a scripted server. */
export function modelCases(devices: string[], urlSuffix: string): PluginCases {
  const [device = ""] = devices;
  let server: ModelServer | undefined;
  return {
    async setup() {
      server = await ModelServer.start((asked) => {
        if (asked.text.includes("please hang")) return { fault: { kind: "hang" } };
        if (asked.text.includes("please refuse")) return { fault: { kind: "status", status: 401 } };
        return { text: "hello from the model" };
      });
      return { config: { base_url: server.url + urlSuffix }, secret: async () => "test-key" };
    },
    async teardown() {
      await server?.stop();
    },
    ...modelOperations(device, { asked: "please refuse", error: "PERMISSION" }),
  };
}

/** The cases of a device whose model says hello, fails for one prompt, and never answers "please hang". */
export function modelOperations(
  device: string,
  { asked, error }: { asked: string; error: Code },
): Pick<PluginCases, "operations" | "endless"> {
  const ask = (prompt: string) => ({ ...request, messages: [{ role: "user", content: prompt }] });
  return {
    operations: [
      {
        title: "answers in one piece",
        device,
        input: ask("hi"),
        answer: (answer) => expect(JSON.parse(answer).content).toBe("hello from the model"),
      },
      {
        title: "answers in events",
        device,
        input: { ...ask("hi"), stream: true },
        answer: (answer) => expect(answer).toEndWith('{"type":"stop","reason":"end_turn"}'),
      },
      { title: `fails when the model does: "${asked}"`, device, input: ask(asked), error },
    ],
    endless: { device, input: ask("please hang") },
  };
}
