/** Answers a shell's completion script: `rnix __complete WORD…`. */

import type { JobInfo } from "../../plugin/index.ts";
import { cronRequest } from "../cron/call.ts";
import { EXIT } from "../exit.ts";
import { type ConnectOptions, type Io, project, type Session, type Wire } from "../io.ts";
import { oneLine } from "../output/format.ts";
import { type Candidate, candidates, type Kind } from "./candidates.ts";

/** Stands for the files and folders of the shell. */
const FILES = ":files";

/** Prints each candidate with a tab and its meaning, and `:files` where files fit. */
export async function answerCompletion(io: Io, words: readonly string[]): Promise<number> {
  const { words: found, files } = await candidates(words, (kind, typed) => valuesOf(io, kind, typed));
  const lines = found.map(({ word, about }) => `${word}\t${about.replace(/\s+/g, " ")}\n`);
  io.stdout.write(`${lines.join("")}${files ? `${FILES}\n` : ""}`);
  return EXIT.ok;
}

/** A daemon that takes longer is not waited for. */
const DAEMON_MS = 200;
/** Runs that are offered, the newest first. */
const MAX_RUNS = 100;
const ABOUT_WIDTH = 60;
/** What a shell's line can take without quotes that differ between shells. Other names are not offered. */
const PLAIN = /^[\p{L}\p{N}@%_+:,./-]+$/u;

/** Values from the daemon, if one runs and answers in time; otherwise from disk. A failure offers nothing. */
async function valuesOf(io: Io, kind: Kind, typed: string): Promise<Candidate[]> {
  const values =
    (await within(io, ask(io, { onlyRunning: true }, kind, typed))) ??
    (await ask(io, { inside: true }, kind, typed)) ??
    [];
  return values.filter(({ word }) => PLAIN.test(word));
}

/** null when no daemon runs, or when it can't answer: it may be of another version. */
async function ask(io: Io, o: ConnectOptions, kind: Kind, typed: string): Promise<Candidate[] | null> {
  let session: Session | null = null;
  try {
    session = await io.session(o);
    return session && (await LISTS[kind](await session.connect(), io, typed));
  } catch {
    // The user is typing a command: an error would be printed into its line.
    return null;
  } finally {
    await session?.close();
  }
}

function within<T>(io: Io, work: Promise<T | null>): Promise<T | null> {
  const { promise, resolve } = Promise.withResolvers<null>();
  const timer = io.timer(DAEMON_MS, () => resolve(null));
  return Promise.race([work, promise]).finally(() => timer.cancel());
}

type List = (wire: Wire, io: Io, typed: string) => Promise<Candidate[]>;

const LISTS: Readonly<Record<Kind, List>> = {
  async run(wire, io, typed) {
    const { processes } = await wire.request("list_all_procs", { cwd: io.cwd });
    const isUuid = /^0/.test(typed);
    const newest = processes.slice(-MAX_RUNS).toReversed();
    return newest.map(({ pid, uuid, state, intent }) =>
      described({ name: isUuid ? uuid : String(pid), description: `${state}: ${intent}` }),
    );
  },
  async agent(wire, io) {
    const { agents } = await wire.request("list_agents", project(io));
    return agents.map(described);
  },
  async skill(wire, io) {
    const { skills } = await wire.request("list_skills", project(io));
    return skills.map(described);
  },
  async provider(wire, io) {
    const { providers } = await wire.request("list_providers", project(io));
    return providers.map(({ name, because }) => described({ name, description: because }));
  },
  async model(wire, io) {
    const { models } = await wire.request("list_models", { ...project(io), wait_ms: 0 });
    return models.map(({ model, provider }) => ({ word: model, about: provider }));
  },
  async tool(wire, io) {
    const { tools } = await wire.request("list_tools", project(io));
    return tools.map(described);
  },
  async job(wire, io) {
    const jobs = await cronRequest<JobInfo[]>(wire, project(io), { op: "list" });
    return jobs.map(({ name, intent }) => described({ name, description: intent }));
  },
  async question(wire) {
    const { asks } = await wire.request("list_asks", {});
    return asks.map(({ request_id: name, agent, intent }) =>
      described({ name, description: `${agent}: ${intent}` }),
    );
  },
};

function described({ name, description }: { name: string; description: string }): Candidate {
  return { word: name, about: oneLine(description, ABOUT_WIDTH) };
}
