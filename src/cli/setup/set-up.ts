/** Sets up a provider: by questions or by flags, then writes it. */

import { SyscallError } from "../../plugin/index.ts";
import { EXIT, usageError } from "../exit.ts";
import { environment, type Io, type Session } from "../io.ts";
import { answeredText, type Draft, DraftServer } from "./draft.ts";
import { KNOWN_PROVIDERS } from "./known-providers.ts";
import { Prompt } from "./prompt.ts";
import { askForProvider, type Given, type SetUp } from "./wizard.ts";

interface SetupFlags extends Given {
  "key-from-env"?: string;
  "key-command"?: string;
  "base-url"?: string;
}

/** Whether a user can answer questions here. */
export function isTerminal(io: Io): boolean {
  return io.stdin.kind === "tty" && io.terminal() !== null && !io.env.CI;
}

/** Returns false when the user left without a provider. Fails with CANCELLED at Ctrl-C. */
export async function setUpAtTerminal(
  io: Io,
  session: Session,
  given: Given,
  o: { runs?: boolean } = {},
): Promise<boolean> {
  using prompt = Prompt.open(io);
  if (prompt === null) throw noTerminal();
  const server = new DraftServer(io, session);
  const done = await askForProvider({ io, prompt, server }, given);
  if (done === null) prompt.say("Nothing was changed.");
  else await write(io, server, done, o);
  return done !== null;
}

/** The same without questions: every failure ends the command, and writes nothing. */
export async function setUpWithFlags(io: Io, session: Session, flags: SetupFlags): Promise<number> {
  const { provider } = flags;
  if (provider === undefined) throw noTerminal();
  const draft = draftOf(io, provider, flags);
  const server = new DraftServer(io, session);
  const model = flags.model ?? (await defaultModel(server, draft));
  io.stderr.write(`Sending one word to ${model} …\n`);
  const tried = await server.sendWord(draft, model);
  io.stderr.write(`${answeredText(tried)}\n`);
  await write(io, server, { draft, model });
  return EXIT.ok;
}

function noTerminal(): SyscallError {
  return usageError(
    "there is no terminal to ask at: give --provider NAME, --key-from-env NAME or --key-command CMD, and --model MODEL",
  );
}

function draftOf(io: Io, name: string, flags: SetupFlags): Draft {
  const { "key-from-env": from, "key-command": command, "base-url": url } = flags;
  const server: Draft["entry"] = url === undefined ? {} : { driver: "openai-compatible", base_url: url };
  if (command !== undefined)
    return { name, entry: { ...server, api_key_command: command, api_key_env: null } };
  if (from === undefined) return { name, entry: server };
  const value = io.env[from]?.trim();
  if (!value) throw usageError(`--key-from-env: the variable ${from} is not set here, or empty`);
  const known = url === undefined ? KNOWN_PROVIDERS[name]?.keyVariable : undefined;
  const entry = { ...server, api_key_env: known === undefined ? from : null, api_key_command: null };
  return { name, entry, key: { variable: known ?? from, value } };
}

/** The default model of the provider, or the only one that it has. */
async function defaultModel(server: DraftServer, draft: Draft): Promise<string> {
  const listed = (await server.providers()).find(({ name }) => name === draft.name);
  if (listed?.model) return listed.model;
  const { models, diagnostics } = await server.models(draft);
  const [problem] = diagnostics;
  if (problem !== undefined) throw new SyscallError(problem.code, problem.message);
  const [only, ...more] = models;
  if (only !== undefined && more.length === 0) return only.model;
  throw usageError(
    `--model is missing: ${draft.name} has ${models.map(({ model }) => model).join(", ") || "no list"}`,
  );
}

/** `runs`: the run that the user wanted begins now. */
async function write(
  io: Io,
  server: DraftServer,
  { draft, model }: SetUp,
  o: { runs?: boolean } = {},
): Promise<void> {
  const [{ userPaths }, { saveProvider }] = await Promise.all([
    import("../../server/offline-commands.ts"),
    import("../../config/providers/save-provider.ts"),
  ]);
  const { name, entry, key } = draft;
  const files = await saveProvider(userPaths(environment(io)).configDir, { name, model, entry, key });
  for (const file of files) io.stderr.write(`wrote ${file}\n`);
  const { notesTo } = await import("../output/notes.ts");
  for (const note of await differences(io, server, { draft, model })) notesTo(io.stderr).info(note);
  const next = o.runs ? "" : ' Now try:\n  rnix "explain what this project does"';
  io.stderr.write(`ready: ${model} of ${name}.${next}\n`);
}

/** What else decides here, before what was written. */
async function differences(io: Io, server: DraftServer, { draft, model }: SetUp): Promise<string[]> {
  const { key } = draft;
  const isOther = key !== undefined && (io.env[key.variable] ?? key.value) !== key.value;
  const chosen = (await server.providers()).find((one) => one.chosen);
  const isHere = chosen === undefined || (chosen.name === draft.name && chosen.model === model);
  const notes = isOther
    ? [`${key.variable} of this shell has another key, which counts first: unset ${key.variable}`]
    : [];
  return isHere ? notes : [...notes, `runs here use ${chosen.model} of ${chosen.name} (${chosen.because})`];
}
