import { describe, expect, test } from "bun:test";
import { FairQueue, type QueueEntry } from "../../../src/kernel/llm/key-limiter.ts";
import { seeded } from "../../support/seeded.ts";

const turn = (tree: string, order: number, again = false): QueueEntry => ({ tree, order, isRetry: again });
const drained = (queue: FairQueue<QueueEntry>): string[] => {
  const out: string[] = [];
  for (let next = queue.next(); next; next = queue.next()) out.push(`${next.tree}${next.order}`);
  return out;
};

describe("the queue", () => {
  test("serves the trees in turn, and each tree in its own order", () => {
    const queue = new FairQueue<QueueEntry>();
    for (const order of [1, 2, 3, 4]) queue.add(turn("a", order));
    queue.add(turn("b", 5));
    queue.add(turn("c", 7));
    queue.add(turn("c", 6));
    expect([queue.size, queue.trees]).toEqual([7, 3]);
    expect(drained(queue)).toEqual(["a1", "b5", "c6", "a2", "c7", "a3", "a4"]);
    expect([queue.size, queue.trees]).toEqual([0, 0]);
  });

  test("returns an unused turn: before the other trees, and before its own tree's others", () => {
    const queue = new FairQueue<QueueEntry>();
    queue.add(turn("b", 2));
    queue.add(turn("c", 3));
    queue.add(turn("a", 1, true));
    queue.add(turn("a", 4));
    queue.add(turn("c", 0, true));
    expect(drained(queue)).toEqual(["a1", "b2", "c0", "a4", "c3"]);
  });

  test("passes over a request that may not start, which stays in its position", () => {
    const queue = new FairQueue<QueueEntry>();
    for (const [tree, order] of [
      ["a", 1],
      ["a", 2],
      ["b", 3],
      ["c", 4],
    ] as const)
      queue.add(turn(tree, order));
    expect(queue.next(({ order }) => order > 2)).toMatchObject({ order: 3 });
    expect(queue.next(({ order }) => order === 2)).toMatchObject({ order: 2 });
    expect(queue.next(() => false)).toBeUndefined();
    expect(queue.size).toBe(2);
    expect(drained(queue)).toEqual(["c4", "a1"]);
  });

  test("forgets a request that leaves, and a tree that is then empty", () => {
    const queue = new FairQueue<QueueEntry>();
    for (const order of [1, 2, 3]) queue.add(turn("a", order));
    queue.add(turn("b", 4));
    expect(queue.removeWhere(({ order }) => order === 4 || order === 2)).toHaveLength(2);
    queue.add(turn("b", 5));
    expect([queue.size, queue.trees]).toEqual([3, 2]);
    expect(drained(queue)).toEqual(["a1", "b5", "a3"]);
  });
});

/**
 * The property that fairness is: while a request waits at the head of a tree, no other tree is served twice, but
 * for turns it was given back.
 */
describe("a waiting request", () => {
  test.each(Array.from({ length: 60 }, (_, seed) => seed))(
    "is passed at most once by each tree (seed %i)",
    (seed) => {
      const random = seeded(seed);
      const queue = new FairQueue<QueueEntry>();
      const turns = new Map<number, QueueEntry>();
      const model = new Map<string, number[]>();
      const passed = new Map<string, Map<string, number>>();
      let order = 0;
      for (let i = 0; i < 400; i++) {
        const roll = random();
        if (roll < 0.5) {
          // One big tree, and many of one call each.
          const tree = random() < 0.6 ? "big" : `t${Math.floor(random() * 8)}`;
          const one = turn(tree, order);
          turns.set(order, one);
          queue.add(one);
          if (!model.has(tree)) passed.set(tree, new Map());
          model.set(tree, [...(model.get(tree) ?? []), order++]);
        } else if (roll < 0.9) {
          const next = queue.next();
          if (next === undefined) {
            expect(model.size).toBe(0);
            continue;
          }
          const line = model.get(next.tree) ?? [];
          expect(next.order).toBe(line[0] ?? Number.NaN);
          if (line.length === 1) model.delete(next.tree);
          else model.set(next.tree, line.slice(1));
          passed.set(next.tree, new Map());
          for (const [tree, by] of passed) {
            if (tree === next.tree || !model.has(tree)) continue;
            by.set(next.tree, (by.get(next.tree) ?? 0) + 1);
            expect(by.get(next.tree)).toBe(1);
          }
        } else {
          const trees = [...model.keys()];
          const tree = trees[Math.floor(random() * trees.length)];
          const line = tree === undefined ? undefined : model.get(tree);
          const gone = line?.[Math.floor(random() * line.length)];
          if (tree === undefined || line === undefined || gone === undefined) continue;
          if (random() < 0.5) expect(queue.removeWhere((one) => one.order === gone)).toHaveLength(1);
          else {
            const one = turns.get(gone);
            if (one === undefined) throw new Error(`No turn has the number ${gone}.`);
            queue.remove(one);
            queue.remove(one);
          }
          const left = line.filter((one) => one !== gone);
          if (left.length === 0) model.delete(tree);
          else model.set(tree, left);
        }
        expect(queue.size).toBe([...model.values()].reduce((sum, line) => sum + line.length, 0));
        expect(queue.trees).toBe(model.size);
      }
    },
  );
});
