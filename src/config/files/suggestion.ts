/** The end of a message about an unknown name. */

import { nearestName } from "../../lib/edit-distance.ts";

/** The end of a message about a wrong name: ` Did you mean "coder"? There are: coder, default.` */
export function suggestion(wrong: string, names: Iterable<string>): string {
  const all = [...names];
  const near = nearestName(wrong, all);
  const question = near === undefined ? "" : ` Did you mean "${near}"?`;
  return all.length === 0 ? question : `${question} There are: ${all.toSorted().join(", ")}.`;
}
