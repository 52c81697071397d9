/** Tells whether a call would fail even with a person's yes, so that no person is asked in vain. */

import { accessSync, constants, existsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { isWithin, realOrSame } from "../../lib/inner-path.ts";
import type { GuardedFolder } from "../../plugin/index.ts";
import type { CallView } from "./call-view.ts";

/** Whether a missing file may be read is not said: outside of the run's folders not even existence is revealed. */
export function whyImpossible(view: CallView, guarded: readonly GuardedFolder[]): string | null {
  const real = view.realTarget;
  if (real === undefined) return null;
  const guard = guarded.find(
    ({ dir, readable }) => (view.writes || !readable) && isWithin(realOrSame(dir), real),
  );
  if (guard) {
    return guard.readable
      ? `${real} belongs to the records of Rnix, which tools can't change.`
      : `${real} belongs to the settings and keys of Rnix, which tools can't read.`;
  }
  return view.writes ? whyUnwritable(real) : null;
}

/** A file is replaced, so its folder must be writable: the nearest one that exists. */
function whyUnwritable(real: string): string | null {
  if (statSync(real, { throwIfNoEntry: false })?.isDirectory()) return `${real} is a folder, not a file.`;
  let folder = dirname(real);
  while (!existsSync(folder) && folder !== dirname(folder)) folder = dirname(folder);
  try {
    accessSync(folder, constants.W_OK | constants.X_OK);
    return null;
  } catch (thrown) {
    return `${folder} can't be written (${errnoOf(thrown) ?? "unknown reason"}).`;
  }
}
