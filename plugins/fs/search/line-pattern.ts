/** The pattern of a Grep: a regular expression that takes time in proportion to the text, whatever it is. */

import { RE2JS } from "re2js";
import { SyscallError } from "rnix/plugin";

/** A pattern that ends with an odd number of backslashes before an n. */
const NEWLINE = /(?<!\\)(?:\\\\)*\\n/;

/**
 * Has the syntax and the engine of RE2. JavaScript's own engine backtracks: one pattern on one line can take minutes,
 * ending its Worker does not stop it, and beyond a limit of steps it wrongly answers "no match".
 */
export class LinePattern {
  readonly #line: RE2JS;
  readonly #anyLine: RE2JS;

  /** Fails with INVALID for a pattern that RE2 does not take. */
  constructor(pattern: string, { ignoreCase }: { ignoreCase: boolean }) {
    if (NEWLINE.test(pattern))
      throw invalid(pattern, "files are searched line by line, so \\n never matches");
    const flags = ignoreCase ? RE2JS.CASE_INSENSITIVE : 0;
    try {
      this.#line = RE2JS.compile(pattern, flags);
      this.#anyLine = RE2JS.compile(pattern, flags | RE2JS.MULTILINE);
    } catch (thrown) {
      if (!(thrown instanceof Error)) throw thrown;
      const why = thrown.message.replace(/^error parsing regexp: /, "");
      throw invalid(pattern, `${why}. Its syntax is that of RE2: no look-around and no back-references`);
    }
  }

  matches(line: string): boolean {
    return this.#line.test(line);
  }

  /** Where a line's first match begins. */
  positionIn(line: string): number {
    const matcher = this.#line.matcher(line);
    return matcher.find() ? matcher.start() : 0;
  }

  /** False only if no line of the text matches: much faster than to look at each. */
  mayMatchIn(text: string): boolean {
    // Before the line's end, `$` takes no carriage return.
    return text.includes("\r") || this.#anyLine.test(text);
  }
}

function invalid(pattern: string, why: string): SyscallError {
  return new SyscallError(
    "INVALID",
    `The pattern ${JSON.stringify(pattern.slice(0, 200))} can't be used: ${why}.`,
  );
}
