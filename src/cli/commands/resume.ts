/** `rnix resume`: resumes or forks a run. */

import { SyscallError } from "../../plugin/index.ts";
import { defineCommand } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { bool, count, type FlagValues } from "../flags.ts";
import { type Io, isAskable, refuseInsideRun, withSession } from "../io.ts";
import { cut, plural, printable } from "../output/format.ts";
import { isTarget, lastRun, target } from "../processes/target.ts";
import { agreed } from "../questions/answer-questions.ts";
import {
  FOLLOW_FLAGS,
  printNotices,
  printRefused,
  RECORD_TO,
  recordingIn,
  requireDaemon,
  resumeFlags,
  runAgent,
} from "../run/run.ts";
import { checkStdinFlags, readAttached, readIntent, STDIN_FLAGS } from "../run/stdin.ts";
import { optionFields, optionFlags, REPORT_FLAGS, reportsOf } from "../run-flags.ts";

/** Maximum columns of an intent in the question. */
const INTENT_WIDTH = 200;

const FLAGS = {
  fork: bool("start a new run from its steps; the original stays unchanged"),
  adopt: bool("start a new run with the conversation of a foreign one and today's rights; asks first"),
  yes: bool("with --adopt: do not ask; required without a terminal"),
  "from-step": count(
    "with --fork or --adopt: the last step to take over; the default is all recorded steps",
    "N",
  ),
  ...optionFlags("resume"),
  ...STDIN_FLAGS,
  ...REPORT_FLAGS,
  ...RECORD_TO,
  ...FOLLOW_FLAGS,
};

export default defineCommand({
  about: "Resume a run that was suspended or has ended, or fork any run",
  args: [
    {
      name: "UUID",
      about: "its UUID, the beginning of it, or its PID; the project's last run by default",
      optional: true,
    },
    {
      name: "INPUT",
      about: 'a message for the model; "-", or none with a pipe, reads it from stdin',
      optional: true,
      sentence: true,
    },
  ],
  flags: FLAGS,
  examples: {
    "rnix resume 01975a2e": "continues where it stopped: after Ctrl-C, a daemon stop or a kill -9",
    'rnix resume "now do the same for the tests"': "continues the last run",
    "rnix resume 01975a2e --budget 200000": "gives more budget to a run that has used it up",
    'rnix resume 01975a2e --fork --from-step 4 "try it without the cache"':
      "tries another way from step 4; the original run stays",
  },
  notes: [
    "A file or pipe on stdin is the message, or is attached to INPUT, to its end. A pipe that sends nothing for stdin_wait (10s) is left, with a note.",
    "The run keeps its UUID, conversation, project, rights, checks and limits, and what it has used still counts. It gets a new PID.",
    "Records that another user's Rnix wrote, such as those of a cloned project, are foreign and never resumed. --adopt takes over only the conversation; rights, limits, checks and provider are those that the agent has today.",
    "A fork is a new run with its own UUID, limits and use, and a new prompt head. Changes that the original made to files are not undone. The original may be running, and may be removed later.",
    "A tool call that was running when rnix was killed is repeated if that is safe. Otherwise the model is notified that the call may or may not have happened.",
  ],
  refused: printRefused,
  async run(io, flags, args) {
    const [uuid, inputArgument] = runAndInput(args);
    const form = { output: flags.output ?? "text", quiet: flags.quiet };
    const wanted = await printNotices(io, form, async () => {
      await refuseInsideRun(io, "resume");
      checkFlags(flags, uuid);
      checkStdinFlags(flags, inputArgument);
      const input =
        inputArgument === "-"
          ? await readIntent(io, { ...flags, asked: true, what: "input" })
          : inputArgument;
      if (input?.trim() === "") throw usageError("INPUT is empty: leave it out to resume without a message");
      if (flags.adopt && uuid !== undefined && !flags.yes) await askToAdopt(io, uuid, flags);
      const request = {
        ...(uuid === undefined ? {} : target(io, uuid)),
        fork: flags.fork || undefined,
        adopt: flags.adopt || undefined,
        from_step: flags["from-step"],
        ...(await optionFields(io, "resume", flags)),
        stream: !flags.detach || undefined,
        until_answer: true,
      };
      const isRead = inputArgument === "-";
      return {
        request,
        message: input,
        input: isRead ? undefined : (io: Io) => readAttached(io, flags),
        // The daemon does not look for runs in this folder.
        inside: flags["no-daemon"] || flags.record !== undefined,
        unattended: flags["no-input"] || flags.detach,
        ended: await reportsOf(io, flags, {
          intent: input ?? `resume ${uuid ?? ""}`,
          cwd: io.cwd,
          resumeFlags: resumeFlags(flags),
        }),
        resumeFlags: resumeFlags(flags),
      };
    });
    const { request, message } = wanted;
    const followed = await runAgent(recordingIn(io, flags.record), {
      ...wanted,
      ...form,
      env: {},
      detach: !request.stream,
      open: async (wire, { input, ...given }, io) => {
        const text =
          message === undefined ? { input: input?.trim() || undefined } : { input: message, attached: input };
        const last = uuid === undefined ? await lastRun(io, wire) : {};
        return wire.open("resume", { ...last, ...request, ...given, ...text });
      },
    });
    return followed.receipt?.exit_code ?? EXIT.ok;
  },
});

type ResumeFlags = FlagValues<typeof FLAGS>;

/** Fails with USAGE for flags that exclude or miss each other. */
function checkFlags(flags: ResumeFlags, uuid: string | undefined): void {
  requireDaemon(flags);
  if (flags["from-step"] !== undefined && !flags.fork && !flags.adopt) {
    throw usageError("--from-step needs --fork or --adopt: a run always keeps all its own steps");
  }
  if (flags.fork && flags.adopt) throw usageError("--fork and --adopt exclude each other");
  if (flags.yes && !flags.adopt) throw usageError("--yes needs --adopt");
  if (flags.adopt && uuid === undefined) throw usageError("--adopt needs the UUID of the foreign run");
}

/** A first argument that is a text and names no run is the message for the last run. */
function runAndInput(args: string[]): [string | undefined, string | undefined] {
  const [first, second] = args;
  const isText = first !== undefined && !isTarget(first) && (first === "-" || /\s/.test(first.trim()));
  return args.length === 1 && isText ? [undefined, first] : [first, second];
}

/** Shows the user what is adopted and asks for consent. Fails with PERMISSION without it. */
async function askToAdopt(io: Io, uuid: string, flags: ResumeFlags): Promise<void> {
  if (flags["no-input"] || !isAskable(io)) {
    throw usageError(
      `there is no terminal to ask at: look at rnix show ${uuid} and rnix steps ${uuid}, then give --yes`,
    );
  }
  const { agent, intent, steps } = await withSession(io, { inside: flags["no-daemon"] }, async (session) =>
    (await session.connect()).request("show", target(io, uuid)),
  );
  io.stderr.write(
    `Run ${uuid}: agent ${printable(agent)}, ${plural(steps, "step")}, "${printable(cut(intent, INTENT_WIDTH))}"\n`,
  );
  const question = "Start a new run with its conversation and the rights that this agent has today?";
  if (await agreed(io, question)) return;
  throw new SyscallError("PERMISSION", "nothing was adopted");
}
