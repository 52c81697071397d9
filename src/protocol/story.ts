/** The events of a run, as clients get them. */

import type { StoryEvent } from "../store/runs/story.ts";

/** An event of a run. `title`: one line for people, up to 120 characters. */
export interface StoryLine {
  /** Its number: a stream continues after it. null: an older Rnix recorded it. */
  n: number | null;
  t: StoryEvent["t"];
  ts?: string;
  step?: number;
  /** Of a call or a background unit. */
  id?: string;
  title?: string;
  status?: string;
  duration_ms?: number;
  tokens?: number;
  pid?: number;
  /** Only with `bodies`. */
  body?: unknown;
}
