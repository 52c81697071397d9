import type { Code } from "rnix/plugin";
import type { SearchRequest } from "./search.ts";

/** What crosses between the kernel's thread and a search Worker, which does one search at a time. */
export type ToSearch =
  | { t: "search"; request: SearchRequest }
  | { t: "verdict"; id: number; allowed: boolean[] };

export type FromSearch =
  /** Which of these files may be read and named? */
  | { t: "ask"; id: number; paths: string[] }
  | { t: "done"; answer: string }
  | { t: "failed"; code: Code; message: string };
