import { afterAll, describe, expect, test } from "bun:test";
import { SyscallError, type VFSFile } from "../../../../src/plugin/index.ts";
import { failure } from "../../failure.ts";
import { ask } from "../device.ts";
import { ModelServer } from "../server.ts";
import { type HttpDriver, openDriver } from "./driver.ts";
import type { Findings } from "./findings.ts";

export const ENDS = {
  hang: "given up before the answer begins: `CANCELLED`, and the connection is closed",
  hang_midway: "given up in the middle of the answer: the same",
} as const;

/** However an exchange ends before its time, nothing is left of it. */
export function describeEnds(driver: HttpDriver, findings: Findings): void {
  for (const stream of [true, false])
    describe(`an answer that is given up, ${stream ? "streamed" : "in one piece"}`, () =>
      ends(driver, findings, stream));
}

function ends(driver: HttpDriver, findings: Findings, stream: boolean): void {
  const unhandled: unknown[] = [];
  const note = (error: unknown) => unhandled.push(error);
  process.on("unhandledRejection", note);
  afterAll(() => {
    process.off("unhandledRejection", note);
    expect(unhandled).toEqual([]);
  });

  for (const kind of ["hang", "hang_midway"] as const) {
    const withHung = async (use: (file: VFSFile, server: ModelServer) => Promise<void>) => {
      const turns = [{ text: "Half of this", fault: { kind } }, { text: "next" }];
      await using server = await ModelServer.start(turns);
      const file = await openDriver(driver, server.url);
      await use(file, server);
      expect(await server.requests[0]?.closed).toBe("aborted");
      await file.close();
    };

    test(`${kind}: an abort ends it with CANCELLED and releases the connection`, async () => {
      await withHung(async (file, server) => {
        const controller = new AbortController();
        const asked = failure(ask(file, { stream }, controller.signal));
        await server.arrived(1);
        controller.abort();
        expect((await asked).code).toBe("CANCELLED");
        expect((await ask(file, { stream })).answer.content).toBe("next");
      });
      findings.note(ENDS[kind], driver.title, stream ? "streamed" : "in one piece");
    });

    test(`${kind}: the caller's own reason is what it gets`, async () => {
      await withHung(async (file, server) => {
        const controller = new AbortController();
        const asked = failure(ask(file, { stream }, controller.signal));
        await server.arrived(1);
        controller.abort(new SyscallError("TIMEOUT", "too slow"));
        expect((await asked).code).toBe("TIMEOUT");
      });
    });

    test(`${kind}: closing the file releases the connection`, async () => {
      await withHung(async (file, server) => {
        const controller = new AbortController();
        const asked = ask(file, { stream }, controller.signal).catch(() => "given up");
        await server.arrived(1);
        await file.close();
        expect(await asked).toBeDefined();
      });
    });
  }
}
