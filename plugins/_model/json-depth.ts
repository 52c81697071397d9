/** Levels of a call's arguments: nobody's have as many. */
export const MAX_DEPTH = 500;
/** Of a whole document, with such arguments in it. What has some ten thousand takes seconds, and ends in an error. */
export const MAX_DOCUMENT_BYTES = 5_000;

/** Whether a JSON text is nested deeper than that. Of one that is none it says nothing of use. */
export function isTooDeep(json: string, levels: number): boolean {
  let depth = 0;
  for (let at = 0; at < json.length; at++) {
    switch (json[at]) {
      case '"':
        at = endOfString(json, at);
        break;
      case "[":
      case "{":
        if (++depth > levels) return true;
        break;
      case "]":
      case "}":
        depth--;
    }
  }
  return false;
}

/** Of the string that begins there: its closing quote, or where the text ends. */
function endOfString(json: string, from: number): number {
  for (let at = json.indexOf('"', from + 1); at >= 0; at = json.indexOf('"', at + 1)) {
    let slashes = 0;
    while (json[at - 1 - slashes] === "\\") slashes++;
    if (slashes % 2 === 0) return at;
  }
  return json.length;
}
