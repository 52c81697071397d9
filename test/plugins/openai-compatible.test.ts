import { expect, test } from "bun:test";
import compatible from "../../plugins/openai-compatible.ts";
import { describePlugin } from "../support/conformance/plugin.ts";
import { ask, failureOf, openModel } from "../support/model-server/device.ts";
import { modelCases } from "../support/model-server/plugin-cases.ts";
import { ModelServer } from "../support/model-server/server.ts";

const DEVICE = "/dev/llm/openai-compatible";

describePlugin(
  "openai-compatible",
  () => import("../../plugins/openai-compatible.ts"),
  modelCases([DEVICE], "/v1"),
);

test("what is sent is what the entry says, without a key where there is none", async () => {
  await using server = await ModelServer.start([{ text: "ok" }, { text: "ok" }]);
  for (const key of [null, "sk-or"]) {
    const entry = { base_url: server.openaiUrl, extra: { provider: { sort: "price" } }, key };
    const file = await openModel(compatible, DEVICE, entry);
    expect((await ask(file, { stream: true, max_output: 500 })).answer.content).toBe("ok");
    await file.close();
  }
  const [without, withKey] = server.requests;
  expect(without?.headers.get("authorization")).toBeNull();
  expect(withKey?.headers.get("authorization")).toBe("Bearer sk-or");
  expect(without?.body).toMatchObject({
    model: "scripted",
    max_tokens: 500,
    provider: { sort: "price" },
    stream_options: { include_usage: true },
  });
});

test("OpenRouter's error in the middle of a stream is one, and its account's end is told", async () => {
  await using server = await ModelServer.start(() => ({
    fault: {
      kind: "status",
      status: 402,
      body: { error: { code: 402, message: "Insufficient credits", metadata: { provider_name: "x" } } },
    },
  }));
  const file = await openModel(compatible, DEVICE, { base_url: server.openaiUrl });
  const error = await failureOf(ask(file, { stream: true }));
  expect(error).toMatchObject({ code: "EXHAUSTED", retryable: false });
  expect(error.message).toContain("Insufficient credits");
});

test("without an address it cannot be opened, and no model is found for it", async () => {
  const error = await failureOf(openModel(compatible, DEVICE, {}));
  expect(error).toMatchObject({ code: "INVALID" });
  expect(error.message).toContain("OPENAI_BASE_URL");
  expect(await compatible.devices[DEVICE].provider.detect()).toBeNull();
});
