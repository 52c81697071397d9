/** `rnix trust`: shows, grants and revokes the trust of a project. */

import { SyscallError } from "../../plugin/index.ts";
import { visible } from "../../plugin/visible.ts";
import type { ReviewedItem, TrustReview } from "../../server/offline-commands.ts";
import { defineCommand } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { bool, json, list } from "../flags.ts";
import { environment, type Io, refuseInsideRun } from "../io.ts";
import { plural } from "../output/format.ts";
import { jsonText } from "../output/print.ts";
import { styleOf } from "../output/style.ts";
import { type Column, table } from "../output/table.ts";
import { agreed } from "../questions/answer-questions.ts";

export default defineCommand({
  about: "Trust what this project brings: plugins, checks, agents' tools, provider addresses",
  flags: {
    yes: bool("do not ask; required without a terminal"),
    follow: bool("also trust what you change in the folder later; never what a run changes"),
    revoke: bool("withdraw all trust in this project"),
    show: bool("only print the parts and whether they are trusted, and what is not asked for"),
    "ask-again": list("remove a rule of always in this project; RULE is as --show prints it", "RULE"),
    json,
  },
  examples: {
    "rnix trust --show": "what would be trusted",
    "rnix trust": "shows it, then asks",
    "rnix trust --ask-again 'Bash(npm test *)'": "these calls are asked for again",
    "rnix trust --follow --yes": "your own project: no question after every edit",
  },
  notes: [
    "Trust applies to content: when a trusted file changes, its part is left out until you trust it again. In an untrusted project, runs work without these parts and list them.",
    "Trust in a command includes the project files that it names, and the scripts of package.json if it runs npm, pnpm, yarn or bun. It does not include what those programs read or import.",
    "With --follow, changes made while no run is active are trusted at once. Changes made during a run are left out until `rnix trust`.",
  ],
  async run(io, flags) {
    const again = flags["ask-again"];
    if ([flags.follow, flags.revoke, flags.show, again.length > 0].filter(Boolean).length > 1) {
      throw usageError("--follow, --revoke, --show and --ask-again exclude each other");
    }
    if (flags.json && !flags.show) throw usageError("--json needs --show");
    const { reviewTrust, homeNotice, userPaths } = await import("../../server/offline-commands.ts");
    if (!flags.show) await refuseInsideRun(io, "trust");
    if (!flags.show && !flags.revoke) await requirePerson(io);
    const notice = homeNotice(userPaths(environment(io)));
    if (notice !== undefined) (await import("../output/notes.ts")).notesTo(io.stderr).info(notice);
    const review = await reviewTrust({ cwd: io.cwd, env: environment(io) });
    if (again.length > 0) return askAgain(io, review, again);
    if (flags.json) io.stdout.write(jsonText(asJson(review)));
    else show(io, review);
    if (flags.show) return EXIT.ok;
    if (flags.revoke) {
      review.trust.revoke();
      io.stderr.write(`${review.project.dir} is not trusted any more\n`);
      return EXIT.ok;
    }
    return accept(io, review, flags);
  },
});

/** Decides by what this command sees, and by what the daemon sees if one runs: it knows the real ancestors. */
async function requirePerson(io: Io): Promise<void> {
  const { requireTypedHere } = await import("../../server/daemon/inside-run.ts");
  requireTypedHere();
  const session = await io.session({ onlyRunning: true, anyVersion: true });
  if (session === null) return;
  try {
    await (await session.connect()).request("require_person", {});
  } catch (error) {
    // A daemon of an earlier version does not know the method, and one that is busy does not answer.
    if (!(error instanceof SyscallError) || error.code !== "UNAVAILABLE") throw error;
  } finally {
    await session.close();
  }
}

async function askAgain(io: Io, review: TrustReview, rules: readonly string[]): Promise<number> {
  const { project, always } = review;
  const unknown = await review.askAgain(rules);
  const yours = always.find(({ rule }) => unknown.includes(rule));
  if (yours)
    throw usageError(`--ask-again: ${visible(yours.rule)} is your own rule: remove it at ${yours.source}`);
  if (unknown.length > 0) {
    const allowed = always.map(({ rule }) => visible(rule)).join(", ") || "none";
    throw usageError(
      `--ask-again: ${unknown.map(visible).join(", ")} is asked for already; always allowed: ${allowed}`,
    );
  }
  io.stderr.write(`asked for again in ${project.dir}: ${rules.map(visible).join(", ")}\n`);
  return EXIT.ok;
}

async function accept(
  io: Io,
  { project, trust, items }: TrustReview,
  flags: { yes: boolean; follow: boolean },
): Promise<number> {
  if (!(flags.follow && !trust.follows) && items.every(({ state }) => state === "trusted")) {
    io.stderr.write(items.length === 0 ? "there is nothing to trust\n" : "all of it is trusted already\n");
    return EXIT.ok;
  }
  const question = flags.follow
    ? `Let everything in ${project.dir} run as you, now and as you will change it?`
    : `Let ${plural(items.length, "part")} of ${project.dir} run as you?`;
  if (!flags.yes && !(await asked(io, question))) {
    io.stderr.write("nothing was trusted\n");
    return EXIT.error;
  }
  if (flags.follow) trust.follow(items, Date.now());
  else trust.accept(items, Date.now());
  io.stderr.write(`${project.dir} is trusted${trust.follows ? ", and what you change in it" : ""}\n`);
  return EXIT.ok;
}

async function asked(io: Io, question: string): Promise<boolean> {
  if (io.stdin.kind !== "tty" || io.env.CI) {
    throw usageError("there is no terminal to ask at: look at rnix trust --show, then give --yes");
  }
  return agreed(io, question);
}

function show(io: Io, { project, trust, always, items, problems }: TrustReview): void {
  for (const problem of problems) io.stderr.write(`${problem.split("\n").map(visible).join("\n")}\n`);
  io.stdout.write(`${project.dir}${followed(trust)}\n`);
  if (items.length === 0) io.stdout.write("nothing here needs trust\n");
  else io.stdout.write(table(items, COLUMNS, io.stdout, styleOf(io, io.stdout)));
  const commands = items.filter(({ kind }) => RUNS_PROGRAMS.has(kind));
  for (const { name, digests, file } of commands) {
    const more = Object.keys(digests).filter((key) => bindsAnother(key, file, project.dir));
    if (more.length > 0) io.stdout.write(`${visible(name)} binds ${more.map(visible).join(", ")}\n`);
  }
  if (commands.length > 0) io.stdout.write(NOT_COVERED);
  if (always.length > 0)
    io.stdout.write("\nalways allowed here, without a question (rnix trust --ask-again RULE):\n");
  for (const { rule, source } of always) io.stdout.write(`  ${visible(rule)}  ${visible(source)}\n`);
}

function followed({ follows, isReplaced }: TrustReview["trust"]): string {
  if (!follows) return "";
  return isReplaced
    ? ": another folder than the one that was trusted with --follow; what counted there counts here"
    : ": trusted, and what you change in it";
}

/** Kinds that run a command. Its program may read more files than the command names. */
const RUNS_PROGRAMS: ReadonlySet<ReviewedItem["kind"]> = new Set(["checks", "mcp", "init", "provider"]);
const NOT_COVERED =
  "Not covered: what the programs of these commands read or import in turn, and programs outside of the project.\n";

/** Whether a key of the trust record belongs to a file other than the item's own. */
function bindsAnother(key: string, file: string, dir: string): boolean {
  const own = file.slice(dir.length + 1);
  return key !== own && !key.startsWith(`${own}#`);
}

const COLUMNS: Column<ReviewedItem>[] = [
  { title: "STATE", value: ({ state }) => state },
  { title: "WHAT", value: ({ what }) => what, flexible: 30, wrapped: true },
  { title: "FILE", value: ({ file }) => visible(file), flexible: 24, wrapped: true },
];

function asJson({ project, trust, always, items, problems }: TrustReview): object {
  const shown = items.map(({ followed: _, ...item }) => item);
  const { follows: follow, since } = trust;
  return { project: project.dir, follow, since, items: shown, always_allowed: always, problems };
}
