import { describe, expect, test } from "bun:test";
import { z } from "zod";
import type { RecordedRequest } from "../support/model-server/server.ts";
import { until } from "../support/until.ts";
import { ChatClient, ChatMachine } from "./support/chat-client.ts";
import { processesOf } from "./support/leftovers.ts";
import { bash, says } from "./support/scenes.ts";
import { recordOf } from "./support/verdict.ts";

const Body = z.object({
  model: z.string(),
  messages: z.array(
    z.object({
      role: z.string(),
      content: z.union([z.string(), z.array(z.object({ text: z.string().optional() }))]).nullish(),
    }),
  ),
});

/** The user's words in a request, in order. */
function heard(request: RecordedRequest | undefined): string[] {
  const { messages } = Body.parse(request?.body);
  return messages.flatMap(({ role, content }) => {
    if (role !== "user") return [];
    return typeof content === "string" ? [content] : [(content ?? []).map(({ text }) => text).join("")];
  });
}

/** Repeats the user's last words. */
function parrot(request: RecordedRequest) {
  return says(`re: ${heard(request).at(-1)}`);
}

describe("a chat over the wire", () => {
  test("has several turns, is listed with what it waits for, and ends with end_chat", async () => {
    await using machine = new ChatMachine();
    const { client } = machine;
    const model = await machine.begin(parrot);
    const { pid, uuid } = await machine.chat();
    for (const [turn, text] of ["one", "two"].entries()) {
      expect(await client.ask("send_message", { uuid, text })).toEqual({ pid, uuid, seq: turn + 2 });
      await client.waits(turn + 2);
    }
    expect(model.requests.map(heard).at(-1)).toEqual(["hello", "one", "two"]);
    const listed = await machine.run(["ps", "--json"]);
    expect(JSON.parse(listed.stdout)).toMatchObject([
      { uuid, state: "running", chat: true, doing: { kind: "input", text: "waiting for your message" } },
    ]);
    expect(await client.ask("end_chat", { uuid })).toEqual({ pid, uuid, ended: true });
    const { payload } = await client.has(({ type }) => type === "complete", "complete");
    expect(payload).toMatchObject({ exit_code: 0, exit_reason: "completed", result: "re: two", steps: 3 });
    const refused = client.ask("send_message", { uuid, text: "more" });
    expect(await refused.then(() => "", String)).toContain(`rnix resume ${uuid}`);
  });

  test("takes a message with a key once, though it is sent again: at once, later, after a kill -9, and at its end", async () => {
    await using machine = new ChatMachine();
    const { client } = machine;
    const model = await machine.begin(parrot);
    const { pid, uuid } = await machine.chat();
    const send = (to: ChatClient, key: string, text = key) => to.ask("send_message", { uuid, text, key });
    using other = new ChatClient(machine);
    const first = await Promise.all([send(client, "one"), send(other, "one")]);
    expect(first).toEqual([
      { pid, uuid, seq: 2 },
      { pid, uuid, seq: 2 },
    ]);
    await client.waits(2);
    const refusal = (sent: Promise<unknown>) => sent.then(() => "taken", String);
    expect(await refusal(send(client, "one", "other words"))).toContain("another message came with this key");
    expect(await refusal(send(client, "", "x"))).toContain("key");
    expect(await refusal(send(client, "k".repeat(129), "x"))).toContain("key");
    machine.killDaemon();
    await machine.daemon();
    using next = new ChatClient(machine);
    expect(await refusal(send(next, "one", "other words"))).toContain("another message came with this key");
    expect(await send(next, "one")).toMatchObject({ seq: 2 });
    const { seq } = await send(next, "two");
    expect(seq).toBeGreaterThan(2);
    await until(() => recordOf(machine, uuid).result === "re: two", "its answer");
    await machine.ok(["suspend", uuid]);
    expect([await send(next, "one"), await send(next, "two")]).toMatchObject([{ seq: 2 }, { seq }]);
    expect(await refusal(send(next, "two", "other words"))).toContain("another message came with this key");
    expect(model.requests.map(heard).at(-1)).toEqual(["hello", "one", "two"]);
    // The answer to a resume may be lost, too.
    expect(await refusal(next.ask("resume", { uuid, key: "three" }))).toContain("key needs input");
    await next.ask("resume", { uuid, input: "three", key: "three" });
    await until(() => recordOf(machine, uuid).result === "re: three", "its answer");
    expect((await send(next, "three")).seq).toBeGreaterThan(Number(seq));
    await next.ask("end_chat", { uuid });
    expect(model.requests.map(heard).at(-1)).toEqual(["hello", "one", "two", "three"]);
  });

  test("is steered while a command runs; a message can be taken back; two clients see the same", async () => {
    await using machine = new ChatMachine();
    const { client } = machine;
    using other = new ChatClient(machine);
    const model = await machine.model((request) =>
      request.assistantMessages === 0
        ? bash("touch begun; until [ -e go ]; do sleep 0.02; done")
        : parrot(request),
    );
    await machine.daemon();
    const { uuid } = await client.follow("spawn", { intent: "work", chat: true });
    await until(() => machine.has("begun"), "the command runs");
    const wrong = await client.ask("send_message", { uuid, text: "wrong" });
    await client.ask("send_message", { uuid, text: "use tabs" });
    await client.ask("send_message", { uuid, text: "then this", when: "after_answer" });
    await other.follow("attach", { uuid });
    expect(await other.ask("take_back_message", { uuid, seq: wrong.seq })).toMatchObject({ text: "wrong" });
    machine.write("go", "");
    await client.waits(1);
    expect(model.requests.map((request) => heard(request).at(-1))).toEqual(["work", "use tabs", "then this"]);
    const late = client.ask("take_back_message", { uuid, seq: wrong.seq });
    expect(await late.then(() => "", String)).toContain("NOT_FOUND");
    const seen = ({ events }: ChatClient) =>
      events.flatMap(({ payload: { event, state, text } }) =>
        event === "message" ? [`${state} ${text}`] : [],
      );
    expect(seen(client)).toEqual([
      ...["queued work", "read work", "queued wrong", "queued use tabs", "queued then this"],
      ...["taken_back wrong", "read use tabs", "read then this"],
    ]);
    // The message of the step under way is part of the state that it gets first.
    expect(seen(other)).toEqual([
      ...["read work", "queued wrong", "queued use tabs", "queued then this"],
      ...["taken_back wrong", "read use tabs", "read then this"],
    ]);
    await client.ask("end_chat", { uuid });
  });

  test("an interrupt keeps the beginning of an answer, and really ends a command", async () => {
    await using machine = new ChatMachine();
    const { client } = machine;
    let requests = 0;
    const model = await machine.model((request) => {
      requests++;
      if (requests === 1) return { text: "The answer is forty-two", fault: { kind: "hang_midway" } };
      if (requests === 2) return bash("echo so far; touch begun; sleep 60");
      return parrot(request);
    });
    await machine.daemon();
    const { uuid } = await client.follow("spawn", { intent: "what?", chat: true });
    await client.has(({ type }) => type === "text_delta", "text");
    expect(await client.ask("interrupt", { uuid })).toMatchObject({ interrupted: "model", text_seen: true });
    await client.waits(1);
    await client.ask("send_message", { uuid, text: "try it" });
    await until(() => machine.has("begun"), "the command runs");
    expect(await client.ask("interrupt", { uuid })).toMatchObject({ interrupted: "tools" });
    expect(processesOf(machine.root).filter(({ command }) => command.includes("sleep"))).toEqual([]);
    expect(await client.ask("interrupt", { uuid })).toMatchObject({ interrupted: null });
    await client.ask("send_message", { uuid, text: "enough" });
    await client.waits(3);
    expect(JSON.stringify(model.last.body)).toContain("so far");
    await client.ask("end_chat", { uuid });
    expect(recordOf(machine, uuid)).toMatchObject({ exit_code: 0, result: "re: enough" });
  });
});

test("set_model: a live chat and a suspended one continue with another model and provider", async () => {
  await using machine = new ChatMachine();
  const { client } = machine;
  const model = await machine.begin(parrot);
  const { uuid } = await machine.chat();
  const set = (payload: object) => client.ask("set_model", { uuid, ...payload });
  expect(await set({ model: "bigger" })).toMatchObject({
    provider: "openai",
    model: "bigger",
    applied: true,
  });
  await client.ask("send_message", { uuid, text: "one" });
  await client.waits(3);
  expect(await set({ provider: "nobody" }).then(() => "", String)).toContain("nobody");
  await machine.ok(["suspend", uuid]);
  expect(await set({ provider: "anthropic", model: "other" })).toMatchObject({ applied: true });
  await client.ask("send_message", { uuid, text: "two" });
  await until(() => recordOf(machine, uuid).result === "re: two", "its answer");
  expect(model.requests.map(({ path, body }) => [path, Body.parse(body).model])).toEqual([
    ["/v1/chat/completions", "m"],
    ["/v1/chat/completions", "bigger"],
    ["/v1/messages", "other"],
  ]);
  await client.ask("end_chat", { uuid });
  expect((await machine.run(["log", uuid])).stdout).toContain("chose anthropic/other");
});

describe("a chat that no process holds", () => {
  test("kill -9 while it waits, with a queued message, and in the middle of a turn: a message resumes it", async () => {
    await using machine = new ChatMachine();
    const { client } = machine;
    const model = await machine.model((request) =>
      heard(request).at(-1)?.includes("slowly") && request.assistantMessages < 3
        ? bash("echo ran >> ran; touch begun; sleep 60")
        : parrot(request),
    );
    await machine.daemon();
    const { uuid } = await machine.chat();
    machine.killDaemon();
    await machine.daemon();
    await client.ask("send_message", { uuid, text: "again" });
    await until(() => recordOf(machine, uuid).result === "re: again", "its answer");
    await client.follow("attach", { uuid });
    await client.ask("send_message", { uuid, text: "slowly" });
    await until(() => machine.has("begun"), "the command runs");
    await client.ask("send_message", { uuid, text: "queued" });
    machine.killDaemon();
    await machine.daemon();
    await client.ask("send_message", { uuid, text: "new" });
    await until(() => recordOf(machine, uuid).result?.includes("new") === true, "its answer");
    expect(heard(model.requests.at(-1))).toEqual(["hello", "again", "slowly", "queued\n\nnew"]);
    expect(machine.read("ran")).toBe("ran\n");
    await client.ask("end_chat", { uuid });
  });

  test("is suspended by a stop of the daemon and by rnix suspend; the next message resumes the same run", async () => {
    await using machine = new ChatMachine();
    const { client } = machine;
    const model = await machine.begin(parrot);
    const { uuid, pid } = await machine.chat();
    await machine.ok(["daemon", "stop"]);
    expect(recordOf(machine, uuid)).toMatchObject({
      state: "suspended",
      suspended: { wake: { on: "message" }, cause: "stop" },
    });
    await machine.daemon();
    const second = await client.ask("send_message", { uuid, text: "still there?" });
    expect(second).toMatchObject({ uuid, seq: 2 });
    expect(second.pid).toBeGreaterThan(pid);
    await until(() => recordOf(machine, uuid).result === "re: still there?", "its answer");
    await machine.ok(["suspend", uuid]);
    // Like any run that its user has suspended.
    expect((await machine.run(["ps"])).stdout).not.toContain("hello");
    expect((await machine.run(["ps", "-a"])).stdout).toMatch(/suspended .*hello/);
    // Several at once: one of them resumes it, and each is read once.
    const sent = await Promise.all(["a", "b", "c"].map((text) => client.ask("send_message", { uuid, text })));
    expect(sent.map(({ seq }) => Number(seq)).sort()).toEqual([3, 4, 5]);
    // In the order in which they came, and in as many turns as they have found.
    const read = (): string[] =>
      heard(model.requests.at(-1))
        .slice(2)
        .flatMap((text) => text.split("\n\n"));
    await until(() => read().length === 3, "its answer");
    expect(read().sort()).toEqual(["a", "b", "c"]);
    await client.ask("end_chat", { uuid });
  });

  test("rnix resume gives it one message, prints the answer, and leaves it suspended", async () => {
    await using machine = new ChatMachine();
    const { client } = machine;
    await machine.begin(parrot);
    const { uuid } = await machine.chat();
    await machine.ok(["suspend", uuid]);
    const resumed = await machine.run(["resume", uuid, "and now?"]);
    expect(resumed).toMatchObject({ code: 75, stdout: "re: and now?\n" });
    expect(resumed.stderr).toContain("waits for a message");
    await client.ask("send_message", { uuid, text: "more" });
    await until(() => recordOf(machine, uuid).result === "re: more", "its answer");
    await client.ask("end_chat", { uuid });
  });

  test("ends truthfully by its budget, in the middle of a turn too", async () => {
    await using machine = new ChatMachine();
    const { client } = machine;
    await machine.begin(parrot);
    const { uuid } = await machine.chat({ max_steps: 2 });
    await client.ask("send_message", { uuid, text: "one" });
    await client.waits(2);
    await client.ask("send_message", { uuid, text: "two" });
    const { payload } = await client.has(({ type }) => type === "complete", "complete");
    expect(payload).toMatchObject({ exit_code: 1, exit_reason: "max_steps", steps: 2, result: "re: one" });
    const resumed = await machine.run(["resume", uuid, "--max-steps", "9"]);
    expect(resumed).toMatchObject({ code: 75 });
    expect(recordOf(machine, uuid)).toMatchObject({ state: "suspended", steps: 3 });
    expect(recordOf(machine, uuid).result).toContain("two");
  });

  test("without a client is suspended after chat_idle, and the daemon may stop", async () => {
    await using machine = new ChatMachine();
    const { client } = machine;
    machine.config({ chat_idle: "1s", daemon_idle_stop: "1s", daemon_idle_check: "100ms" });
    await machine.begin(parrot);
    const { uuid } = await machine.chat();
    client.leave();
    await until(() => recordOf(machine, uuid).state === "suspended", "it is suspended");
    await until(() => machine.daemonPid === null, "the daemon has stopped");
  });
});
