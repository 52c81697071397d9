/** Removes from a text what a terminal would execute. */

/** Control characters except tab and newline, with the rest of a style sequence; controls of text direction. */
const CONTROL = /(?![\t\n])\p{Cc}(?:\[[0-9;]*m)?|\p{Bidi_Control}/gu;
const STYLE = "\u001b[";

/** Removes all control characters except styles from our own text, which may contain untrusted parts. */
export function terminalText(text: string): string {
  return text.replace(CONTROL, (found) => (found.startsWith(STYLE) ? found : found.slice(1)));
}
