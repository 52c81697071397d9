import { expect } from "bun:test";

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
    operations: [
      {
        title: "answers in one piece",
        device,
        input: request,
        answer: (answer) => expect(JSON.parse(answer).content).toBe("hello from the model"),
      },
      {
        title: "answers in events",
        device,
        input: { ...request, stream: true },
        answer: (answer) => expect(answer).toEndWith('{"type":"stop","reason":"end_turn"}'),
      },
      {
        title: "says that a key was refused",
        device,
        input: { ...request, intent: "", messages: [{ role: "user", content: "please refuse" }] },
        error: "PERMISSION",
      },
    ],
    endless: { device, input: { ...request, messages: [{ role: "user", content: "please hang" }] } },
  };
}
