/** Runs an agent from a command: spawns or resumes it, follows it, and returns its exit code. */

import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import type { Stream } from "../../client/client.ts";
import { SyscallError } from "../../plugin/errors.ts";
import type { Receipt } from "../../protocol/methods.ts";
import { EXIT, usageError } from "../exit.ts";
import { bool, choice, noDaemon, quiet, text } from "../flags.ts";
import { type ConnectOptions, environment, type Io, isAskable, type Session, type Wire } from "../io.ts";
import type { RunOutput } from "../output/run-output.ts";
import { ownName, shellWord } from "../system/own-name.ts";
import type { LiveOptions } from "../terminal/live-view.ts";
import { Follower, followRun, OUTPUTS, type OutputMode } from "./follow.ts";
import { HeldSignals, Interrupts } from "./interrupts.ts";
import type { FromStdin } from "./stdin.ts";

interface AgentRun {
  /** Sends the request for the run. Called once the input is read and a server is connected. */
  open(wire: Wire, given: Given, io: Io): Promise<Stream<"spawn" | "resume" | "replay">>;
  /** On top of the command's own environment. */
  env: Record<string, string>;
  /** Return once the run has begun. */
  detach: boolean;
  /** Ask no questions, even at a terminal. */
  unattended: boolean;
  /** The input from stdin, read while the connection is made. */
  input?: (io: Io) => Promise<FromStdin>;
  inside: boolean;
  output: OutputMode;
  quiet: boolean;
  /** Called with the receipt. `session` is null when the run never began or was lost. */
  ended?(receipt: Receipt, session: Session | null): Promise<void>;
  /** The flags with which the user would resume this run. Absent: it is not resumed, and the user can't leave it. */
  resumeFlags?: readonly string[];
  /** A live view plays the run at the pace at which a person reads. */
  atReadingPace?: boolean;
  /** When it has completed, there is nothing to continue. */
  hasEndOnly?: boolean;
  /** What shows it as text; absent: the usual view of the terminal or the pipe. */
  view?(io: Io): RunOutput;
}

/** The fields of every request for a run, besides the command's own options. */
export interface Given {
  /** The command's environment with the run's additions. */
  env: Record<string, string>;
  input: string | undefined;
  /** A part of the input is text of others: whose. */
  input_origin?: string;
  notices: string[] | undefined;
  /** A user is at the terminal. */
  attended: true | undefined;
  /** The files that the command itself prints to. */
  outputs: { dev: number; ino: number }[] | undefined;
  /** Only the answer is printed, when it is whole. */
  quiet: true | undefined;
}

/** `receipt` is null for a detached run, which has not ended. */
interface FollowedRun {
  code: number;
  receipt: Receipt | null;
}

/** Spawns or resumes an agent and follows it to its end. The exit code is always that of the printed receipt. */
export async function runAgent(io: Io, run: AgentRun): Promise<FollowedRun> {
  using held = new HeldSignals(io, run);
  // What the user types is read before anything is drawn.
  const typed = io.stdin.kind === "tty" ? await run.input?.(io) : undefined;
  const follower =
    run.view && run.output === "text"
      ? new Follower(io, run.output, run.view(io))
      : await Follower.open(io, run.output, { ...run, ...liveOptions(io, run) });
  try {
    // From now on, keys are not echoed and not left for the shell, also while servers start.
    if (!run.detach) follower.view.listen();
    const { session, input } = await prepare(run, held, follower, typed);
    try {
      const env = { ...environment(io), ...run.env };
      const notices = input.notices.length > 0 ? input.notices : undefined;
      for (const notice of input.notices) follower.view.warn(notice);
      const given = {
        env,
        input: input.text,
        ...(input.origin !== undefined && { input_origin: input.origin }),
        notices,
        attended: attended(io, run),
        outputs: outputs(io),
        quiet: isQuiet(io, run),
      };
      return await begin(io, session, given, follower, run);
    } finally {
      await session.close();
    }
  } catch (error) {
    await follower.view.close();
    const receipt = await follower.failed(error);
    if (receipt) await run.ended?.(receipt, null);
    throw error;
  } finally {
    await follower.view.close();
  }
}

function liveOptions(
  io: Io,
  { inside, resumeFlags, hasEndOnly, atReadingPace = false }: AgentRun,
): LiveOptions {
  const canLeave = !inside && resumeFlags !== undefined;
  return {
    resume: (uuid, exitCode) => {
      if (resumeFlags === undefined || (hasEndOnly && exitCode === EXIT.ok)) return undefined;
      return [ownName(io), "resume", uuid, ...resumeFlags].join(" ");
    },
    keys: atReadingPace
      ? ["any key: faster"]
      : ["ctrl-c suspends", ...(canLeave ? ["ctrl-d leaves it running"] : [])],
    canLeave,
    atReadingPace,
  };
}

/** The flags of a command that the record does not keep: the user gives them again to resume the run. */
export function resumeFlags(
  flags: Record<"trust" | "no-daemon" | "no-input", boolean> & { record: string | undefined },
): readonly string[] {
  const names = ["trust", "no-daemon", "no-input"] as const;
  const given = names.filter((name) => flags[name]).map((name) => `--${name}`);
  return flags.record === undefined ? given : [...given, "--record", shellWord(flags.record)];
}

/** Runs `prepare`, before the run exists, and prints its errors in the requested output form. */
export async function printNotices<T>(
  io: Io,
  form: Pick<AgentRun, "output">,
  prepare: () => Promise<T>,
): Promise<T> {
  try {
    return await prepare();
  } catch (error) {
    await new Follower(io, form.output).failed(error);
    throw error;
  }
}

/** The same for rejected arguments, where the form may be unknown. */
export async function printRefused(io: Io, error: unknown, output: string | undefined): Promise<void> {
  const mode = OUTPUTS.find((known) => known === output) ?? "text";
  await new Follower(io, mode).failed(error);
}

async function begin(
  io: Io,
  session: Session,
  given: Given,
  follower: Follower,
  run: AgentRun,
): Promise<FollowedRun> {
  const { view } = follower;
  // Of a run that is played, the first Ctrl-C stops the show.
  const firstIsTaken = run.atReadingPace && view.paced !== undefined;
  using interrupts = new Interrupts(view.io, session, (line) => view.say(line), { ...run, firstIsTaken });
  const opening = openOrSetUp(io, session, given, run, view);
  const stream = await Promise.race([opening, interrupts.abandoned]);
  follower.begin(stream.answer, run.detach);
  if (run.detach) {
    stream.close();
    return { code: EXIT.ok, receipt: null };
  }
  interrupts.started(stream.answer);
  const stopAsking = attended(io, run)
    ? await (await import("../questions/answer-questions.ts")).answerQuestions(io, follower, () =>
        session.connect(),
      )
    : () => undefined;
  const { uuid } = stream.answer;
  const stopTyping =
    run.atReadingPace || view.slot === undefined
      ? () => undefined
      : (await import("./type-to-run.ts")).typeToRun(view.io, view, {
          uuid,
          connect: () => session.connect(),
        });
  const ended = followRun(view.io, stream, follower);
  try {
    const receipt = await Promise.race([ended, interrupts.abandoned, view.left]);
    if (receipt !== null) {
      await view.close();
      await run.ended?.(receipt, session);
      return { code: receipt.exit_code, receipt };
    }
  } finally {
    stopAsking();
    stopTyping();
  }
  stream.close();
  ended.catch(() => undefined);
  const { pid } = stream.answer;
  view.say(`process ${pid} continues in the daemon: ${ownName(view.io)} attach ${pid}`);
  return { code: EXIT.ok, receipt: null };
}

/** Sends the request. A user at the terminal who has no provider yet may set one up first. */
async function openOrSetUp(
  io: Io,
  session: Session,
  given: Given,
  run: AgentRun,
  view: RunOutput,
): Promise<Stream<"spawn" | "resume" | "replay">> {
  try {
    return await run.open(await session.connect(), given, view.io);
  } catch (error) {
    if (!given.attended) throw error;
    const { offerSetup } = await import("../setup/offer.ts");
    const offer = (): Promise<boolean> => offerSetup(io, session, error);
    if (!(await (view.lend === undefined ? offer() : view.lend(offer)))) throw error;
    return run.open(await session.connect(), given, view.io);
  }
}

/** Connects and reads stdin side by side, so that a silent pipe costs no time. */
async function prepare(
  run: AgentRun,
  held: HeldSignals,
  { view }: Follower,
  typed: FromStdin | undefined,
): Promise<{ session: Session; input: FromStdin }> {
  const { io } = view;
  // A server inside the command has no log file: it logs only when RNIX_LOG is set.
  const log = io.env.RNIX_LOG ? (line: string) => view.say(line) : undefined;
  const question = view.lend?.bind(view);
  const [session, input] = await Promise.allSettled([
    io.session({ inside: run.inside, log, question }),
    typed ?? run.input?.(io),
  ]);
  if (session.status === "rejected") throw session.reason;
  if (session.value === null)
    throw new SyscallError("UNAVAILABLE", "no daemon runs and none could be started");
  if (input.status === "rejected" || held.any) {
    await session.value.close();
    if (input.status === "rejected") throw input.reason;
    throw new SyscallError("CANCELLED", "interrupted before the run began");
  }
  return { session: session.value, input: input.value ?? { text: undefined, notices: [] } };
}

function attended(io: Io, { unattended }: AgentRun): true | undefined {
  return (!unattended && isAskable(io)) || undefined;
}

function isQuiet({ stdout }: Io, { quiet, output }: AgentRun): true | undefined {
  return (quiet && (output === "json" || (output === "text" && !stdout.isTTY))) || undefined;
}

function outputs({ stdout, stderr }: Io): Given["outputs"] {
  const files = [stdout.file, stderr.file].filter((file) => file !== undefined);
  return files.length > 0 ? files : undefined;
}

/** Of commands that begin a run and follow it. */
export const FOLLOW_FLAGS = {
  detach: bool("print the PID and UUID and return; the run continues in the daemon"),
  "no-daemon": noDaemon,
  "no-input": bool("ask no questions (the default in CI)"),
  output: choice("what to print: the answer, one object at the end, or every event as a line", OUTPUTS),
  quiet,
};

/** Fails with USAGE where a flag needs the daemon. */
export function requireDaemon(flags: {
  detach: boolean;
  "no-daemon": boolean;
  "on-units"?: string;
  "resume-on-restart"?: boolean;
}): void {
  if (!flags["no-daemon"]) return;
  const refuse = (flag: string, why: string): never => {
    throw usageError(`${flag} and --no-daemon exclude each other: ${why}`);
  };
  if (flags.detach) refuse("--detach", "a detached run needs the daemon");
  if (flags["resume-on-restart"])
    refuse("--resume-on-restart", "only a run in the daemon can resume when the daemon restarts");
  if (flags["on-units"] === "park")
    refuse("--on-units park", "only the daemon wakes a run when its units report");
}

/** Of commands that write the record. */
export const RECORD_TO = {
  record: text("keep the record of the run in this folder; rnix log --record DIR reads it anywhere", "DIR", {
    file: "write folder",
  }),
};

/** The outside world of a command whose run is recorded in `dir`; `io` itself without one. */
export function recordingIn(io: Io, dir: string | undefined): Io {
  if (dir === undefined) return io;
  const folder = resolve(io.cwd, dir);
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    if (!(error instanceof Error && "code" in error)) throw error;
    throw usageError(`--record: ${dir} can't be made: ${error.message}`);
  }
  const env = { ...io.env, RNIX_DATA_DIR: folder };
  return { ...io, env, session: (o?: ConnectOptions) => io.session({ env, ...o }) };
}
