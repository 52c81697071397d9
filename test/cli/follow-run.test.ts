import { describe, expect, test } from "bun:test";
import { withReconnects } from "../../src/cli/run/follow.ts";
import { SyscallError } from "../../src/plugin/index.ts";
import type { StreamEvent } from "../../src/protocol/methods.ts";
import { complete, delta } from "./support.ts";

const LOST = new SyscallError("UNAVAILABLE", "the connection was lost");
const REFUSED = new SyscallError("UNAVAILABLE", "no", { cause: { code: "UNAVAILABLE", message: "no" } });

/** The events of one connection, and how it ends. */
async function* connection(events: readonly StreamEvent[], error?: Error): AsyncGenerator<StreamEvent> {
  yield* events;
  if (error) throw error;
}

/** What is read of these connections, one after the other, and the error at the end. */
async function read(...connections: AsyncIterable<StreamEvent>[]): Promise<unknown[]> {
  const [first = connection([]), ...others] = connections;
  const seen: unknown[] = [];
  try {
    for await (const event of withReconnects(first, async () => others.shift() ?? null))
      seen.push(event.type === "text_delta" ? event.payload.text : event.type);
  } catch (error) {
    seen.push(error);
  }
  return seen;
}

describe("the events of a run", () => {
  test("continue after a lost connection, and after one that closed too early", async () => {
    const begin = connection([delta(1, "a")], LOST);
    const more = connection([delta(1, "b")]);
    expect(await read(begin, more, connection([complete(), delta(1, "late")]))).toEqual([
      "a",
      "b",
      "complete",
    ]);
  });

  test("continue after the last log entry with a number, and show a message that was read once", async () => {
    const entry = (n: number | undefined, kind: "text" | "inbox", step = 1): StreamEvent => ({
      type: "log_entry",
      payload: { n, ts: "2026-01-01T00:00:00.000Z", step, kind, text: `${n} ${kind}` },
    });
    const asked: unknown[] = [];
    const more = [
      connection([entry(5, "inbox"), entry(5.5, "text")], LOST),
      connection([entry(7, "inbox", 2), complete()]),
    ];
    const again = async (after?: number) => {
      asked.push(after);
      return more.shift() ?? null;
    };
    const events = [entry(4, "text"), entry(undefined, "inbox")];
    const seen = await Array.fromAsync(withReconnects(connection(events, LOST), again));
    expect(seen.map((event) => (event.type === "log_entry" ? event.payload.text : event.type))).toEqual([
      ...["4 text", "undefined inbox", "5.5 text", "7 inbox", "complete"],
    ]);
    expect(asked).toEqual([4, 5.5]);
  });

  test("end with the error when the run can't be found any more", async () => {
    expect(await read(connection([delta(1, "a")], LOST))).toEqual(["a", LOST]);
  });

  test.each([
    ["a server's error", REFUSED],
    ["any other error", new Error("a bug")],
  ])("end with %s at once", async (_, error) => {
    expect(await read(connection([], error), connection([complete()]))).toEqual([error]);
  });

  test("end when each new connection is lost, too", async () => {
    const seen = await read(...Array.from({ length: 20 }, () => connection([delta(1, "x")], LOST)));
    expect(seen).toEqual([...Array(6).fill("x"), LOST]);
  });
});
