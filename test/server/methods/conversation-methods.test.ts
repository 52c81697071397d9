import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Client } from "../../../src/client/client.ts";
import { serve, TempDir } from "../support/fixture.ts";
import { refusal } from "../support/refusal.ts";

/** The smallest PNG: one pixel. */
const PIXEL = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==",
  "base64",
);

describe("send_message", () => {
  test("brings the text, its attachments and when it is read to a live run", async () => {
    await using server = await serve("memory");
    using dir = new TempDir();
    const { pid, uuid } = await server.detached();
    const notes = join(dir.path, "notes.txt");
    const image = join(dir.path, "pixel.png");
    writeFileSync(notes, "use tabs");
    writeFileSync(image, PIXEL);
    const client = await server.client();
    const files = [notes, image];
    expect(await client.request("send_message", { uuid, text: "look", files, when: "after_answer" })).toEqual(
      { pid, uuid, seq: 1 },
    );
    const [sent] = server.kernel.sent.get(pid) ?? [];
    expect(sent).toMatchObject({
      when: "after_answer",
      images: [{ media_type: "image/png", width: 1, height: 1 }],
    });
    expect(sent?.text).toStartWith("look\n\n");
    expect(sent?.text).toContain("use tabs");
    expect(await client.request("take_back_message", { pid, seq: 1 })).toMatchObject({ seq: 1, uuid });
    expect(await refusal(client.request("take_back_message", { pid, seq: 9 }))).toMatchObject({
      code: "NOT_FOUND",
    });
  });

  test("is refused for a folder, for no text, and for a run that does not wait for a message", async () => {
    await using server = await serve("memory");
    using dir = new TempDir();
    const { uuid } = await server.detached();
    const client = await server.client();
    const files = [dir.path];
    for (const [asked, message] of [
      [client.request("send_message", { uuid, text: "look", files }), "folder"],
      [client.request("send_message", { uuid, text: "" }), "text"],
    ] as const) {
      expect(await refusal(asked)).toMatchObject({
        code: "INVALID",
        message: expect.stringContaining(message),
      });
    }
    await client.request("suspend", { uuid });
    expect(await refusal(client.request("send_message", { uuid, text: "hi" }))).toMatchObject({
      code: "INVALID",
      message: expect.stringContaining(`rnix resume ${uuid}`),
    });
  });
});

test("a conversation can't be begun without words, unless it is a chat", async () => {
  await using server = await serve("memory");
  const client = await server.client();
  const request = { intent: "", cwd: "/w", env: {}, detach: true };
  expect(await refusal(client.open("spawn", request))).toMatchObject({ code: "INVALID" });
  expect((await (await server.client()).open("spawn", { ...request, chat: true })).answer.pid).toBe(1);
});

describe("from inside a run", () => {
  const REQUESTS: [string, (client: Client, uuid: string) => Promise<unknown>][] = [
    ["send_message", (client, uuid) => client.request("send_message", { uuid, text: "hi" })],
    ["take_back_message", (client, uuid) => client.request("take_back_message", { uuid, seq: 1 })],
    ["interrupt", (client, uuid) => client.request("interrupt", { uuid })],
    ["end_chat", (client, uuid) => client.request("end_chat", { uuid })],
    ["set_model", (client, uuid) => client.request("set_model", { uuid, model: "m2" })],
    ["set_mode", (client, uuid) => client.request("set_mode", { uuid, mode: "off" })],
  ];

  test.each(REQUESTS)("%s of another run is refused", async (_, ask) => {
    await using server = await serve("memory");
    const own = await server.detached();
    const other = await server.detached();
    const inside = await server.client(own.uuid);
    expect(await refusal(ask(inside, other.uuid))).toMatchObject({ code: "PERMISSION" });
  });

  test("a run can't speak to itself as its user, nor interrupt itself or change its model or mode", async () => {
    await using server = await serve("memory");
    const { uuid } = await server.detached();
    const inside = await server.client(uuid);
    for (const asked of [
      inside.request("send_message", { uuid, text: "I am the user" }),
      inside.request("interrupt", { uuid }),
      inside.request("set_model", { uuid, model: "m2" }),
      inside.request("set_mode", { uuid, mode: "off" }),
      inside.request("allow", { uuid, tools: ["Bash"], unasked: true }),
    ]) {
      expect(await refusal(asked)).toMatchObject({ code: "PERMISSION" });
    }
    expect(server.kernel.sent.size).toBe(0);
  });
});
