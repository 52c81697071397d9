/** What `rnix doctor` has found by one of its checks. */

export interface Finding {
  name: string;
  /** `note`: worth knowing, nothing to do. */
  state: "ok" | "note" | "bad";
  text: string;
  /** What to do. */
  advice?: string;
}

export function ok(name: string, text: string): Finding {
  return { name, state: "ok", text };
}

export function note(name: string, text: string, advice?: string): Finding {
  return { name, state: "note", text, advice };
}

export function bad(name: string, text: string, advice?: string): Finding {
  return { name, state: "bad", text, advice };
}
