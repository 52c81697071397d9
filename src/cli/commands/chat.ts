/** `rnix chat`: a conversation at the terminal. */

import { visibleWords } from "../../plugin/visible.ts";
import { defineCommand } from "../command.ts";
import { usageError } from "../exit.ts";
import { absoluteFolder } from "../files/paths.ts";
import { bool, pairs, text } from "../flags.ts";
import { environment, noTerminal, refuseInsideRun } from "../io.ts";
import { target } from "../processes/target.ts";
import { optionFields, optionFlags } from "../run-flags.ts";
import { ownName } from "../system/own-name.ts";

export default defineCommand({
  about: "Talk with an agent: a run that waits for your messages",
  flags: {
    continue: bool("continue the project's last conversation", { short: "c" }),
    resume: text("continue this conversation: its UUID, the beginning of it, or its PID", "UUID"),
    ...optionFlags("chat"),
    cwd: text("work in this folder", "DIR"),
    env: pairs("set a variable for the programs of the conversation"),
  },
  examples: {
    rnix: "the same as rnix chat, at a terminal",
    "rnix chat --agent coder --max-cost 2": "with another agent, for at most $2",
    "rnix chat --continue": "the project's last conversation, also after a reboot",
    "rnix chat --resume 01975a2e": "a certain one; /resume in a conversation offers them all",
  },
  notes: [
    "The run begins with your first message. It is recorded as any other, waits in the daemon, and is suspended 10 minutes after you have left (chat_idle).",
    "While the agent works, Enter sends a message for its next step, Alt+Enter one for after its answer, and Esc stops it. /help lists commands and keys.",
    "What you type is recorded in a history file of your data folder, mode 0600: it is not searched for secrets.",
  ],
  async run(io, flags) {
    await refuseInsideRun(io, "chat");
    if (flags.continue && flags.resume !== undefined) {
      throw usageError("--continue and --resume exclude each other");
    }
    const why = noTerminal(io);
    if (why !== undefined)
      throw usageError(`a conversation needs a terminal, and ${why}. For one answer: rnix spawn "…"`);
    if (flags.provider === undefined && flags.resume === undefined && !flags.continue) {
      const { setUpFirst } = await import("../setup/offer.ts");
      await setUpFirst(io);
    }
    const cwd = absoluteFolder(io, "--cwd", flags.cwd ?? ".");
    const named = flags.resume === undefined ? undefined : target({ ...io, cwd }, flags.resume);
    const env = { ...environment(io), ...flags.env };
    const options = {
      ...(await optionFields(io, "chat", flags)),
      cwd,
      env,
      env_given: Object.keys(flags.env),
      attended: true,
    };
    const [{ projectOf, userPaths }, { runChat }, { conversations, pastRun }] = await Promise.all([
      import("../../server/offline-commands.ts"),
      import("../chat/chat-terminal.ts"),
      import("../chat/conversation-commands.ts"),
    ]);
    const project = projectOf({ cwd, env: io.env });
    return runChat(
      { ...io, cwd },
      {
        options,
        project: { dir: project.dir, id: project.id, isProject: project.kind !== "none" },
        user: userPaths(io.env),
        resumeCommand: (uuid) =>
          `${ownName(io)} ${visibleWords(["chat", "--resume", uuid, ...givenFlags(flags)])}`,
        async past(chat) {
          if (named !== undefined) return pastRun(await chat.link.request("show", named));
          if (!flags.continue) return null;
          const [last] = await conversations(chat);
          if (last !== undefined) return pastRun(last);
          chat.print("there is no conversation in this project yet");
          return null;
        },
      },
    );
  },
});

type Given = Record<string, unknown>;

/** The flags that were given, as they are written, without those that choose the conversation. */
function givenFlags(flags: Given): string[] {
  return Object.entries(flags).flatMap(([name, value]) => {
    if (name === "continue" || name === "resume" || value === undefined || value === false) return [];
    if (value === true) return [`--${name}`];
    if (Array.isArray(value)) return value.flatMap((one) => [`--${name}`, String(one)]);
    if (typeof value === "object" && value !== null)
      return Object.entries(value).flatMap(([key, text]) => [`--${name}`, `${key}=${String(text)}`]);
    return [`--${name}`, name === "timeout" && typeof value === "number" ? `${value}ms` : String(value)];
  });
}
