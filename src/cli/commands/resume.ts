import { SyscallError } from "../../plugin/index.ts";
import { agreed, isAskable } from "../ask.ts";
import { defineCommand } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { bool, choice, costLimit, count, limit, timeLimit } from "../flags.ts";
import { OUTPUTS } from "../follow.ts";
import { type Io, refuseInsideRun, withSession } from "../io.ts";
import { cut, plural, printable } from "../output/format.ts";
import { printNotices, runAgent } from "../run.ts";
import { readIntent } from "../stdin.ts";
import { target } from "../target.ts";

/** Columns of it in the question. */
const INTENT_WIDTH = 200;

export default defineCommand({
  about: "Go on with a run that was suspended or has ended, or fork any",
  args: [
    { name: "UUID", about: "its UUID, the beginning of it, or its PID" },
    { name: "INPUT", about: 'what to tell it first, "-" reads it from stdin', optional: true },
  ],
  flags: {
    fork: bool("begin a new run with its steps, and leave it as it is"),
    adopt: bool("begin a new run with the conversation of a foreign one, under today's rights; asks first"),
    yes: bool("with --adopt: without a question; needed where there is no terminal"),
    "from-step": count(
      "with --fork or --adopt: the last step to take over; all that are recorded by default",
      "N",
    ),
    "max-steps": limit('steps of the whole run at most, those made included, or "unlimited"', "N"),
    budget: limit('tokens of the whole run at most, those used included, or "unlimited"', "TOKENS"),
    "max-cost": costLimit('cost of the whole run at most, what was spent included, or "unlimited"'),
    timeout: timeLimit('running time at most, what has run included, such as 20m, or "unlimited"'),
    trust: bool("let it use all that the project brings, trusted or not"),
    detach: bool("print the PID and UUID and return; the run goes on in the daemon"),
    "no-daemon": bool("run inside this command; nothing is left running"),
    "no-input": bool("nobody is there to be asked (so it is in CI)"),
    output: choice("what is printed: the answer, one object at the end, or every event as a line", OUTPUTS),
    quiet: bool("print no progress", { short: "q" }),
  },
  examples: [
    { line: "rnix resume 01975a2e", about: "from where it was: after Ctrl-C, a daemon's stop or a kill -9" },
    { line: 'rnix resume 01975a2e "now do the same for the tests"', about: "goes on with a finished run" },
    { line: "rnix resume 01975a2e --budget 200000", about: "a run that has used up its budget gets more" },
    {
      line: 'rnix resume 01975a2e --fork --from-step 4 "try it without the cache"',
      about: "another way on from its step 4; the first one stays",
    },
  ],
  notes: [
    "It is the same run: its UUID, conversation, project, rights, checks and limits stay, and what it has used counts. The PID is a new one.",
    "Records that another user's Rnix wrote, such as those of a cloned project, are foreign and never resumed. --adopt takes over the conversation alone: rights, limits, checks and provider are those that the agent has today.",
    "A fork is a new run: its UUID, limits and use are its own, the head of its prompt is built anew, and nothing that the other did to files is undone. The other may live, and may be removed later.",
    "A tool call that was under way when rnix was killed is made again where that does no harm; otherwise the model is told that it may or may not have happened.",
  ],
  async run(io, flags, [uuid = "", inputArgument]) {
    await refuseInsideRun(io, "resume");
    const form = { output: flags.output ?? "text", quiet: flags.quiet };
    const wanted = await printNotices(io, form, async () => {
      if (flags.detach && flags["no-daemon"]) {
        throw usageError("--detach and --no-daemon exclude each other: a detached run needs the daemon");
      }
      if (flags["from-step"] !== undefined && !flags.fork && !flags.adopt) {
        throw usageError("--from-step needs --fork: the later steps of a run stay its own");
      }
      if (flags.fork && flags.adopt) throw usageError("--fork and --adopt exclude each other");
      if (flags.yes && !flags.adopt) throw usageError("--yes goes with --adopt");
      const input = inputArgument === "-" ? await readIntent(io) : inputArgument;
      if (input?.trim() === "") throw usageError("INPUT is empty: leave it out to go on without a word");
      if (flags.adopt && !flags.yes) await askToAdopt(io, uuid, flags);
      const request = {
        ...target(io, uuid),
        input,
        fork: flags.fork || undefined,
        adopt: flags.adopt || undefined,
        from_step: flags["from-step"],
        max_steps: flags["max-steps"],
        context_budget: flags.budget,
        max_cost: flags["max-cost"],
        timeout_ms: flags.timeout,
        trust: flags.trust || undefined,
        detach: flags.detach || undefined,
      };
      return { request, inside: flags["no-daemon"], nobody: flags["no-input"] || flags.detach };
    });
    const { request } = wanted;
    const outcome = await runAgent(io, {
      ...wanted,
      ...form,
      env: {},
      detach: request.detach === true,
      open: (wire, { env, attended }) => wire.open("resume", { ...request, env, attended }),
    });
    return outcome.receipt?.exit_code ?? EXIT.ok;
  },
});

/** A person looks at what is taken over. PERMISSION when they say no. */
async function askToAdopt(
  io: Io,
  uuid: string,
  flags: { "no-daemon": boolean; "no-input": boolean },
): Promise<void> {
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
  const question = "Begin a new run with its conversation, under the rights that this agent has today?";
  if (await agreed(io, question)) return;
  throw new SyscallError("PERMISSION", "nothing was adopted");
}
