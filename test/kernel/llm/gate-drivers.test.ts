import { describe, expect, test } from "bun:test";
import type { Code } from "../../../src/plugin/index.ts";
import { failure } from "../../support/failure.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { HTTP_DRIVERS, openDriver } from "../../support/model-server/conformance/driver.ts";
import { request } from "../../support/model-server/device.ts";
import { type Fault, ModelServer, type Turn } from "../../support/model-server/server.ts";
import { TestGate } from "./test-gate.ts";

/** Half an answer with a call that must never be made, and then the fault. */
const broken = (fault?: Fault): Turn =>
  fault === undefined
    ? {}
    : { text: "half", tool_calls: [{ name: "Bash", input: { command: "rm -r x" } }], fault };

const passing: [string, Fault | undefined][] = [
  ["429 with Retry-After", { kind: "status", status: 429, headers: { "retry-after": "5" } }],
  ["500", { kind: "status", status: 500 }],
  ["529", { kind: "status", status: 529 }],
  ["a connection cut in the middle", { kind: "cut" }],
  ["garbage", { kind: "garbage" }],
  ["an answer that ends too early", { kind: "end_early" }],
  ["an empty answer", undefined],
];

for (const driver of HTTP_DRIVERS)
  describe(`the gate over ${driver.title}`, () => {
    const called = async (server: ModelServer) => {
      const clock = new FakeClock();
      const retries: number[] = [];
      const file = await openDriver(driver, server.url);
      const gate = new TestGate({ clock, random: () => 0 });
      const answer = gate.call(
        "k",
        file,
        { ...request, stream: true },
        {
          onRetry: ({ delayMs }) => {
            retries.push(delayMs);
            void clock.advance(delayMs);
          },
        },
      );
      return { clock, retries, file, answer };
    };

    for (const [title, fault] of passing)
      test(`recovers from ${title}, and acts on nothing of it`, async () => {
        await using server = await ModelServer.start([broken(fault), { text: "whole" }]);
        const { answer, retries, clock, file } = await called(server);
        expect(await answer).toMatchObject({ content: "whole", tool_calls: [], stop_reason: "end_turn" });
        expect(retries).toEqual([title.startsWith("429") ? 5000 : 250]);
        expect(clock.pending).toBe(0);
        await file.close();
      });

    const lasting: [string, Fault | undefined, Code, number][] = [
      ["a server that stays down", { kind: "status", status: 503 }, "UNAVAILABLE", 3],
      ["answers that stay empty", undefined, "DRIVER", 3],
      ["a wrong key", { kind: "status", status: 401 }, "PERMISSION", 1],
      ["an unknown model", { kind: "status", status: 404 }, "NOT_FOUND", 1],
    ];
    for (const [title, fault, code, attempts] of lasting)
      test(`ends with ${code} for ${title} after ${attempts} ${attempts === 1 ? "attempt" : "attempts"}`, async () => {
        await using server = await ModelServer.start({ turns: [broken(fault)], loop: true });
        const { answer, clock } = await called(server);
        expect(await failure(answer)).toMatchObject({ code });
        expect(server.requests).toHaveLength(attempts);
        expect(clock.pending).toBe(0);
      });

    for (const kind of ["hang", "hang_midway"] as const)
      test(`ends with TIMEOUT for a server that falls silent (${kind}), and releases the connection`, async () => {
        await using server = await ModelServer.start([broken({ kind })]);
        const { answer, clock, file } = await called(server);
        const failed = failure(answer);
        await server.arrived(1);
        await clock.advance(600_000);
        expect(await failed).toMatchObject({ code: "TIMEOUT" });
        expect(await server.requests[0]?.closed).toBe("aborted");
        await file.close();
      });
  });
