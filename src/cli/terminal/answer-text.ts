/** One answer of the model as it arrives, rendered as Markdown, or as code if it is a JSON document. */

import type { Look } from "./look.ts";
import { MarkdownStream } from "./markdown.ts";

/** The beginning of a JSON document: as Markdown it would lose characters. */
const JSON_BEGIN = /^\s*(\{|\[\s*[[{"\d-])/;

export class AnswerText {
  /** Whether lines of it stand above the live region. */
  isCommitted = false;
  readonly #stream: MarkdownStream;
  readonly #isJson: boolean;

  /** `beginning` decides how the text is shown; push it too. */
  constructor(beginning: string, look: Look) {
    this.#stream = new MarkdownStream(look);
    this.#isJson = JSON_BEGIN.test(beginning);
    if (this.#isJson) this.#stream.push("```json\n");
  }

  push(text: string): void {
    this.#stream.push(text);
  }

  /** The lines that will not change any more and were not returned before. */
  finished(columns: number): string[] {
    return this.#stream.finished(columns);
  }

  /** The unfinished rest, at most `maxRows` lines. */
  rest(columns: number, maxRows: number): string[] {
    return this.#stream.rest(columns, maxRows);
  }

  /** Ends the text. Returns the lines that were not returned before. */
  end(columns: number): string[] {
    if (this.#isJson) this.#stream.push("\n```");
    return this.#stream.end(columns);
  }
}
