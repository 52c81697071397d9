/** The texts of a question about a tool call, and the message about its verdict for the model. */

import type { AskMode } from "../../lib/ask-modes.ts";
import { ASK_MODES } from "../../lib/ask-modes.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { AskedCall, AskQuestion, AskVerdict, OpenAsk } from "../../run/ask-schema.ts";
import { modeName, TAINT_ASKED } from "../permission/ask-rules.ts";

const MODES = [...ASK_MODES.map(modeName), TAINT_ASKED];
/** Maximum characters of a command line or path in a verdict and in a message. */
const MAX_QUOTED = 500;

/** What is asked about: the file that was opened, or the call's subject. */
export function quoted({ opened, subject }: Pick<AskedCall, "opened" | "subject">): string {
  const text = opened ?? subject;
  return text.length > MAX_QUOTED ? `${text.slice(0, MAX_QUOTED - 1)}…` : text;
}

/** What a question is about: the call, or the questions of a driver. */
export function askedText({ call, questions }: Pick<OpenAsk, "call" | "questions">): string {
  if (call) return quoted(call);
  return quoted({ subject: questions.map(({ question }) => question).join(" ") });
}

/** The question about a tool call, with its choices. */
export function permissionQuestion(call: AskedCall, o: { inProject: boolean }): AskQuestion {
  const { opens } = call;
  const always = call.always.join(", ");
  return {
    question: `Allow ${nameOf(call)}?`,
    options: [
      {
        id: "yes",
        label: "Yes",
        ...(opens && { about: `opens ${opens.dir} to this run${opens.write ? "" : " for reading"}` }),
      },
      // A yes opens the folder until the run ends.
      ...(always === "" || opens
        ? []
        : [{ id: "always", label: `Yes, and always ${always}`, about: "until this run ends" }]),
      ...(always === "" || !o.inProject
        ? []
        : [
            {
              id: "always_project",
              label: `Yes, and always ${always} in this project`,
              about: "in every run, until you withdraw it with rnix trust --ask-again",
            },
          ]),
      { id: "no", label: "No" },
    ],
    multi: false,
    text: true,
    default: ["no"],
  };
}

/** The error of a refused call. Its message is for the model. */
export function refusedBy(call: AskedCall, { by, rules, text }: AskVerdict): SyscallError {
  const what = nameOf(call);
  const isByMode = call.why !== undefined && MODES.some((mode) => rules.includes(mode));
  const rule = isByMode ? `asked because ${call.why?.join("; ")}` : `ask rule ${rules.join(", ")}`;
  const next = "Continue without it, and say in your answer what is left to do.";
  const why = {
    user: text
      ? `The user said no to ${what}: ${text}`
      : `The user said no to ${what}. Do not try it in another way. ${next}`,
    rule: `${what} was refused by an earlier answer (${rule}). ${next}`,
    on_ask: `${what} needs a person's yes (${rule}), and there is no person to ask. ${next}`,
    expiry: `${what} needs a person's yes (${rule}), and no answer came in time. ${next}`,
  }[by];
  return new SyscallError("PERMISSION", why, { device: call.path });
}

/** The error of a call that a tainted run may not make. Its message is for the model. */
export function refusedByTaint(call: AskedCall): SyscallError {
  const why = `${nameOf(call)} is refused, because ${call.why?.join("; ")}. Continue without it, and say in your answer what is left to do.`;
  return new SyscallError("PERMISSION", why, { device: call.path });
}

/** The error of a call that the mode plan refuses. Its message is for the model. */
export function refusedByPlan(call: AskedCall): SyscallError {
  const why = `${nameOf(call)} may change something, and the run is in the mode plan: it may only look. Say in your plan what you would do.`;
  return new SyscallError("PERMISSION", why, { device: call.path });
}

/** What a model reads about another mode; "" for nothing. */
export function modeNews(before: AskMode, after: AskMode): string {
  if (before === after || (before !== "plan" && after !== "plan")) return "";
  return after === "plan"
    ? "The mode is plan: only look. Calls that change something are refused. End with a plan of what you would do: the user accepts it, or says what to change."
    : "The mode is no longer plan: you may change things now.";
}

/** `Bash(git push)`, or the path of a file that is opened itself. */
function nameOf(call: AskedCall): string {
  const { tool, path, opened, subject } = call;
  if (tool === null) return opened ?? path;
  const text = quoted(call);
  return text === "" || (opened === undefined && subject.startsWith("{")) ? tool : `${tool}(${text})`;
}

/** The instruction that came with a yes, as it follows the result of the call; "" for none. */
export function instructionText(verdicts: readonly AskVerdict[]): string {
  const texts = verdicts.flatMap(({ verdict, text }) =>
    verdict !== "no" && verdict !== "answered" && text ? [text] : [],
  );
  return texts.map((text) => `\n\n[The user allowed this call and added: ${text}]`).join("");
}
