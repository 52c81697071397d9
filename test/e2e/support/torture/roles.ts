import type { Turn } from "../../../support/model-server/script.ts";
import type { RecordedRequest } from "../../../support/model-server/server.ts";
import { bash, calls, says } from "../scenes.ts";
import { type Call, conversationOf } from "./conversation.ts";

/** The intents of the torture test's agents. Their model knows only these and the conversation. */
export const intents = {
  /** Appends the lines 1 to `goal` to the file, each once, whatever is killed meanwhile. */
  count: (file: string, goal: number): string => `count ${file} to ${goal}`,
  /** Has children count, one after the other. */
  lead: (file: string, goal: number): string => `lead ${file} to ${goal}`,
  /** Has two children count at the same time, each in its own file. */
  team: (one: string, other: string, goal: number): string => `team ${one}+${other} to ${goal}`,
  /** Sends numbered messages, and never repeats one whose call was cut off. */
  send: (file: string, goal: number, uuid: string): string => `send ${file} to ${goal} for ${uuid}`,
  /** Reads messages until the sender has sent all. */
  receive: (file: string): string => `receive ${file}`,
};

/**
 * The model of all agents. Each answer has its own number (`n17`), so that a call that is made twice, and an
 * effect of an unrecorded answer, are visible in the files.
 */
export class Actors {
  /** What a strict provider would have refused, and intents that no test wrote. */
  readonly refused: string[] = [];
  #answers = 0;
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  readonly play = (request: RecordedRequest): Turn => {
    try {
      const { intent, calls: made } = conversationOf(request);
      const [role = "", file = "", , goal = "0", , uuid = ""] = intent.split(/\s/);
      const nonce = `n${++this.#answers}`;
      switch (role) {
        case "count":
          return this.#count(made, file, Number(goal), nonce);
        case "lead":
          return this.#lead(made, file, Number(goal));
        case "team":
          return this.#team(made, file, Number(goal));
        case "send":
          return this.#send(made, file, Number(goal), uuid, nonce);
        case "receive":
          return this.#receive(made, file);
        default:
          throw new Error(`no agent has the intent ${JSON.stringify(intent)}`);
      }
    } catch (error) {
      this.refused.push(String(error));
      return { fault: { kind: "status", status: 400, message: String(error) } };
    }
  };

  #count(made: readonly Call[], file: string, goal: number, nonce: string): Turn {
    const lines = linesKnown(made);
    if (!lines) return calls(this.#look(file));
    const missing = numbers(goal).filter((n) => !lines.has(n));
    const [first, second] = missing;
    if (first === undefined) return says(`counted to ${goal}`);
    const append = (n: number, suffix: string): [string, Record<string, unknown>] => [
      "Bash",
      { command: this.#appending(file, n, `${nonce}${suffix}`) },
    ];
    const way = this.#random();
    if (way < 0.15 && second !== undefined) return calls(append(first, "a"), append(second, "b"));
    if (way < 0.3) return calls(["Read", { path: file }], append(first, "a"));
    return calls(append(first, "a"));
  }

  /** At once, after a while, or by a program that ignores the request to end. */
  #appending(file: string, n: number, nonce: string): string {
    const echo = `echo 'line ${n} ${nonce}' >> ${file}`;
    const way = this.#random();
    if (way < 0.7) return echo;
    if (way < 0.85) return `sleep 0.0${Math.floor(this.#random() * 10)}; ${echo}`;
    // The last of them are still there when the next kernel begins.
    return `trap '' TERM; sleep ${way < 0.96 ? 0.1 : 1}; ${echo}; sleep 0.05`;
  }

  #look(file: string): [string, Record<string, unknown>] {
    return this.#random() < 0.5
      ? ["Read", { path: file }]
      : ["Bash", { command: `cat ${file} 2>/dev/null; true` }];
  }

  #lead(made: readonly Call[], file: string, goal: number): Turn {
    const lines = made.at(-1)?.name === "Agent" ? undefined : linesKnown(made);
    if (!lines) return calls(this.#look(file));
    if (lines.size >= goal) return says(`led to ${goal}`);
    return calls([
      "Agent",
      { intent: intents.count(file, Math.min(goal, lines.size + Math.ceil(goal / 2))) },
    ]);
  }

  #team(made: readonly Call[], files: string, goal: number): Turn {
    const last = made.slice(-2);
    if (last.length === 2 && last.every(({ result }) => result.startsWith(`counted to ${goal}`))) {
      return says(`both counted to ${goal}`);
    }
    return calls(
      ...files
        .split("+")
        .map((file): [string, Record<string, unknown>] => ["Agent", { intent: intents.count(file, goal) }]),
    );
  }

  #send(made: readonly Call[], file: string, goal: number, uuid: string, nonce: string): Turn {
    // A message whose call was cut off may have been sent: it counts as sent.
    const sent = made.filter(({ name, result }) => name === "SendMessage" && !isRefused(result)).length;
    const last = made.at(-1);
    if (last?.name === "SendMessage" && isRefused(last.result)) return bash("sleep 0.05");
    if (sent < goal) return calls(["SendMessage", { to: uuid, message: `message ${sent + 1} ${nonce}` }]);
    if (last?.name === "Bash" && !isDoubtful(last.result)) return says(`sent ${goal}`);
    return bash(`touch ${file}`);
  }

  #receive(made: readonly Call[], file: string): Turn {
    const [before, last] = made.slice(-2);
    const read = (wait_ms: number): Turn => calls(["ReadMessages", { wait_ms }]);
    if (last === undefined || isDoubtful(last.result)) return read(200);
    if (last.name === "Bash") return read(last.result.includes("all sent") ? 0 : 200);
    if (!last.result.startsWith("No message")) return read(200);
    if (before?.result.includes("all sent")) return says("received");
    return bash(`test -e ${file} && echo all sent || echo more to come`);
  }
}

/** What the agent knows of a file: its last read and the lines appended since. */
function linesKnown(made: readonly Call[]): Set<number> | undefined {
  let known: Set<number> | undefined;
  for (const { name, input, result } of made) {
    const appended = name === "Bash" ? /echo 'line (\d+) /.exec(String(input.command))?.[1] : undefined;
    if (appended !== undefined) {
      if (isDoubtful(result)) known = undefined;
      else known?.add(Number(appended));
    } else if (name === "Read" || name === "Bash") {
      known =
        isDoubtful(result) && !isMissing(result) ? undefined : new Set(linesIn(result).map(({ n }) => n));
    }
  }
  return known;
}

/** The lines of counting in a file, and the messages in a conversation. */
export function linesIn(file: string): { n: number; nonce: string }[] {
  return [...file.matchAll(/\b(?:line|message) (\d+) (n\d+[ab]?)\b/g)].map(([, n, nonce = ""]) => ({
    n: Number(n),
    nonce,
  }));
}

export function numbers(goal: number): number[] {
  return Array.from({ length: goal }, (_, at) => at + 1);
}

function isDoubtful(result: string): boolean {
  return result.startsWith("Error ");
}

function isMissing(result: string): boolean {
  return result.startsWith("Error NOT_FOUND");
}

/** The receiver does not exist yet or any more: the message was not sent. */
function isRefused(result: string): boolean {
  return isMissing(result) || result.startsWith("Error CLOSED: Process");
}
