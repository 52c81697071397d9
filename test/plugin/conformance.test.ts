import { expect } from "bun:test";
import { join } from "node:path";
import { describePlugin } from "../support/conformance/plugin.ts";

describePlugin("echo", () => import("./support/echo.ts"), {
  entry: join(import.meta.dir, "support/echo.ts"),
  setup: () => ({ config: { prefix: "> " } }),
  operations: [
    {
      title: "answers its input, in parts",
      device: "/dev/echo",
      input: { op: "Echo", text: "x".repeat(100_000) },
      answer: (text) => expect(text).toBe(`> ${"x".repeat(100_000)}`),
    },
    { title: "takes text only", device: "/dev/echo", input: { op: "Echo", text: 1 }, error: "INVALID" },
    { title: "has nothing below it but /below", device: "/dev/echo/above", input: null, error: "NOT_FOUND" },
  ],
  unknown: "/dev/echo/no/such",
  mount: {
    config: () => ({ prefix: "# " }),
    operations: [
      {
        title: "answers after its prefix",
        device: "/say",
        input: { op: "say.it", text: "hello" },
        answer: (text) => expect(text).toBe("# hello"),
      },
      { title: "takes text only", device: "/say", input: { op: "say.it" }, error: "INVALID" },
    ],
    refused: [{ title: "without a prefix", config: () => ({}), error: "INVALID" }],
    endless: () => ({ prefix: "wait" }),
  },
  endless: { device: "/dev/echo", input: { op: "Echo", text: "wait" } },
});
