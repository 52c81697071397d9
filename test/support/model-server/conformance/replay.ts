import replay from "../../../../plugins/replay/index.ts";
import { Folder } from "../../folder.ts";
import { ask, openModel } from "../device.ts";
import type { Turn } from "../server.ts";
import type { Answerer } from "./answers.ts";

/** Its answers are those of a script. */
export const REPLAY: Answerer = {
  title: "replay",
  thinks: true,
  async answered(turn, stream) {
    using folder = new Folder();
    folder.put("script.json", JSON.stringify({ responses: [scripted(turn)] }));
    const file = await openModel(replay, "/dev/llm/replay", { cwd: folder.dir });
    const outcome = await ask(file, { stream, model: "script.json" });
    await file.close();
    return outcome;
  },
};

/** A turn of the server as a script says it. */
function scripted({ text, reasoning, tool_calls, usage, stop }: Turn): object {
  const calls = tool_calls?.map(({ rawArguments, ...call }) => ({
    ...call,
    ...(rawArguments === undefined ? {} : { invalid: { text: rawArguments, reason: "it is not JSON" } }),
  }));
  return { text, reasoning, tool_calls: calls, usage, stop_reason: stop };
}
