/** Waits until crashed runs are recorded as suspended. */

import { withTimeout } from "../../../lib/clock.ts";
import type { Services } from "../../services.ts";

/** How long a command waits until runs that a crash has cut off are recorded as suspended. */
const RECOVERY_MS = 2_000;

/** A question of a run that a crash has cut off is known when its record says so. */
export async function recovered({ clock, recovery }: Services): Promise<void> {
  await withTimeout(clock, RECOVERY_MS, recovery.start());
}
