/** `rnix setup`: chooses a provider and a model, stores the key, and tries them. */

import { defineCommand } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { text } from "../flags.ts";
import { refuseInsideRun, withSession } from "../io.ts";

export default defineCommand({
  about: "Choose a provider, enter its key, choose a model, and send one word to it",
  flags: {
    provider: text("set up this provider, without a question", "NAME"),
    model: text("use this model, without a question", "MODEL"),
    "key-from-env": text("store the key that this variable of your environment has", "NAME"),
    "key-command": text(
      "a command that prints the key, such as 'pass show llm'; it is run for each run",
      "CMD",
    ),
    "base-url": text("the address of a server with OpenAI's protocol, for a provider of a new name", "URL"),
  },
  examples: {
    "rnix setup": "asks, tries what you chose, then writes it; Ctrl-C changes nothing",
    "rnix setup --provider anthropic --key-from-env MY_KEY --model claude-opus-5": "without a terminal",
    "rnix setup --provider work --base-url https://llm.example.com/v1 --key-command 'pass show llm' --model m":
      "a server of your own",
  },
  notes: [
    "The key goes to ~/.config/rnix/env (mode 0600), the rest to ~/.config/rnix/providers.yaml. Comments and other entries of both files stay.",
    "Trying a model sends it one word, which costs a fraction of a cent. Nothing is written before it has answered, unless you say so.",
  ],
  async run(io, flags) {
    await refuseInsideRun(io, "setup");
    if (flags["key-from-env"] !== undefined && flags["key-command"] !== undefined) {
      throw usageError("--key-from-env and --key-command exclude each other: a provider has one key");
    }
    const { setUpWithFlags, setUpAtTerminal, isTerminal } = await import("../setup/set-up.ts");
    const hasKey = flags["key-from-env"] !== undefined || flags["key-command"] !== undefined;
    const asks = !hasKey && flags["base-url"] === undefined && isTerminal(io);
    return withSession(io, {}, async (session) => {
      if (!asks) return setUpWithFlags(io, session, flags);
      const isDone = await setUpAtTerminal(io, session, flags);
      return isDone ? EXIT.ok : EXIT.error;
    });
  },
});
