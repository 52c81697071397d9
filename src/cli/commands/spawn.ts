/** `rnix spawn`: runs an agent and prints its answer. */

import { defineCommand } from "../command.ts";
import { usageError } from "../exit.ts";
import { absoluteFolder } from "../files/paths.ts";
import type { Io, Wire } from "../io.ts";
import {
  FOLLOW_FLAGS,
  type Given,
  printNotices,
  printRefused,
  RECORD_TO,
  recordingIn,
  requireDaemon,
  resumeFlags,
  runAgent,
} from "../run/run.ts";
import {
  checkStdinFlags,
  readAttached,
  readIntent,
  STDIN_FLAGS,
  type StdinOptions,
  UNTRUSTED_FLAGS,
  withUntrusted,
} from "../run/stdin.ts";
import { optionFields, REPORT_FLAGS, reportsOf, SPAWN_FLAGS } from "../run-flags.ts";

export default defineCommand({
  about: "Run an agent and print its answer",
  args: [
    {
      name: "INTENT",
      about: 'what the agent should do; "-", or none with a pipe, reads it from stdin',
      optional: true,
      sentence: true,
    },
  ],
  flags: {
    ...SPAWN_FLAGS,
    ...STDIN_FLAGS,
    ...UNTRUSTED_FLAGS,
    ...REPORT_FLAGS,
    ...RECORD_TO,
    ...FOLLOW_FLAGS,
  },
  examples: {
    'rnix spawn "explain what this project does"': "the answer on stdout, the steps on stderr",
    'rnix spawn "fix the failing test" --check "npm test" --timeout 10m':
      "exits 0 only when the tests pass at the end",
    'git diff | rnix spawn "review this change" --allow Read,Grep': "stdin is attached",
    'rnix spawn --base origin/main --untrusted body.md "review this pull request"':
      "in a checkout that is not trusted: definitions come from main",
    'rnix spawn --no-daemon --output json "triage the new issues" > receipt.json':
      "for CI: one JSON object, and its exit_code as the exit code",
  },
  notes: [
    "Exit codes: 0 done and checked, 1 an error, 2 the budget was used up, 64 wrong usage, 69 no provider or no daemon, 75 suspended, 130, 137, 143 killed.",
    "Ctrl-C suspends the run; a second Ctrl-C kills it. If the command itself is killed, the run continues in the daemon.",
    "A file or pipe on stdin is attached, to its end. A pipe that sends nothing for stdin_wait (10s) is left, with a note; --stdin waits for it.",
  ],
  refused: printRefused,
  async run(io, flags, [intentArgument]) {
    const form = { output: flags.output ?? "text", quiet: flags.quiet };
    const wanted = await printNotices(io, form, async () => {
      requireDaemon(flags);
      const cwd = absoluteFolder(io, "--cwd", flags.cwd ?? ".");
      const options = {
        ...(await optionFields(io, "spawn", flags)),
        env_passed: passedVariables(io, flags.env.passed),
        cwd,
        detach: flags.detach || undefined,
        by_hand: io.byHand,
      };
      checkStdinFlags(flags, intentArgument);
      const addUntrusted = await withUntrusted(io, flags, intentArgument);
      const fromStdin = intentArgument === undefined || intentArgument === "-";
      const intent = fromStdin ? await intentFromStdin(io, intentArgument, flags) : intentArgument;
      if (intent.trim() === "") throw usageError("INTENT is empty: say what the agent should do");
      return {
        open: (wire: Wire, given: Given) =>
          wire.open("spawn", { ...options, intent, ...given, env_given: Object.keys(flags.env.set) }),
        env: flags.env.set,
        detach: flags.detach,
        unattended: flags["no-input"] || flags.detach,
        input: async (io: Io) => addUntrusted(fromStdin ? undefined : await readAttached(io, flags)),
        inside: flags["no-daemon"],
        ended: await reportsOf(io, flags, { intent, cwd, resumeFlags: resumeFlags(flags) }),
        resumeFlags: resumeFlags(flags),
      };
    });
    const { code } = await runAgent(recordingIn(io, flags.record), { ...wanted, ...form });
    return code;
  },
});

/** Fails with INVALID for a variable that is not set. */
function passedVariables({ env }: Io, names: string[]): string[] | undefined {
  const missing = names.find((name) => env[name] === undefined);
  if (missing === undefined) return names.length > 0 ? names : undefined;
  throw usageError(`--env: the variable ${missing} is not set; expected one that is, or ${missing}=VALUE`);
}

async function intentFromStdin(io: Io, argument: string | undefined, stdin: StdinOptions): Promise<string> {
  if (argument === undefined && io.stdin.kind === "tty") {
    throw usageError('INTENT is missing: what the agent is to do, such as rnix spawn "explain this project"');
  }
  return readIntent(io, { ...stdin, asked: argument === "-", what: "intent" });
}
