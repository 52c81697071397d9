import { expect } from "bun:test";
import { join } from "node:path";
import { describePlugin } from "../support/conformance/plugin.ts";

describePlugin("echo", () => import("./support/echo.ts"), {
  entry: join(import.meta.dir, "support/echo.ts"),
  setup: () => ({ config: { prefix: "> " } }),
  operations: [
    {
      title: "answers what it is told, in pieces",
      device: "/dev/echo",
      input: { op: "Echo", text: "x".repeat(100_000) },
      answer: (text) => expect(text).toBe(`> ${"x".repeat(100_000)}`),
    },
    { title: "takes text only", device: "/dev/echo", input: { op: "Echo", text: 1 }, error: "INVALID" },
    { title: "has nothing below it but /below", device: "/dev/echo/above", input: null, error: "NOT_FOUND" },
  ],
  unknown: "/dev/echo/no/such",
  endless: { device: "/dev/echo", input: { op: "Echo", text: "wait" } },
});
