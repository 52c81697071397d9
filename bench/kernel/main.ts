import type { Figure } from "../figure.ts";
import { idleAtGate, idleInCall, idleInRecv } from "./idle.ts";
import { messages } from "./messages.ts";
import { processes } from "./processes.ts";
import { snapshots } from "./snapshots.ts";
import { steps } from "./steps.ts";
import { syscalls } from "./syscalls.ts";

/** `bun bench/kernel/main.ts PART ROUNDS`: some figures of the kernel, in a program of their own, as JSON. */
const PARTS: Record<string, (rounds: number) => Promise<Figure[]>> = {
  syscalls,
  processes,
  "idle-recv": idleInRecv,
  "idle-gate": idleAtGate,
  "idle-call": idleInCall,
  messages,
  steps,
  snapshots,
};

const [part = "", rounds = ""] = process.argv.slice(2);
const measure = PARTS[part];
if (!measure) throw new Error(`Expected one of ${Object.keys(PARTS).join(", ")}, got ${part}.`);
process.stdout.write(JSON.stringify(await measure(Number(rounds))));
