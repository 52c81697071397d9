/** What a process asks a person: whether a tool call may be made, or a driver's own questions. */

import type { AskQuestion as AskedQuestion } from "../../plugin/index.ts";
import type { AskedCall, AskQuestion, AskVerdict, OpenAsk } from "../../run/ask-schema.ts";
import type { Asked } from "../permission/ask-rules.ts";
import type { FileGrant } from "../permission/file-grant.ts";
import type { Process } from "../process/process.ts";
import { askedText, permissionQuestion } from "./ask-text.ts";
import { recordedQuestions } from "./questions.ts";

/** Maximum characters of an input that is shown with a question. */
const MAX_INPUT = 200_000;

export interface AskRequest {
  kind: OpenAsk["kind"];
  /** The tool call that asks; undefined for an open that is no call. */
  callId: string | undefined;
  call: AskedCall | null;
  questions: AskQuestion[];
  /** What the answer allows; null for questions of a driver. */
  grant: FileGrant | null;
  /** The verdict that this call got before a crash or a suspension. */
  earlier: AskVerdict | undefined;
}

/** A permission, which is a call whose rules allow it only with a person's yes. */
export interface PermissionRequest extends AskRequest {
  call: AskedCall;
}

export function permissionRequest(
  proc: Process,
  grant: FileGrant,
  { rules, why }: Asked,
  opened: string | undefined,
  o: { inProject: boolean },
): PermissionRequest {
  const { callId, input = {} } = grant;
  const { tool, path, subject } = grant.call;
  const text = JSON.stringify(input);
  const reason = typeof input.description === "string" ? input.description : undefined;
  const isNew = opened !== undefined && opened !== subject;
  const opens = proc.permissions.opens(grant.call);
  const call: AskedCall = {
    tool,
    path,
    subject: proc.secrets.hide(subject ?? (tool === null ? path : text)),
    input: text.length <= MAX_INPUT ? JSON.parse(proc.secrets.hide(text)) : {},
    ...(text.length > MAX_INPUT && { input_chars: text.length }),
    rules,
    why: why.map((text) => proc.secrets.hide(text)),
    ...(isNew && { opened }),
    ...(reason && { reason: proc.secrets.hide(reason) }),
    ...(opens && { opens }),
    always: proc.permissions.suggestAlways(isNew ? { ...grant.call, opened } : grant.call),
  };
  const questions = [permissionQuestion(call, o)];
  const [earlier] = verdictsOf(proc, callId, { call, questions });
  return { kind: "permission", callId, call, questions, grant, earlier };
}

/** `before`: how often the call has asked the same since it was made. */
export function questionRequest(
  proc: Process,
  callId: string | undefined,
  asked: readonly AskedQuestion[],
  before: (what: string) => number,
): AskRequest {
  const questions = recordedQuestions(asked, (text) => proc.secrets.hide(text));
  const what = askedText({ call: null, questions });
  const earlier = verdictsOf(proc, callId, { call: null, questions })[before(what)];
  return { kind: "question", callId, call: null, questions, grant: null, earlier };
}

function verdictsOf(
  { verdicts }: Process,
  callId: string | undefined,
  asked: Pick<OpenAsk, "call" | "questions">,
): AskVerdict[] {
  const known = callId === undefined ? [] : (verdicts.get(callId) ?? []);
  const isQuestion = asked.call === null;
  return known.filter(
    ({ what, answers }) => what === askedText(asked) && (answers !== undefined) === isQuestion,
  );
}
