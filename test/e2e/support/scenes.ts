import type { Turn } from "../../support/model-server/script.ts";
import type { RecordedRequest, TurnFunction } from "../../support/model-server/server.ts";

import { firstUserMessage } from "./requests.ts";

/** The model's answer to one request of a run. */
export type Scene = Turn | ((request: RecordedRequest) => Turn | Promise<Turn>);

/** The scenes of each run, by the beginning of its intent. */
export type Book = Record<string, Scene[]>;

/**
 * One model for many runs: the beginning of a run's intent, which is in every request, chooses its scenes.
 * The n-th request of a run, retries included, gets the n-th scene; the last one stays. A request without an
 * answer in it after one that had some starts from the first scene again.
 */
export function scenes(book: Book): TurnFunction {
  const played = new Map<string, { scene: number; answers: number }>();
  return (request) => {
    const asked = firstUserMessage(request);
    const intent = Object.keys(book).find((one) => asked.startsWith(one));
    const list = intent === undefined ? undefined : book[intent];
    if (intent === undefined || list === undefined) return unknown("no scene is for this request's intent");
    const before = played.get(intent);
    const answers = request.assistantMessages;
    const goesOn = before !== undefined && answers >= before.answers;
    const at = goesOn ? Math.min(before.scene + 1, list.length - 1) : 0;
    played.set(intent, { scene: at, answers });
    const scene = list[at];
    if (scene === undefined) return unknown(`"${intent}" has no scenes`);
    return typeof scene === "function" ? scene(request) : scene;
  };
}

/** An answer that calls these tools. */
export function calls(...wanted: [name: string, input: Record<string, unknown>][]): Turn {
  return { tool_calls: wanted.map(([name, input]) => ({ name, input })) };
}

/** An answer that calls Bash with each of these commands. */
export function bash(...commands: string[]): Turn {
  return { tool_calls: commands.map((command) => ({ name: "Bash", input: { command } })) };
}

/** The provider asks for a wait of this many seconds. */
export function limited(seconds: number): Turn {
  const headers = { "retry-after": String(seconds) };
  return { fault: { kind: "status", status: 429, headers, message: "too many requests" } };
}

/** The last answer of a run. */
export function says(text: string): Turn {
  return { text };
}

function unknown(message: string): Turn {
  return { fault: { kind: "status", status: 400, message } };
}
