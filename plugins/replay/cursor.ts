/** Finds the place in a script that a run has reached. */

import type { Branch, Option, Response, ScriptItem } from "./script.ts";

/** Chooses an option of the `n`-th branch that the run reaches, before answer `turn`. */
type Choose = (branch: Branch, at: { n: number; turn: number }) => Promise<Option>;

interface Cursor {
  /** The answer to give now; undefined at the end of the script. */
  current: Response | undefined;
  /** The answer before it. */
  previous: Response | undefined;
}

/** The position in the script after `turn` answers. */
export async function cursorAt(
  responses: readonly ScriptItem[],
  turn: number,
  choose: Choose,
): Promise<Cursor> {
  let given = 0;
  let branches = 0;
  let previous: Response | undefined;
  // The rest of each nested list on the way to this position, the innermost last.
  const open: Iterator<ScriptItem>[] = [responses.values()];
  for (let inner = open.at(-1); inner !== undefined; inner = open.at(-1)) {
    const { done, value: item } = inner.next();
    if (done) open.pop();
    else if ("one_of" in item) {
      const option = await choose(item, { n: branches++, turn: given });
      open.push(itemsOf(option).values());
    } else if (given === turn) return { current: item, previous };
    else {
      previous = item;
      given++;
    }
  }
  return { current: undefined, previous };
}

function itemsOf({ when: _, responses, ...own }: Option): ScriptItem[] {
  return responses ?? [own];
}
