/** `rnix completions`: prints the completion script of a shell. */

import { defineCommand } from "../command.ts";
import { bash, fish, zsh } from "../completion/scripts.ts";
import { EXIT, usageError } from "../exit.ts";
import { didYouMean } from "../flags.ts";

const SHELLS = { bash, zsh, fish };

export default defineCommand({
  about: "Print the completion script of a shell",
  args: [{ name: "SHELL", about: "bash, zsh or fish", choices: Object.keys(SHELLS) }],
  examples: {
    "rnix completions bash > ~/.local/share/bash-completion/completions/rnix": "bash",
    "rnix completions zsh > ~/.zfunc/_rnix": "zsh, with ~/.zfunc in fpath",
    "rnix completions fish > ~/.config/fish/completions/rnix.fish": "fish",
  },
  notes: [
    "Commands, flags and files are completed, and the runs, agents, providers, models, tools, skills, jobs and questions of the project.",
  ],
  async run(io, _flags, [shell = ""]) {
    const script = Object.entries(SHELLS).find(([name]) => name === shell)?.[1];
    const names = Object.keys(SHELLS);
    const hint = didYouMean(shell, names);
    if (script === undefined)
      throw usageError(`SHELL: expected ${names.join(", ")}, got ${JSON.stringify(shell)}${hint}`);
    io.stdout.write(script);
    return EXIT.ok;
  },
});
