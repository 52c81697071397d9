import { estimateRequest } from "../../../src/kernel/budget/tokens.ts";
import { type LLMEvent, type LLMRequest, SyscallError } from "../../../src/plugin/index.ts";
import type { StepRecord } from "../../../src/store/runs/schema.ts";
import { calls, type KernelHarness, type Model, says, toolDevice } from "../../support/kernel.ts";

export const INTENT = "Count the lines of all files.";
export const LINE = "A line of a file that a person has written down here. ";

/** A read of a given number of characters, and a tool that does something else. */
export const DEVICES = {
  "/dev/files": toolDevice(
    "Read",
    ({ path, chars }) => `${path}: ${LINE.repeat(Number(chars) / LINE.length)}`,
    {
      subject: "path",
      input: { type: "object", required: ["path"] },
      annotations: { readOnlyHint: true },
    },
  ),
  "/dev/work": toolDevice("Work", ({ chars }) => LINE.repeat(Number(chars) / LINE.length)),
};

/** What comes to a summary instead of an answer. */
export type Scene = LLMEvent[] | ((request: LLMRequest) => LLMEvent[] | Promise<LLMEvent[]>);

/** Plays the answers in their order, and what it is asked beside them by `aside`. It reports what it was sent. */
export function model(scenes: Scene[], aside: Scene = says("SUMMARY: 3 files were read.")): Model {
  let at = 0;
  return async (request) => {
    const scene = isAside(request) ? aside : scenes[at++];
    if (scene === undefined)
      throw new SyscallError("DRIVER", `There is no answer ${at}.`, { retryable: false });
    const events = typeof scene === "function" ? await scene(request) : scene;
    const usage = { input_tokens: sizeOf(request), output_tokens: 5, cached_tokens: 0 };
    return events.map((event) => (event.type === "usage" ? { type: "usage", usage } : event));
  };
}

export function isAside({ messages }: LLMRequest): boolean {
  return messages.at(-1)?.content.startsWith("[From rnix") === true;
}

export const read = (path: string, chars = 4000): LLMEvent[] => calls(["Read", { path, chars }]);
export const reads = (count: number, chars?: number): LLMEvent[][] =>
  Array.from({ length: count }, (_, n) => read(`file-${n}`, chars));

/** The requests that are steps of the run. */
export function steps(h: KernelHarness): LLMRequest[] {
  return h.requests.filter((request) => !isAside(request));
}

/** Tokens, as the run itself guesses them. */
export function sizeOf({ messages, ...request }: LLMRequest): number {
  return estimateRequest({
    ...request,
    messages: messages.map(({ images: _images, ...message }) => message),
  });
}

export async function recordOf(h: KernelHarness, uuid: string): Promise<StepRecord[]> {
  return (await h.runs.steps(uuid)).records;
}

export function compactionsOf(records: readonly StepRecord[]) {
  return records.flatMap(({ step, compactions = [] }) => compactions.map((one) => ({ step, ...one })));
}

/** Small steps: none of their results is long enough to be cut, so that they must be summarised. */
export function smallSteps(count: number): LLMEvent[][] {
  return Array.from({ length: count }, (_, n) => calls(["Work", { note: LINE.repeat(8), chars: 700, n }]));
}
