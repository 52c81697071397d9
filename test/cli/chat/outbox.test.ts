import { expect, test } from "bun:test";
import { Outbox } from "../../../src/cli/chat/outbox.ts";

test.each([
  [false, 1],
  [true, 0],
])(
  "a message that reaches the disk after its run was lost is counted then (has ended: %p)",
  async (hasEnded, expected) => {
    const sending = Promise.withResolvers<{ seq: number }>();
    let late = 0;
    const outbox = new Outbox({
      send: () => sending.promise,
      takeBack: async () => undefined,
      late: () => {
        late++;
      },
      changed: () => undefined,
    });
    const draft = { shown: "but briefly", pastes: new Map() };
    const sent = outbox.send({ draft, text: "but briefly", files: async () => [] }, "next_step");
    expect(outbox.clear({ hasEnded })).toEqual({ unread: null, kept: 0 });
    sending.resolve({ seq: 1 });
    await sent;
    expect(late).toBe(expected);
  },
);

test("a message that was recorded before the live events began is shown once, and the same words later again", async () => {
  const outbox = new Outbox({
    send: async () => ({ seq: 1 }),
    takeBack: async () => undefined,
    changed: () => undefined,
  });
  const at = { ts: "2026-01-01T00:00:00.000Z", step: 2 };
  const entry = (kind: "inbox" | "text", text: string) =>
    outbox.shown({
      type: "log_entry",
      payload: { ...at, kind, text, ...(kind === "inbox" && { seqs: [1] }) },
    });
  const read = (seq: number) =>
    outbox.shown({
      type: "progress",
      payload: { pid: 1, uuid: "u", event: "message", seq, state: "read", text: "go on", when: "next_step" },
    });
  const shown = [entry("inbox", "go on"), read(1), entry("text", "done"), read(2)];
  const texts = shown.flat().flatMap((event) => (event.type === "log_entry" ? [event.payload.text] : []));
  expect(texts).toEqual(["go on", "done", "go on"]);
});
