import { expect, test } from "bun:test";
import {
  type Change,
  DaemonState,
  DOMAIN,
  OP_ADDED,
  OP_EVENT,
  OP_REMOVED,
} from "../../src/daemons/daemon-state.ts";
import { generateID, requireCommandKind } from "../../src/daemons/kind.ts";
import { isEvent, isLifecycle, newEventSignal, newLifecycleSignal } from "../../src/daemons/signal.ts";
import { isTerminal } from "../../src/daemons/snapshot.ts";
import {
  DAEMON_KINDS,
  type Daemon,
  type DaemonKind,
  type DaemonSnapshot,
  type DaemonStatus,
  SyscallError,
} from "../../src/plugin/index.ts";

/** A unit that does only what the test asks of it. */
class Unit implements Daemon {
  status: DaemonStatus = "running";
  killed = 0;
  readonly id: string;
  readonly kind: "local_bash" | "monitor";
  readonly startedAtMs: number;

  constructor(id: string, kind: "local_bash" | "monitor" = "local_bash", startedAtMs = 0) {
    this.id = id;
    this.kind = kind;
    this.startedAtMs = startedAtMs;
  }

  snapshot(): DaemonSnapshot {
    const { id, status } = this;
    const started_at = new Date(this.startedAtMs).toISOString();
    const common = { id, status, description: id, agent_id: "u", started_at, ended_at: null };
    if (this.kind === "monitor")
      return {
        ...common,
        kind: "monitor",
        metadata: { command: "c", event_count: 0, persistent: false, recent_lines: [] },
      };
    return { ...common, kind: "local_bash", metadata: { command: "c", exit_code: null, output: "" } };
  }

  async kill(): Promise<void> {
    this.killed++;
  }

  output(): string {
    return "";
  }
}

test("an id has the letter of its kind and eight base-36 characters", () => {
  const letters = DAEMON_KINDS.map((kind) => generateID(kind, Bun.randomUUIDv7()));
  for (const id of letters) expect(id).toMatch(/^[bamlrtwd][0-9a-z]{8}$/);
  expect(letters.map((id) => id[0]).join("")).toBe("bamlrtwd");
  expect(generateID("nothing", Bun.randomUUIDv7())[0]).toBe("x");
  const many = new Set(Array.from({ length: 10_000 }, () => generateID("monitor", Bun.randomUUIDv7())));
  expect(many.size).toBe(10_000);
});

test.each<[DaemonKind, string | null]>([
  ["local_bash", null],
  ["monitor", null],
  ["local_agent", "INVALID"],
  ["lsp", "INVALID"],
  ["remote_agent", "UNAVAILABLE"],
  ["in_process_teammate", "INVALID"],
  ["local_workflow", "INVALID"],
  ["dream", "INVALID"],
])("a command can be a unit of kind %s: %p", (kind, code) => {
  const thrown = (() => {
    try {
      return requireCommandKind(kind) ?? null;
    } catch (error) {
      return error instanceof SyscallError ? error.code : error;
    }
  })();
  expect(thrown).toBe(code);
});

test.each<[DaemonStatus, boolean]>([
  ["pending", false],
  ["running", false],
  ["completed", true],
  ["failed", true],
  ["killed", true],
])("the status %s is terminal: %p", (status, terminal) => {
  expect(isTerminal(status)).toBe(terminal);
});

test("units are sorted by start, and filtered by kind", () => {
  const state = new DaemonState();
  state.register(new Unit("b2", "local_bash", 2000));
  state.register(new Unit("m1", "monitor", 1000));
  state.register(new Unit("b0", "local_bash", 0));
  expect(state.len()).toBe(3);
  expect(state.snapshot().map(({ id }) => id)).toEqual(["b0", "m1", "b2"]);
  const kinds: [DaemonKind, string[]][] = [
    ["local_bash", ["b0", "b2"]],
    ["monitor", ["m1"]],
    ["lsp", []],
  ];
  for (const [kind, ids] of kinds) expect(state.snapshotByKind(kind).map(({ id }) => id)).toEqual(ids);
});

test("a unit with an empty id is ignored, and a second one with an id replaces the first", () => {
  const state = new DaemonState();
  state.register(new Unit(""));
  state.register(new Unit("b1"));
  const second = new Unit("b1");
  state.register(second);
  expect(state.len()).toBe(1);
  expect(state.get("b1")).toBe(second);
  expect(state.get("b9")).toBeUndefined();
});

test("a stop asks the unit, and does not announce its end", async () => {
  const state = new DaemonState();
  const unit = new Unit("b1");
  state.register(unit);
  expect((await state.stop("b1")).status).toBe("running");
  expect(unit.killed).toBe(1);
  expect(state.hasPending()).toBe(false);
  expect(state.stop("b2")).rejects.toMatchObject({ code: "NOT_FOUND" });
  unit.status = "completed";
  expect(state.stop("b1")).rejects.toMatchObject({ code: "CLOSED" });
  expect(unit.killed).toBe(1);
});

test("a signal is queued before it is reported, and reported before the wake", () => {
  const order: string[] = [];
  const state: DaemonState = new DaemonState(() => order.push(`wake ${state.hasPending()}`));
  const unit = new Unit("m1", "monitor");
  state.register(unit);
  state.subscribe(({ op }) => order.push(`${op} ${state.hasPending()}`));
  state.emit(newEventSignal(unit, "a line", false, 5));
  expect(order).toEqual(["event true", "wake true"]);
});

test("signals are drained once, in order, each of one variant", () => {
  const state = new DaemonState();
  const unit = new Unit("m1", "monitor");
  state.register(unit);
  state.emit(newEventSignal(unit, "a", false, 1));
  state.emit(newEventSignal(unit, "b", true, 2));
  unit.status = "failed";
  state.emit(newLifecycleSignal(unit, "failed", 3));
  const signals = state.drainSignals();
  expect(signals.map((signal) => [isEvent(signal), isLifecycle(signal), signal.snapshot.status])).toEqual([
    [true, false, "running"],
    [true, false, "running"],
    [false, true, "failed"],
  ]);
  expect(state.drainSignals()).toEqual([]);
  expect(state.hasPending()).toBe(false);
});

test("every change is reported with the domain and its op, until the subscriber leaves", () => {
  const state = new DaemonState();
  const unit = new Unit("m1", "monitor");
  const seen: Change[] = [];
  const leave = state.subscribe((change) => seen.push(change));
  state.register(unit);
  state.emit(newEventSignal(unit, "a", false, 1));
  unit.status = "completed";
  state.emit(newLifecycleSignal(unit, "completed", 2));
  state.evict("m1");
  state.evict("m1");
  leave();
  state.register(new Unit("m2", "monitor"));
  expect(seen.map(({ op }) => op)).toEqual([OP_ADDED, OP_EVENT, "completed", OP_REMOVED]);
  expect(new Set(seen.map(({ domain }) => domain))).toEqual(new Set([DOMAIN]));
  expect(state.domain()).toBe("daemons");
});
