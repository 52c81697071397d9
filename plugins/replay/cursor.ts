import type { Branch, Entry, Response, Way } from "./script.ts";

/** Which way is taken where the script branches: the `n`-th branch that the run comes to, before answer `turn`. */
type Choose = (branch: Branch, at: { n: number; turn: number }) => Promise<Way>;

interface Position {
  /** The answer to give now; undefined where the script has come to its end. */
  now: Response | undefined;
  /** The one given before. */
  before: Response | undefined;
}

/** Where the script is when it has given `turn` answers. */
export async function cursorAt(responses: readonly Entry[], turn: number, choose: Choose): Promise<Position> {
  let given = 0;
  let branches = 0;
  let before: Response | undefined;
  // The rest of each list that the way here leads through, the innermost last.
  const open: Iterator<Entry>[] = [responses.values()];
  for (let inner = open.at(-1); inner !== undefined; inner = open.at(-1)) {
    const { done, value: entry } = inner.next();
    if (done) open.pop();
    else if ("one_of" in entry) {
      const way = await choose(entry, { n: branches++, turn: given });
      open.push(entriesOf(way).values());
    } else if (given === turn) return { now: entry, before };
    else {
      before = entry;
      given++;
    }
  }
  return { now: undefined, before };
}

function entriesOf({ when: _, responses, ...own }: Way): Entry[] {
  return responses ?? [own];
}
