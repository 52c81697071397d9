/** What `rnix doctor` has found by one of its checks. */

export interface Finding {
  name: string;
  /** `note`: worth knowing, nothing to do. */
  state: "ok" | "note" | "bad";
  text: string;
  /** What to do. */
  advice?: string;
}
