import { join } from "node:path";
import { Children, type ChildrenOptions } from "../../src/os/children.ts";
import type { OpenContext } from "../../src/plugin/index.ts";
import { type Notes, testContext } from "./conformance/context.ts";

export interface OpenContextOptions extends Partial<OpenContext> {
  /** What the kernel's Children would be given; small numbers make limits easy to reach. */
  children?: Partial<ChildrenOptions>;
}

export interface RealContext extends AsyncDisposable {
  context: OpenContext;
  notes: Notes;
  children: Children;
  /** What the kernel does when a tool call is over, whatever became of it. */
  endCall(): Promise<void>;
}

const PROCESS = "test-process";
const CALL = "test-call";

/**
 * The context that a driver gets from the kernel, with programs that really run: `exec` is bound to real
 * Children, and disposing it ends them. `kept` is a folder outside of `dir` for ledger and spilled output.
 *
 *   await using real = openContext(dir, kept, { children: { memoryBytes: 4096 } });
 */
export function openContext(dir: string, kept: string, o: OpenContextOptions = {}): RealContext {
  const { children: options, ...more } = o;
  const children = new Children({
    ledgerDir: join(kept, "ledger"),
    // Of its own: two kernels of one name would end each other's programs.
    kernelId: `test-kernel-${crypto.randomUUID()}`,
    graceMs: 1_000,
    memoryBytes: 64 * 1024,
    diskBytes: 16 * 1024 * 1024,
    ...options,
  });
  const owner = { uuid: PROCESS, call: CALL, spillDir: join(kept, "spill") };
  const { context, notes } = testContext(dir, {
    call: { id: CALL, tool: "test", deadlineMs: 60_000, key: "test:1:test" },
    exec: (request) =>
      children.exec(owner, { ...request, cwd: request.cwd ?? dir, env: { ...context.env, ...request.env } }),
    ...more,
  });
  return {
    context,
    notes,
    children,
    endCall: () => children.endCall(PROCESS, CALL),
    [Symbol.asyncDispose]: () => children.close(),
  };
}
