import { expect, test } from "bun:test";
import { commandOf } from "../../plugins/_model/cli-file.ts";
import { keyOf, settingsOf } from "../../plugins/_model/settings.ts";
import { testContext } from "../support/conformance/context.ts";
import { failure } from "../support/failure.ts";

const keyed = (key: string) => ({ ...testContext("/").context, secret: async () => key });

test.each(["sk-line\nbreak", "sk-return\r", "sk-ümlaut", "sk-☃", "sk-\u0000"])(
  "a key that no header can carry fails the request, and is not shown: %j",
  async (key) => {
    const error = await failure(keyOf(keyed(key), { required: false }));
    expect(error).toMatchObject({ code: "PERMISSION", retryable: false });
    expect(error.message).toStartWith("The key has a line break");
    expect(error.message).not.toContain("sk-");
  },
);

test.each(["", "sk-Aa0_-.~+/=", "two words"])("any other is sent as it is: %j", async (key) => {
  expect(await keyOf(keyed(key), { required: true })).toBe(key);
});

test.each(["localhost:8000/v1", "foo bar", "ftp://localhost/v1"])(
  "an invalid address is named with its possible sources: %j",
  (base_url) => {
    const open = () => settingsOf({ ...testContext("/").context, config: { base_url } });
    expect(open).toThrow(/base_url: expected .* http:\/\/ .*OPENAI_BASE_URL/);
  },
);

test("a command that is not an absolute path is named by its place in the entry", () => {
  const open = () => commandOf({ ...testContext("/").context, config: { extra: { command: "bin/claude" } } });
  expect(open).toThrow("the provider's entry: extra.command: expected an absolute path");
});
