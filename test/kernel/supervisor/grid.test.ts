import { describe, expect, test } from "bun:test";
import type { RestartPolicy, Strategy } from "../../../src/kernel/supervisor/spec.ts";
import type { PID } from "../../../src/kernel/types.ts";
import { SIGINT, SIGKILL, SIGTERM } from "../../../src/lib/signals.ts";
import { settled } from "../../support/fake-clock.ts";
import { Supervised } from "../../support/supervised.ts";
import { until } from "../../support/until.ts";

const STRATEGIES: Strategy[] = ["one_for_one", "one_for_all", "rest_for_one"];
const POLICIES: RestartPolicy[] = ["permanent", "transient", "temporary"];
const WAYS = {
  finishes: (s: Supervised) => s.finish("x"),
  fails: (s: Supervised) => s.fail("x"),
  "is terminated": (s: Supervised, pid: PID) => void s.h.kernel.signals.signal(pid, SIGTERM),
  "is killed": (s: Supervised, pid: PID) => void s.h.kernel.signals.signal(pid, SIGKILL),
  "is interrupted": (s: Supervised, pid: PID) => void s.h.kernel.signals.signal(pid, SIGINT),
  "is suspended": (s: Supervised, pid: PID) => void s.h.kernel.lifecycle.suspend(pid),
} as const;
type Way = keyof typeof WAYS;

/** The siblings of the child that falls, one of each policy. */
const SIBLINGS: RestartPolicy[] = ["permanent", "transient", "temporary"];

/** What OTP's documentation says of it, but for the suspended, who are no failure. */
function isRestarted(policy: RestartPolicy, way: Way): boolean {
  if (way === "is suspended" || policy === "temporary") return false;
  return policy === "permanent" || way !== "finishes";
}

function fallsWith(strategy: Strategy, place: number, fallen: number): boolean {
  if (strategy === "one_for_all") return true;
  return strategy === "rest_for_one" && place > fallen;
}

for (const strategy of STRATEGIES) {
  for (const policy of POLICIES) {
    describe(`${strategy}, a ${policy} child`, () => {
      for (const way of Object.keys(WAYS) as Way[]) {
        for (const place of strategy === "one_for_one" ? [1] : [0, 1, 3]) {
          test(`that ${way}, as number ${place + 1} of four`, async () => {
            await using s = new Supervised();
            const children = SIBLINGS.map((restart) => s.agent(`the ${restart}`, { restart }));
            children.splice(place, 0, s.agent("x", { restart: policy }));
            const pid = await s.spawn(s.spec(strategy, children));
            const before = s.children(pid);
            await WAYS[way](s, s.pid(pid, "x"));
            const comesBack = isRestarted(policy, way);
            await until(() => {
              const { state, restartInMs } = s.child(pid, "x");
              return comesBack ? restartInMs !== null : state !== "running";
            });
            await settled();

            const fallen = before.map(
              (_child, at) => at === place || (comesBack && fallsWith(strategy, at, place)),
            );
            const now = s.children(pid);
            expect(now.map((child) => child.pid)).toEqual(
              before.map((child, at) => (fallen[at] ? null : child.pid)),
            );
            if (!comesBack) {
              expect(s.child(pid, "x").state).toBe(way === "is suspended" ? "suspended" : "ended");
              return;
            }

            expect(s.child(pid, "x").restartInMs).toBe(500);
            await s.clock.advance(500);
            await until(() => s.children(pid).every(({ state }) => state !== "waiting"));
            const after = s.children(pid);
            for (const [at, child] of after.entries()) {
              const { restart } = child;
              const started = fallen[at] && (at === place || restart !== "temporary");
              expect([child.id, child.restarts]).toEqual([child.id, started ? 1 : 0]);
              expect([child.id, child.state]).toEqual([
                child.id,
                fallen[at] && !started ? "ended" : "running",
              ]);
            }
            const again = after.filter(({ restarts }) => restarts > 0).map(({ id }) => id);
            expect(s.starts.slice(4)).toEqual(again);
          });
        }
      }
    });
  }
}
