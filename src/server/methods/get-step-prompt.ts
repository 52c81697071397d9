/** The method get_step_prompt. */

import { z } from "zod";
import { SyscallError } from "../../plugin/index.ts";
import { Target } from "../../protocol/fields.ts";
import type { StepPrompt } from "../../protocol/methods.ts";
import { promptOfStep } from "../records/step-prompt.ts";
import { method } from "./method.ts";
import { findRun, recordsOf } from "./shared/find-run.ts";

/** Returns the whole prompt of one step: system prompt, tools and messages as they were sent. */
export const getStepPrompt = method({
  payload: () => Target().extend({ step: z.int().positive() }),
  async handle({ step, ...target }, services): Promise<StepPrompt> {
    const run = await recordsOf(services, await findRun(services, target));
    const history = await services.history();
    const prompt = await promptOfStep(run, step, (uuid) => history.byUuid(uuid, target.cwd));
    if (prompt) return { pid: run.info.pid, uuid: run.info.uuid, ...prompt };
    const message = `PID ${run.info.pid} has no recorded answer in step ${step}. \`rnix steps ${run.info.pid}\` lists its steps.`;
    throw new SyscallError("NOT_FOUND", message);
  },
});
