import { describe, expect, test } from "bun:test";
import { connect } from "node:net";
import { join } from "node:path";
import { Folder } from "../folder.ts";
import { ModelServer } from "./server.ts";

const chat = (server: ModelServer, body: object = {}, headers: Record<string, string> = {}) =>
  fetch(`${server.openaiUrl}/chat/completions`, {
    method: "POST",
    headers,
    body: JSON.stringify({ model: "m", messages: [], ...body }),
  });
const json = async (response: Response) => JSON.parse(await response.text());
const said = async (response: Promise<Response>) => (await json(await response)).choices?.[0].message.content;

describe("the scripted model server", () => {
  test("gives the n-th request the n-th turn, and fails without one", async () => {
    await using server = await ModelServer.start([{ text: "one" }, { text: "two" }]);
    expect([await said(chat(server)), await said(chat(server))]).toEqual(["one", "two"]);
    const third = await chat(server);
    expect(third.status).toBe(400);
    expect(await third.text()).toContain("has 2 turns and was asked for turn 3");
  });

  test("begins again when it loops", async () => {
    await using server = await ModelServer.start({ turns: [{ text: "one" }, { text: "two" }], loop: true });
    const texts = [];
    for (let n = 0; n < 5; n++) texts.push(await said(chat(server)));
    expect(texts).toEqual(["one", "two", "one", "two", "one"]);
  });

  test("can follow each conversation, however many there are at once", async () => {
    const turns = [{ text: "first" }, { text: "second" }];
    await using server = await ModelServer.start({ turns, position: "conversation" });
    const begun = { messages: [{ role: "user" }, { role: "assistant" }] };
    const texts = await Promise.all([chat(server), chat(server, begun), chat(server)].map(said));
    expect(texts).toEqual(["first", "second", "first"]);
  });

  test("can hold an answer back until the test releases it", async () => {
    const open = Promise.withResolvers<void>();
    await using server = await ModelServer.start(async ({ index }) => {
      await open.promise;
      return { text: `answer ${index}` };
    });
    const answer = said(chat(server));
    await server.arrived(1);
    open.resolve();
    expect(await answer).toBe("answer 0");
    expect(await server.requests[0]?.closed).toBe("answered");
  });

  test("refuses another key and another model", async () => {
    await using server = await ModelServer.start({ turns: [], key: "right", models: ["known"] });
    expect((await chat(server)).status).toBe(401);
    expect((await chat(server, {}, { authorization: "Bearer right" })).status).toBe(404);
    const models = await json(
      await fetch(`${server.openaiUrl}/models`, { headers: { authorization: "Bearer right" } }),
    );
    expect(models.data).toEqual([{ id: "known", object: "model" }]);
  });

  test("is asked nothing by a client that is killed in the middle of its request", async () => {
    await using server = await ModelServer.start([{ text: "one" }]);
    const { hostname, port } = new URL(server.url);
    const client = connect(Number(port), hostname);
    const closed = new Promise<void>((resolve) => client.resume().once("close", () => resolve()));
    client.end('POST /v1/chat/completions HTTP/1.1\r\nhost: it\r\ncontent-length: 1000\r\n\r\n{"model"');
    await closed;
    expect(await said(chat(server))).toBe("one");
    expect(server.requests).toHaveLength(1);
  });

  test("runs as a program that prints its address and stops on TERM", async () => {
    using folder = new Folder();
    const script = folder.put("script.json", JSON.stringify([{ text: "hello" }]));
    const program = Bun.spawn([process.execPath, join(import.meta.dir, "main.ts"), script], {
      stdout: "pipe",
    });
    try {
      const { value } = await program.stdout.getReader().read();
      const url = new TextDecoder().decode(value).trim();
      const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", body: "{}" });
      expect((await json(answer)).choices[0].message.content).toBe("hello");
    } finally {
      program.kill("SIGTERM");
    }
    expect(await program.exited).toBe(0);
  });
});
