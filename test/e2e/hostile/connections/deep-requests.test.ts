import { expect, test } from "bun:test";
import { Machine } from "../../support/machine.ts";
import { RawClient } from "../../support/wire.ts";

const LEVELS = 1_000_000;

/** One value of many levels, at each place of a request where a value may stand. */
const VALUES = {
  lists: "[".repeat(LEVELS) + "]".repeat(LEVELS),
  objects: `${'{"a":'.repeat(LEVELS)}1${"}".repeat(LEVELS)}`,
  unfinished: `[{},${'{"a":['.repeat(LEVELS)}`,
};

test("a request of many levels is refused before it is parsed, and the connection stays open", async () => {
  await using machine = new Machine();
  await machine.run(["daemon", "start"]);
  const client = await RawClient.connect(machine.socket);
  for (const [name, value] of Object.entries(VALUES)) {
    for (const line of [
      value,
      `{"method":${value}}`,
      `{"method":"spawn","payload":${value}}`,
      `{"method":"call","payload":{"cwd":"/","tool":"Bash","input":${value}}}`,
    ]) {
      await client.send(`${line}\n`);
      const { ok, error } = await client.line();
      expect({ name, ok, error }).toMatchObject({ name, ok: false, error: { code: "BAD_REQUEST" } });
      expect(error?.message).toContain("levels");
    }
  }
  expect((await client.ask("ping")).ok).toBe(true);
  client.destroy();
});
