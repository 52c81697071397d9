/** Tells how deep a JSON text is nested, before it is parsed. */

const QUOTE = 34;
const BACKSLASH = 92;
const OPEN_LIST = 91;
const CLOSE_LIST = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

/** Whether the JSON has more than `most` levels. Parsing and checking a value of 100,000 levels blocks for a second. */
export function isDeeper(json: string, most: number): boolean {
  // Each level has two brackets.
  if (json.length <= 2 * most) return false;
  let levels = 0;
  let inString = false;
  for (let at = 0; at < json.length; at++) {
    const char = json.charCodeAt(at);
    if (inString) {
      if (char === BACKSLASH) at++;
      else if (char === QUOTE) inString = false;
    } else if (char === QUOTE) inString = true;
    else if (char === OPEN_LIST || char === OPEN_OBJECT) {
      if (++levels > most) return true;
    } else if (char === CLOSE_LIST || char === CLOSE_OBJECT) levels--;
  }
  return false;
}
