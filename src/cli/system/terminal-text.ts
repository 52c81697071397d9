/** Removes from a text what a terminal would execute. */

/** Control characters except tab and newline, with the rest of a style sequence; controls of text direction. */
const CONTROL = /(?![\t\n])\p{Cc}(?:\[[0-9;:]*m)?|\p{Bidi_Control}/gu;

/** The styles that Rnix writes. Others, in untrusted parts, could hide text: concealed, or in the background's colour. */
const OWN_STYLE = /^(?:[0123479]|2[23479]|3[1-6]|39)?m$/;
const STYLE = "\u001b[";

/** Removes all control characters except styles from our own text, which may contain untrusted parts. */
export function terminalText(text: string): string {
  return text.replace(CONTROL, (found) => (isOwnStyle(found) ? found : ""));
}

export function isOwnStyle(sequence: string): boolean {
  return sequence.startsWith(STYLE) && OWN_STYLE.test(sequence.slice(STYLE.length));
}
