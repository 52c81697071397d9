/** The method answer_user: a person's answer to a question. */

import { z } from "zod";
import type { ProcInfo } from "../../kernel/types.ts";
import { expected } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import { AskAnswer } from "../../run/ask-schema.ts";
import type { Services } from "../services.ts";
import { method } from "./method.ts";
import { recovered } from "./shared/open-asks.ts";
import { refuseQuestions, requireTyped } from "./shared/refuse-inside.ts";

const AnswerRequest = () =>
  z.object({
    request_id: z.string().min(1).max(64),
    /** One for each question of the request. */
    answers: z.array(AskAnswer).min(1).max(20),
    /** How the person answers, for the record: "terminal", "rnix answer". */
    via: z.string().max(100).optional(),
    /** The caller's whole environment, in which keys for the resume are looked up. */
    env: z.record(z.string(), z.string()).optional(),
  });
type AnswerRequest = z.infer<ReturnType<typeof AnswerRequest>>;

interface Answered extends ProcRef {
  resumed: boolean;
  /** Why the run was not resumed, although it has the answer. */
  problem?: string;
}

/**
 * Answers a question of a run: the first answer counts. A suspended run keeps the answer and is resumed by it. Refused
 * inside a run, so that no run answers for its user.
 */
export const answerUser = method({
  payload: AnswerRequest,
  async handle(payload, services, caller): Promise<Answered> {
    refuseQuestions(caller);
    requireTyped(caller);
    const { request_id: id, answers, via = "client" } = payload;
    const live = services.kernel.asks.answer(id, answers, via);
    if (live) return { pid: live.pid, uuid: live.uuid, resumed: false };
    return answerSuspended({ ...payload, via }, services);
  },
});

async function answerSuspended(
  { request_id: id, answers, via = "", env }: AnswerRequest,
  services: Services,
): Promise<Answered> {
  await recovered(services);
  const history = await services.history();
  const info = (await history.asking()).find(({ asks }) => asks.some((ask) => ask.id === id));
  if (!info) throw unknown(id);
  const run = await history.byUuid(info.uuid);
  if (!run) throw unknown(id);
  await services.kernel.lifecycle.answer(info.uuid, run.records.dataDir, { id, answers: [...answers], via });
  return resumed(info, services, env);
}

/** Resumes the run that waited for the answer. Without a waker, the user resumes it. */
async function resumed(
  { uuid, pid }: ProcInfo,
  { resumeAnswered }: Services,
  env: AnswerRequest["env"],
): Promise<Answered> {
  if (!resumeAnswered) return { pid, uuid, resumed: false };
  return resumeAnswered(uuid, env).then(
    (again) => ({ pid: again, uuid, resumed: true }),
    (error) => ({ pid, uuid, resumed: false, problem: expected(error).message }),
  );
}

function unknown(id: string): SyscallError {
  const message = `No run waits for question ${id}: it was answered, its run has ended, or it is asked by another rnix (--no-daemon). \`rnix asks\` lists the open ones.`;
  return new SyscallError("NOT_FOUND", message);
}
