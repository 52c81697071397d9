/** `rnix replay`: replays a recorded run or a script, or exports a run as a script. */

import type { Receipt, Target } from "../../protocol/methods.ts";
import { defineCommand } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { absoluteFolder } from "../files/paths.ts";
import { bool, choice, type FlagValues, json, list, noDaemon, quiet, text } from "../flags.ts";
import { type Io, type Output, withSession, withWire } from "../io.ts";
import { plural } from "../output/format.ts";
import { print } from "../output/print.ts";
import { isTarget, lastRun, target } from "../processes/target.ts";
import { exportScript, LARGEST_SCRIPT } from "../replay/export.ts";
import { KINDS, type Report, reportText, unplayedText } from "../replay/report.ts";
import type { ScriptRun } from "../replay/script-head.ts";
import { endDifferences, scriptRequest } from "../replay/script-run.ts";
import { runAgent } from "../run/run.ts";

const FLAGS = {
  export: text("write the run as a script that can be read, edited and played, and run nothing", "FILE", {
    file: "write",
  }),
  cwd: text(
    "execute its tools in this folder; the default is a run's own folder, for a script the current one",
    "DIR",
  ),
  compare: choice(
    "how results are compared: ignoring times, durations, PIDs and the like (usual), byte by byte (exact), or only whether each call succeeded (state)",
    ["usual", "exact", "state"],
  ),
  ignore: list(`ignore differences of this kind: ${KINDS.join(", ")}`, "KIND"),
  trust: bool("let this run use everything the project brings, trusted or not"),
  "no-daemon": noDaemon,
  json,
  quiet,
};

export default defineCommand({
  about: "Replay a recorded run with today's definitions and print the differences, or write it as a script",
  args: [
    {
      name: "UUID|FILE",
      about:
        "a run: its UUID, the beginning of it or its PID; or a script. The project's last run by default",
      file: true,
      optional: true,
    },
  ],
  flags: FLAGS,
  examples: {
    "rnix replay 01975a2e": "exits 0 if today's agent does the same, 1 if it differs",
    "rnix replay 01975a2e --export tests/fix.yaml": "a script, to keep beside the agent and edit",
    "rnix replay tests/fix.yaml --cwd fixtures/broken": "a test of the agent that calls no model",
  },
  notes: [
    "No model is called: the answers come from the record. Tools are executed for real, with the agent's rights of today. Use a copy of the project if the run changes important files.",
    "The run ends at the first call whose result differs, because the model's answer to it is unknown. Both results are shown.",
    "Exit codes: 0 the same, 1 different, 64 wrong usage, 75, 130, 137, 143 when the run was suspended or killed.",
  ],
  files: (_io, [what = ""]) => (isScript(what) ? { read: [what] } : {}),
  async run(io, flags, [what = ""]) {
    const ignored = flags.ignore.map(kind);
    if (isScript(what)) {
      if (flags.export !== undefined) throw usageError("--export expects a recorded run, got a script");
      if (flags.compare !== undefined)
        throw usageError("--compare expects a recorded run; in a script, set `compare: ` instead");
      const { scriptHead } = await import("../replay/script-head.ts");
      return report(io, await replayScript(io, await scriptHead(io, what), flags), ignored, flags);
    }
    const of = what === "" ? await lastRecorded(io, flags) : target(io, what);
    if (flags.export !== undefined) return exported(io, of, flags.export);
    return report(io, await replayRun(io, of, flags), ignored, flags);
  },
});

/** The project's last run; where that is a replay, the run that it has played. */
async function lastRecorded(io: Io, flags: Options): Promise<Target> {
  return withSession(io, { inside: flags["no-daemon"] }, async (session) => {
    const wire = await session.connect();
    const last = await lastRun(io, wire);
    const { provider, model } = await wire.request("show", last);
    const played = provider === "replay" ? model.slice(0, UUID_CHARS) : "";
    return isTarget(played) ? target(io, played) : last;
  });
}

const UUID_CHARS = 36;

/** Whether the argument is a script and not a run. */
function isScript(text: string): boolean {
  return text.includes("/") || /\.\w+$/.test(text);
}

type Options = FlagValues<typeof FLAGS>;

type Played = Omit<Report, "same"> | { receipt: Receipt };

async function exported(io: Io, of: Target, file: string): Promise<number> {
  const { answers, bytes, unplayed } = await withWire(io, (wire) => exportScript(io, wire, of, file));
  // A script that is too large to be played is written too, because the user can shorten it.
  const next =
    bytes > LARGEST_SCRIPT
      ? `it has ${bytes} bytes, and a script may have at most ${LARGEST_SCRIPT}: shorten it before you play it`
      : `play it with rnix replay ${file}`;
  if (unplayed > 0) io.stderr.write(`${unplayedText(unplayed)}\n`);
  io.stderr.write(`${file}: ${plural(answers, "answer")}; ${next}\n`);
  return EXIT.ok;
}

async function replayRun(io: Io, of: Target, flags: Options): Promise<Played> {
  const folder = flags.cwd === undefined ? undefined : absoluteFolder(io, "--cwd", flags.cwd);
  const { trust, compare } = flags;
  const replayed = await follow(io, flags, (wire, { env, attended }) =>
    wire.open("replay", { ...of, folder, compare, trust: trust || undefined, env, attended }),
  );
  if (isCutOff(replayed)) return { receipt: replayed };
  const { uuid } = replayed;
  return withSession(io, { inside: flags["no-daemon"] }, async (session) => {
    const wire = await session.connect();
    const { differences, unplayed_steps } = await wire.request("compare_runs", { ...of, replayed: uuid });
    const named = of.uuid ?? `PID ${of.pid}`;
    return { recorded: `run ${named}`, differences, unplayed_steps, replayed };
  });
}

async function replayScript(io: Io, script: ScriptRun, flags: Options): Promise<Played> {
  const { file, outcome } = script;
  const cwd = absoluteFolder(io, "--cwd", flags.cwd ?? ".");
  const { input, ...request } = scriptRequest(io, script, { cwd, trust: flags.trust });
  const replayed = await follow(io, flags, (wire, given) =>
    wire.open("spawn", { ...request, ...given, input }),
  );
  if (isCutOff(replayed)) return { receipt: replayed };
  const differences = await withSession(io, { inside: flags["no-daemon"] }, async (session) =>
    endDifferences(await session.connect(), outcome, replayed, cwd),
  );
  return { recorded: file, differences, unplayed_steps: 0, replayed };
}

/** The run's progress and answer go to stderr, because the result of this command is the comparison. */
async function follow(
  io: Io,
  flags: Options,
  open: Parameters<typeof runAgent>[1]["open"],
): Promise<Receipt> {
  const { receipt } = await runAgent(
    { ...io, stdout: flags.quiet ? NOWHERE : io.stderr },
    {
      open,
      env: {},
      detach: false,
      unattended: true,
      output: "text",
      inside: flags["no-daemon"],
      quiet: flags.quiet,
    },
  );
  if (receipt === null) throw new Error("a run that was followed to its end has no receipt");
  return receipt;
}

const NOWHERE: Output = {
  isTTY: false,
  columns: 80,
  closed: false,
  write() {},
  writeBytes() {},
  drained: async () => {},
};

/** Whether the run was stopped before it could be compared. */
function isCutOff({ exit_code }: Receipt): boolean {
  return exit_code === EXIT.suspended || exit_code > 128;
}

function report(io: Io, played: Played, ignored: readonly string[], flags: { json: boolean }): number {
  if ("receipt" in played) return played.receipt.exit_code;
  const differences = played.differences.filter((one) => !ignored.includes(one.kind));
  const made = { same: differences.length === 0, ...played, differences };
  print(io, flags, made, (style) => reportText(made, style));
  return made.same ? EXIT.ok : EXIT.error;
}

function kind(text: string): (typeof KINDS)[number] {
  const found = KINDS.find((one) => one === text);
  if (found) return found;
  throw usageError(`--ignore: expected one of ${KINDS.join(", ")}, got ${JSON.stringify(text)}`);
}
