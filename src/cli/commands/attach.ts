/** `rnix attach`: follows a run to its end. */

import { SyscallError } from "../../plugin/index.ts";
import type { Target } from "../../protocol/methods.ts";
import { defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { json, quiet } from "../flags.ts";
import { type Io, isAskable, type Wire } from "../io.ts";
import { RUN_ARGUMENT, withRun } from "../processes/target.ts";
import { answerQuestions } from "../questions/answer-questions.ts";
import { Follower, followRun } from "../run/follow.ts";
import { typeToRun } from "../run/type-to-run.ts";
import { ownName } from "../system/own-name.ts";

export default defineCommand({
  about: "Follow a run to its end; Ctrl-C detaches and leaves it running",
  args: [RUN_ARGUMENT],
  flags: { quiet, json },
  examples: {
    "rnix attach 3": "its steps from now on, then its answer; exits with its code",
    "rnix attach 3 --json": "every event as a line, the last is complete",
  },
  run(io, flags, [pid]) {
    const attach = async (wire: Wire, of: Target): Promise<number> => {
      const follower = await Follower.open(io, flags.json ? "jsonl" : "text", {
        quiet: flags.quiet,
        resume: (uuid) => `${ownName(io)} resume ${uuid}`,
        keys: ["ctrl-c detaches"],
        canLeave: true,
      });
      const { view } = follower;
      const stopAsking = await answerQuestions(io, follower, () => daemon(io));
      const detached = Promise.withResolvers<null>();
      const stop = [
        io.onSignal("SIGINT", () => detached.resolve(null)),
        io.onSignal("SIGTERM", () => detached.resolve(null)),
      ];
      let stopTyping = (): void => undefined;
      try {
        const stream = await wire.open("attach", { ...of, attended: isAskable(io) || undefined });
        const { uuid } = stream.answer;
        stopTyping = typeToRun(view.io, view, { uuid, connect: () => daemon(io) });
        view.listen();
        const ended = followRun(view.io, stream, follower);
        const receipt = await Promise.race([ended, detached.promise, view.left]);
        if (receipt !== null) return receipt.exit_code;
        ended.catch(() => undefined);
        const { pid } = stream.answer;
        view.say(`detached; process ${pid} is still running: rnix attach ${pid}`);
        return EXIT.ok;
      } finally {
        stopAsking();
        stopTyping();
        await view.close();
        for (const off of stop) off();
      }
    };
    return withRun(io, pid, attach, { alive: true });
  },
});

async function daemon(io: Io): Promise<Wire> {
  const session = await io.session({ onlyRunning: true });
  if (session === null) throw new SyscallError("UNAVAILABLE", "the daemon has ended");
  return session.connect();
}
