/** A line of blanks, separators and line ends that are taken back, and what stands behind a `#`. */
const NOTHING = /^[\s;&|()\\]*(?:#.*)?$/;

/** Whether a text for the shell names anything to run. `true` and `:` are commands; blanks and comments are none. */
export function hasCommand(text: string): boolean {
  return text.split("\n").some((line) => !NOTHING.test(line));
}
