import { describe, expect, test } from "bun:test";
import { transition } from "../../../src/kernel/process/process.ts";
import type { ProcessState } from "../../../src/kernel/types.ts";

const STATES: ProcessState[] = ["created", "running", "zombie", "dead"];
const LEGAL = new Set(["created running", "running zombie", "zombie dead"]);

describe("a process's state moves only forwards", () => {
  for (const from of STATES) {
    for (const to of STATES) {
      const legal = LEGAL.has(`${from} ${to}`);
      test(`${from} → ${to} is ${legal ? "legal" : "INTERNAL"}`, () => {
        const go = () => transition(1, from, to);
        if (legal) expect(go()).toBe(to);
        else expect(go).toThrow(expect.objectContaining({ code: "INTERNAL" }));
      });
    }
  }
});
