/** The modes of a run: which calls a person is asked for without a rule. */

/** From the laxest to the strictest. */
export const ASK_MODES = ["off", "edits", "outside", "plan"] as const;
export type AskMode = (typeof ASK_MODES)[number];

export const MODE_ABOUTS: Readonly<Record<AskMode, string>> = {
  plan: "only look; the answer is a plan that you accept",
  outside: "ask before what acts outside the project's files",
  edits: "as outside, but commands that only change the project's files need no question",
  off: "don't ask, except for ask rules",
};

export function isStricter(mode: AskMode, than: AskMode): boolean {
  return ASK_MODES.indexOf(mode) > ASK_MODES.indexOf(than);
}

/** The mode that counts of a run with these recorded rights. */
export function recordedMode(o: { ask_mode?: AskMode; ask_mode_above?: AskMode }): AskMode {
  return stricterMode(o.ask_mode ?? "off", o.ask_mode_above ?? "off");
}

export function stricterMode(a: AskMode, b: AskMode): AskMode {
  return isStricter(a, b) ? a : b;
}
