/** What a live process has to show for its run: result, checks, changed files. */

import type { CheckResult } from "../../store/runs/schema.ts";
import type { RunProgress } from "./run-progress.ts";

/** The verdict is made of it. Written by the process's task and by what detects changed files. */
export class LiveResult {
  text: string | null = null;
  /** The result as a document of the output schema. */
  output: unknown = null;
  partial = false;
  /** Results of all attempts. */
  readonly checks: CheckResult[];
  readonly filesChanged: Set<string>;
  filesChangedComplete = false;

  constructor({ checks, filesChanged }: RunProgress) {
    this.checks = [...checks];
    this.filesChanged = new Set(filesChanged);
  }

  /** A complete answer. */
  answer(text: string): void {
    this.text = text;
    this.partial = false;
  }

  /** An answer that was cut off. */
  cut(text: string): void {
    this.text = text;
    this.partial = true;
  }
}
