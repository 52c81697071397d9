import { expect, test } from "bun:test";
import { killRepeatedly } from "../../src/os/signal.ts";

test("a process that forks and exits while it is looked for is found under its next PID", () => {
  // 7 is another program. The wanted one has PID 20 + its forks; it forks once between two looks of the first scans.
  let hops = 0;
  const killed: number[] = [];
  const list = (): number[] => (killed.length > 0 ? [7] : [7, 20 + hops]);
  const kill = (pid: number): number | null => {
    if (pid === 7) return null;
    if (hops < 2) hops += 1;
    else killed.push(pid);
    return killed.includes(pid) ? pid : null;
  };
  killRepeatedly(list, kill, () => 0);
  expect(killed).toEqual([22]);
});
