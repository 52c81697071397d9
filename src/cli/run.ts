import { SyscallError } from "../plugin/index.ts";
import type { Receipt, SpawnRequest } from "../server/protocol.ts";
import { EXIT } from "./exit.ts";
import { Follower, type OutputMode } from "./follow.ts";
import { HeldSignals, Interrupts } from "./interrupts.ts";
import { environment, type Io, type Session } from "./io.ts";

interface AgentRun {
  request: Omit<SpawnRequest, "env" | "env_given" | "input">;
  /** On top of the command's own environment. */
  env: Record<string, string>;
  /** Text to attach, fetched while the connection is made. */
  input?: () => Promise<string | undefined>;
  inside: boolean;
  output: OutputMode;
  quiet: boolean;
}

/** `receipt` is null for a detached run: it has only begun. */
interface Outcome {
  code: number;
  receipt: Receipt | null;
}

/** Spawns an agent and follows it to its end. The exit code is always that of the receipt that was printed. */
export async function runAgent(io: Io, run: AgentRun): Promise<Outcome> {
  const follower = new Follower(io, run.output, run);
  using held = new HeldSignals(io, run);
  try {
    const { session, input } = await prepare(io, run, held, follower);
    try {
      const env = { ...environment(io), ...run.env };
      const request = { ...run.request, env, env_given: Object.keys(run.env), input };
      return await spawn(io, session, request, follower, run);
    } finally {
      await session.close();
    }
  } catch (error) {
    follower.failed(error);
    throw error;
  }
}

/** What goes wrong before there is anything to spawn is told in the form that was asked for, too. */
export async function told<T>(
  io: Io,
  form: Pick<AgentRun, "output" | "quiet">,
  prepare: () => Promise<T>,
): Promise<T> {
  try {
    return await prepare();
  } catch (error) {
    new Follower(io, form.output, form).failed(error);
    throw error;
  }
}

async function spawn(
  io: Io,
  session: Session,
  request: SpawnRequest,
  follower: Follower,
  o: { inside: boolean },
): Promise<Outcome> {
  using interrupts = new Interrupts(io, session, (line) => follower.view.say(line), o);
  const wire = await session.connect();
  const stream = await Promise.race([wire.open("spawn", request), interrupts.abandoned]);
  follower.begin(stream.answer, request.detach === true);
  if (request.detach) {
    stream.close();
    return { code: EXIT.ok, receipt: null };
  }
  interrupts.started(stream.answer);
  const receipt = await Promise.race([follower.follow(stream), interrupts.abandoned]);
  return { code: receipt.exit_code, receipt };
}

/** Connects and reads stdin side by side, so that a silent pipe costs no time. */
async function prepare(
  io: Io,
  run: AgentRun,
  held: HeldSignals,
  follower: Follower,
): Promise<{ session: Session; input: string | undefined }> {
  // A server inside the command has no log file: it is silent unless somebody asks to hear it.
  const log = io.env.RNIX_LOG ? (line: string) => follower.view.say(line) : undefined;
  const [session, input] = await Promise.allSettled([io.session({ inside: run.inside, log }), run.input?.()]);
  if (session.status === "rejected") throw session.reason;
  if (session.value === null)
    throw new SyscallError("UNAVAILABLE", "no daemon runs and none could be started");
  if (input.status === "rejected" || held.any) {
    await session.value.close();
    throw input.status === "rejected" ? input.reason : neverBegun();
  }
  return { session: session.value, input: input.value };
}

function neverBegun(): SyscallError {
  return new SyscallError("CANCELLED", "interrupted before the run began");
}
