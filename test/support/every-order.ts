/** Chooses one of the things that may happen next. */
export type Choose = (options: readonly string[]) => string;

/**
 * Plays once for each order in which things may happen: a play is repeated with the same choices up to the last one that
 * has another option. Returns the number of orders. A failure names the order that has led to it.
 */
export async function everyOrder(play: (choose: Choose) => Promise<void>): Promise<number> {
  let plan: number[] = [];
  for (let orders = 1; ; orders++) {
    const made: { at: number; options: readonly string[] }[] = [];
    const choose: Choose = (options) => {
      const at = plan[made.length] ?? 0;
      const chosen = options[at];
      if (chosen === undefined) throw new Error(`a repeated play has only ${options.join(", ")}`);
      made.push({ at, options });
      return chosen;
    };
    await play(choose).catch((cause: unknown) => {
      const order = made.map(({ at, options }) => options[at]).join(", ");
      throw new Error(`order ${orders}: ${order}: ${String(cause)}`, { cause });
    });
    const last = made.findLastIndex(({ at, options }) => at + 1 < options.length);
    if (last < 0) return orders;
    plan = made.slice(0, last + 1).map(({ at }, index) => (index === last ? at + 1 : at));
  }
}
