/** What a recall finds. */

/** One result, best first. */
export interface Found {
  kind: "entry" | "run";
  /** Of an entry. */
  id?: string;
  target?: string;
  /** Of a run. */
  uuid?: string;
  pid?: number;
  agent?: string;
  project?: string;
  step?: number;
  time: string | null;
  text: string;
}
