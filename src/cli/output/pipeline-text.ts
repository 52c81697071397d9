/** Keeps commands of pipelines inert in what Rnix prints: their runners execute them from the log of a step. */

type Env = Readonly<Record<string, string | undefined>>;

/** Whether what is printed becomes the log of a step whose runner executes commands in it. */
export function isPipeline({ GITHUB_ACTIONS, TF_BUILD, TEAMCITY_VERSION }: Env): boolean {
  return [GITHUB_ACTIONS, TF_BUILD, TEAMCITY_VERSION].some((value) => value && value !== "false");
}

/** `::error`, of GitHub, at the start of a line; `##[group]`, `##vso[…]` and `##teamcity[…]`, of GitHub, Azure and TeamCity. */
const COMMAND = /(?<![^\n\r])[\s\u0085]*::(?=[a-z])|##(?:vso|teamcity)?\[/gi;
/** More than the longest beginning of a command. */
const TAIL = 16;
/** An invisible character, which no name of a command has. */
const BREAK = "\u200b";

/** Text that is printed piece by piece: a command may be in two of them. */
export class PipelineText {
  /** The end of the line so far; of a longer one without its start. */
  #tail = "";

  inert(text: string): string {
    const before = this.#tail;
    const whole = before + text;
    const line = whole.slice(Math.max(whole.lastIndexOf("\n"), whole.lastIndexOf("\r")) + 1);
    const trimmed = line.replace(/^[\s\u0085]+/, "");
    this.#tail = trimmed.length > TAIL ? `.${trimmed.slice(-TAIL)}` : trimmed;
    let shown = "";
    let at = before.length;
    for (const { 0: found, index } of whole.matchAll(COMMAND)) {
      const end = index + found.length;
      if (end < before.length || (end === before.length && !found.endsWith(":"))) continue;
      const cut = Math.max(before.length, end - 1);
      shown += whole.slice(at, cut) + BREAK;
      at = cut;
    }
    return shown + whole.slice(at);
  }
}

/** A value as JSON that a program reads as before. */
export function inertJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replaceAll(/##(?=(?:vso|teamcity)?\[)/gi, "#\\u0023");
}
