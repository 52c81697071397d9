/** The open file of /dev/llm/claude. */

import type { OpenContext } from "rnix/plugin";
import { CliFile, commandOf } from "../_model/cli-file.ts";
import type { ModelFacts } from "../_model/model-file.ts";
import { keyOf, settingsOf } from "../_model/settings.ts";
import { binary, locate } from "./binary.ts";
import { program } from "./program.ts";
import { Run } from "./run.ts";

const FACTS: ModelFacts = {
  name: "claude",
  devicePath: "/dev/llm/claude",
  models: ["sonnet", "opus", "haiku"],
  can: { effort: true, images: true, runs_tools: true },
};

/** Opens /dev/llm/claude. Fails with UNAVAILABLE if the program is missing, before a run starts. */
export async function claudeFile(context: OpenContext): Promise<CliFile> {
  const command = commandOf(context);
  await locate(context, command);
  const { base_url: baseUrl } = settingsOf(context);
  return new CliFile(FACTS, async (request, signal) => {
    const [found, key, systemPromptFile] = await Promise.all([
      binary(context, command),
      keyOf(context, { required: false }),
      context.spill("claude-system-prompt.txt", request.system_prompt),
    ]);
    const run = new Run(context, signal);
    const events = await run.start(request.tools?.length ? context.tools : undefined, (endpoint) =>
      program(found, request, { given: context.env, systemPromptFile, endpoint, baseUrl, key }),
    );
    return { events, end: () => run.end() };
  });
}
