/** A control character but tab and newline, with what makes a style of it; controls of the direction of text. */
const CONTROL = /(?![\t\n])\p{Cc}(?:\[[0-9;]*m)?|\p{Bidi_Control}/gu;
const STYLE = "\u001b[";

/** Our own text with styles, and parts from outside in it: of control characters only styles are left. */
export function terminalText(text: string): string {
  return text.replace(CONTROL, (found) => (found.startsWith(STYLE) ? found : found.slice(1)));
}
