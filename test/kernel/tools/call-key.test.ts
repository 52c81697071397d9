import { expect, test } from "bun:test";
import { callKey } from "../../../src/kernel/tools/open-calls.ts";

const RUN = "0197c0de-0000-7000-8000-000000000001";

test("a call's key is its run, its step and its id", () => {
  expect(callKey(RUN, 3, "toolu_01AbC.d-e")).toBe(`${RUN}:3:toolu_01AbC.d-e`);
});

test.each([["a b"], ["é"], ["x\r\nInjected: header"], ["x".repeat(65)], ["../up"], [""]])(
  "an id that no header or file name could hold is hashed: %j",
  (id) => {
    expect(callKey(RUN, 1, id)).toMatch(/^[A-Za-z0-9:._-]{1,128}$/);
    expect(callKey(RUN, 1, id)).toBe(callKey(RUN, 1, id));
    expect(callKey(RUN, 1, id)).not.toBe(callKey(RUN, 1, `${id} `));
  },
);
