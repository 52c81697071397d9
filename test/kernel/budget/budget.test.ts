import { describe, expect, test } from "bun:test";
import {
  type BudgetLimits,
  type Reservation,
  TreeBudget,
  UNLIMITED,
} from "../../../src/kernel/budget/budget.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import { seeded } from "../../support/seeded.ts";

const NOTHING = { tokens: 0, cost: 0, steps: 0 };

function root(limits: Partial<BudgetLimits> = {}): TreeBudget {
  return new TreeBudget({ ...UNLIMITED, ...limits });
}

function refused(act: () => unknown): SyscallError {
  try {
    act();
  } catch (error) {
    if (error instanceof SyscallError) return error;
    throw error;
  }
  throw new Error("it was not refused");
}

describe("usage", () => {
  test("counts in every budget above, and the unused part of a reservation is free again", () => {
    const top = root({ tokens: 100 });
    const low = top.child(UNLIMITED, 0).child(UNLIMITED, 0);
    const hold = low.reserve({ tokens: 60, cost: 0.5, steps: 1 });
    expect([top.left("tokens"), low.left("tokens"), top.unspent("tokens")]).toEqual([40, 40, 100]);
    hold.settle({ tokens: 25, cost: 0.2, steps: 1 });
    expect([top.tokens, top.steps, top.cost, top.left("tokens")]).toEqual([25, 1, 0.2, 75]);
    expect(top.reserved).toEqual({ ...NOTHING, reservations: 0 });
  });

  test("may exceed its reservation: the next one is refused", () => {
    const top = root({ tokens: 100 });
    top.reserve({ ...NOTHING, tokens: 100 }).settle({ ...NOTHING, tokens: 120 });
    expect([top.tokens, top.left("tokens")]).toEqual([120, 0]);
    expect(refused(() => top.reserve({ ...NOTHING, tokens: 1 })).code).toBe("EXHAUSTED");
  });

  test("is reserved in all budgets or in none", () => {
    const top = root({ tokens: 10 });
    const low = top.child({ ...UNLIMITED, tokens: 100 }, 0);
    expect(refused(() => low.reserve({ ...NOTHING, tokens: 11 })).code).toBe("EXHAUSTED");
    expect(low.reserved).toEqual({ ...NOTHING, reservations: 0 });
  });

  test("is settled once", () => {
    const hold = root().reserve({ ...NOTHING, steps: 1 });
    hold.settle({ ...NOTHING, steps: 1 });
    expect(refused(() => hold.settle(NOTHING)).code).toBe("INTERNAL");
  });

  test("has no cost while no price is known", () => {
    const top = root();
    top.reserve(NOTHING).settle({ tokens: 5, cost: null, steps: 1 });
    expect(top.cost).toBeNull();
    top.reserve(NOTHING).settle({ tokens: 5, cost: 0, steps: 1 });
    expect(top.cost).toBe(0);
  });
});

describe("a child", () => {
  const wide = { tokens: 1_000, cost: 10, steps: 100, timeMs: 60_000, children: 16, depth: 5 };

  test("gets at most what its parent still has", () => {
    const parent = root({ tokens: 500, cost: 1, steps: 10, timeMs: 10_000, children: 4, depth: 2 });
    parent.reserve(NOTHING).settle({ tokens: 100, cost: 0.25, steps: 3 });
    expect(parent.child(wide, 4_000).limits).toEqual({
      tokens: 400,
      cost: 0.75,
      steps: 7,
      timeMs: 6_000,
      children: 16,
      depth: 1,
    });
    expect(parent.child({ ...wide, tokens: 5, depth: null }, 0).limits).toMatchObject({
      tokens: 5,
      depth: 1,
    });
  });

  test("of a parent without limits has its own", () => {
    expect(root().child(wide, 1_000_000).limits).toEqual(wide);
  });

  const spent = (what: "tokens" | "cost" | "steps") => {
    const parent = root({ [what]: 1 });
    parent.reserve(NOTHING).settle({ ...NOTHING, [what]: 1 });
    return parent;
  };
  test.each([
    ["depth", () => root({ depth: 0 }).child(wide, 0), "spawn_depth"],
    ["places", () => root({ children: 0 }).child(wide, 0), "live_children"],
    ["tokens", () => spent("tokens").child(wide, 0), "No tokens"],
    ["cost", () => spent("cost").child(wide, 0), "No USD"],
    ["steps", () => spent("steps").child(wide, 0), "No steps"],
    ["time", () => root({ timeMs: 5 }).child(wide, 5), "No time"],
  ])("is refused where no %s is left, in words that stop a model", (_, spawn, why) => {
    const { code, message } = refused(spawn);
    expect(code).toBe("EXHAUSTED");
    expect(message).toContain(why);
    expect(message).toContain("Do not try again");
  });

  test("counts as a live process in every budget above it until it ends", () => {
    const top = root({ children: 3 });
    const one = top.child(wide, 0);
    const two = one.child(wide, 0);
    const three = two.child(wide, 0);
    for (const budget of [top, one, two, three])
      expect(refused(() => budget.child(wide, 0)).message).toContain("3 processes live below this run");
    two.close();
    expect([top.live, one.live]).toEqual([2, 1]);
    three.child(wide, 0);
    expect(top.live).toBe(3);
    expect(refused(() => two.close()).code).toBe("INTERNAL");
  });
});

test("the kernel's budget limits all live processes, also where each run's limit is higher", () => {
  const kernel = TreeBudget.forKernel(2);
  const run = kernel.child(UNLIMITED, 0);
  const below = run.child(UNLIMITED, 0);
  for (const spawn of [() => kernel.child(UNLIMITED, 0), () => below.child(UNLIMITED, 0)]) {
    const { code, message } = refused(spawn);
    expect({ code, message }).toMatchObject({ code: "EXHAUSTED" });
    expect(message).toContain("2 live here already");
    expect(message).toContain("live_processes");
  }
  below.close();
  kernel.child(UNLIMITED, 0);
});

describe("a wait for what other runs have reserved", () => {
  test("wakes when a reservation is settled anywhere in the tree", async () => {
    const top = root({ tokens: 10 });
    const [a, b] = [top.child(UNLIMITED, 0), top.child(UNLIMITED, 0)];
    const hold = a.reserve({ ...NOTHING, tokens: 10 });
    const changed = b.changed(new AbortController().signal);
    hold.settle({ ...NOTHING, tokens: 1 });
    await changed;
    expect(b.left("tokens")).toBe(9);
  });

  test("ends with its signal", async () => {
    const top = root({ tokens: 10 });
    const stop = new AbortController();
    const changed = top.changed(stop.signal).catch((error: unknown) => error);
    const why = new SyscallError("CANCELLED", "stop");
    stop.abort(why);
    expect(await changed).toBe(why);
    expect(await top.changed(stop.signal).catch((error: unknown) => error)).toBe(why);
  });
});

test.each([1, 2, 3, 4, 5])(
  "any order of spawns, holds, settlements and ends keeps the limits (seed %i)",
  (seed) => {
    const random = seeded(seed);
    const upTo = (most: number): number => Math.floor(random() * (most + 1));
    interface Node {
      budget: TreeBudget;
      above: Node | undefined;
      limits: BudgetLimits;
      reservations: { hold: Reservation; amount: { tokens: number; cost: number; steps: number } }[];
      /** What the model of this test counts by itself, of the node alone. */
      own: { tokens: number; steps: number };
      gone: boolean;
    }
    const node = (budget: TreeBudget, above: Node | undefined): Node => {
      return {
        budget,
        above,
        limits: budget.limits,
        reservations: [],
        own: { tokens: 0, steps: 0 },
        gone: false,
      };
    };
    const nodes = [node(root({ tokens: 5_000, cost: 5, steps: 200, children: 6, depth: 4 }), undefined)];
    const isAtOrBelow = (low: Node, high: Node): boolean => {
      for (let at: Node | undefined = low; at; at = at.above) if (at === high) return true;
      return false;
    };
    const sum = (top: Node, of: (one: Node) => number): number =>
      nodes.filter((one) => isAtOrBelow(one, top)).reduce((total, one) => total + of(one), 0);
    const settle = (one: Node): void => {
      const [held] = one.reservations.splice(upTo(one.reservations.length - 1), 1);
      if (!held) return;
      const used = {
        tokens: upTo(held.amount.tokens),
        cost: held.amount.cost * random(),
        steps: held.amount.steps,
      };
      held.hold.settle(used);
      one.own.tokens += used.tokens;
      one.own.steps += used.steps;
    };
    const check = (): void => {
      for (const one of nodes) {
        const { budget, limits } = one;
        const live = sum(one, (low) => (low === one || low.gone ? 0 : 1));
        const held = sum(one, (low) =>
          low.reservations.reduce((total, { amount }) => total + amount.tokens, 0),
        );
        expect(budget.live).toBe(live);
        expect(budget.reserved.tokens).toBe(held);
        expect(budget.reserved.reservations).toBe(sum(one, (low) => low.reservations.length));
        expect(budget.tokens).toBe(sum(one, (low) => low.own.tokens));
        expect(budget.steps).toBe(sum(one, (low) => low.own.steps));
        expect(budget.tokens + held).toBeLessThanOrEqual(limits.tokens ?? Infinity);
        expect(budget.steps).toBeLessThanOrEqual(limits.steps ?? Infinity);
        expect(budget.cost ?? 0).toBeLessThanOrEqual((limits.cost ?? Infinity) + 1e-6);
        expect(live).toBeLessThanOrEqual(limits.children ?? Infinity);
      }
    };
    const seen = { spawned: 0, refused: 0, reserved: 0, short: 0 };
    for (let turn = 0; turn < 600; turn++) {
      const alive = nodes.filter(({ gone }) => !gone);
      const one = alive[upTo(alive.length - 1)] ?? nodes[0];
      if (!one) throw new Error("no node");
      const dice = random();
      if (dice < 0.3) {
        const wanted = {
          ...UNLIMITED,
          tokens: upTo(4_000) + 1,
          steps: upTo(100) + 1,
          children: upTo(4),
          depth: 3,
        };
        try {
          nodes.push(node(one.budget.child(wanted, 0), one));
          seen.spawned++;
        } catch (error) {
          expect(error).toMatchObject({ code: "EXHAUSTED" });
          seen.refused++;
        }
      } else if (dice < 0.6) {
        const amount = { tokens: upTo(200), cost: random() / 5, steps: 1 };
        try {
          one.reservations.push({ hold: one.budget.reserve(amount), amount });
          seen.reserved++;
        } catch (error) {
          expect(error).toMatchObject({ code: "EXHAUSTED" });
          seen.short++;
        }
      } else if (dice < 0.85) {
        settle(one);
      } else if (one.above) {
        // Killed: its reservations are settled, its slot is freed; its children run on.
        while (one.reservations.length > 0) settle(one);
        one.budget.close();
        one.gone = true;
      }
      check();
    }
    for (const one of nodes) while (one.reservations.length > 0) settle(one);
    for (const one of nodes.slice(1)) if (!one.gone) one.budget.close();
    expect(nodes[0]?.budget.reserved).toEqual({ ...NOTHING, reservations: 0 });
    expect(nodes[0]?.budget.live).toBe(0);
    for (const count of Object.values(seen)) expect(count).toBeGreaterThan(5);
  },
);

test("usage before a suspension counts in the process's own budget alone, and widens its limits", () => {
  const top = root({ tokens: 100, steps: 10, timeMs: 1_000 });
  top.reserve({ tokens: 60, cost: 0, steps: 4 }).settle({ tokens: 60, cost: null, steps: 4 });
  const before = { tokens: 30, cost: 0.5, steps: 2, elapsedMs: 300 };
  const low = top.child({ ...UNLIMITED, tokens: 50 }, 400, before);
  expect([low.tokens, low.steps, low.cost]).toEqual([30, 2, 0.5]);
  expect([top.tokens, top.steps, top.cost]).toEqual([60, 4, null]);
  // Its own 50 hold; of the rest it has what is left above, beside what it has used.
  expect(low.limits).toMatchObject({ tokens: 50, steps: 8, timeMs: 900 });
  expect([low.left("tokens"), low.left("steps")]).toEqual([20, 6]);
});
