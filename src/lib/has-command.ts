/** A test for shell lines that run nothing. */

/** A line that runs nothing: blanks, separators, escaped line ends and a comment. */
const NOTHING = /^[\s;&|()\\]*(?:#.*)?$/;

/** Whether a shell text runs any command. `true` and `:` are commands; blanks and comments are not. */
export function hasCommand(text: string): boolean {
  return text.split("\n").some((line) => !NOTHING.test(line));
}
