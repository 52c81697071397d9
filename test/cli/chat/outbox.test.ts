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
