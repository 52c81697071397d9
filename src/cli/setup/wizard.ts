/** Sets up a provider with questions at the terminal. Nothing is written before the last step. */

import { SyscallError } from "../../plugin/index.ts";
import type { ModelWire, ProviderWire } from "../../protocol/methods.ts";
import type { Io } from "../io.ts";
import { modelFactsText } from "../output/models.ts";
import type { Draft, DraftServer } from "./draft.ts";
import { answeredText } from "./draft.ts";
import { KNOWN_PROVIDERS, LOCAL_SERVERS } from "./known-providers.ts";
import { type Item, item, type Prompt } from "./prompt.ts";

/** What a flag has given already. */
export interface Given {
  provider?: string;
  model?: string;
}

export interface SetUp {
  draft: Draft;
  model: string;
}

interface Tools {
  io: Io;
  prompt: Prompt;
  server: DraftServer;
}

/** Returns a provider that has answered, or that the user wants all the same; null when the user left. */
export async function askForProvider(tools: Tools, given: Given): Promise<SetUp | null> {
  for (let wanted: Given = given; ; wanted = {}) {
    const draft = await chooseProvider(tools, wanted.provider);
    if (draft === null) return null;
    const done = await setUp(tools, draft, wanted.model);
    if (done === "leave") return null;
    if (done !== "other provider") return done;
  }
}

type Failed = "other provider" | "leave";

/** The steps after the choice of a provider: key, model, one word to it. */
async function setUp(tools: Tools, chosen: Draft, wanted: string | undefined): Promise<SetUp | Failed> {
  let draft: Draft | null = await askForKey(tools, chosen);
  let model = wanted;
  for (;;) {
    if (draft === null) return "other provider";
    const offer = await offerOf(tools, draft);
    if ("error" in offer) {
      const next = await afterFailure(tools, draft, offer.error, offer.known.length > 0 ? "list" : "none");
      if (next === "leave" || next === "other provider") return next;
      if (next === "key") draft = await askForKey(tools, draft);
      if (next !== "known") continue;
    }
    if ("draft" in offer) draft = offer.draft;
    const models = "error" in offer ? offer.known : offer.models;
    for (;;) {
      model ??= (await chooseModel(tools, models)) ?? undefined;
      if (model === undefined || draft === null) return "other provider";
      const error = await tryModel(tools, draft, model);
      if (error === null) return { draft, model };
      const next = await afterFailure(tools, draft, error, "word");
      if (next === "leave" || next === "other provider") return next;
      if (next === "save") return { draft, model };
      if (next === "model") model = undefined;
      if (next === "key") {
        draft = await askForKey(tools, draft);
        break;
      }
    }
  }
}

async function chooseProvider(tools: Tools, wanted: string | undefined): Promise<Draft | null> {
  const { prompt, server } = tools;
  const known = await prompt.during(choices(server));
  const named = known.find(({ name }) => name === wanted);
  if (named !== undefined) return named.value;
  if (wanted !== undefined)
    throw new SyscallError("NOT_FOUND", `there is no provider "${wanted}": see rnix providers`);
  const items: Item<Draft | "other" | "leave">[] = [
    ...known,
    item("other", "another server with OpenAI's protocol", "other"),
    item("quit", "change nothing", "leave"),
  ];
  for (;;) {
    const choice = await prompt.choose("Which provider shall Rnix use?", items);
    if (choice === "leave" || choice === null) return null;
    const draft = choice === "other" ? await askForServer(prompt) : choice;
    if (draft !== null) return draft;
  }
}

/** What is found here comes first. */
async function choices(server: DraftServer): Promise<Item<Draft>[]> {
  const providers = await server.providers();
  const byName = new Map(providers.map((one) => [one.name, one]));
  const unnamed = LOCAL_SERVERS.filter(({ name }) => !byName.has(name));
  const local = await Promise.all(unnamed.map((one) => localItem(server, one)));
  const found = providers.filter((one) => one.usable && isOffered(one)).map(foundItem);
  const isFound = (name: string): boolean => found.some((item) => item.name === name);
  const others = Object.entries(KNOWN_PROVIDERS)
    .filter(([name, { keyPage }]) => byName.has(name) && !isFound(name) && keyPage !== undefined)
    .map(([name, { about }]) => item<Draft>(name, about, { name, entry: {} }));
  return [...found, ...local.flat(), ...others];
}

/** A recording is no model, and a server of its own has an entry of its own name. */
function isOffered({ name, model, models }: ProviderWire): boolean {
  if (name === "replay" || name === "openai-compatible") return false;
  return name !== "ollama" || model !== null || models.length > 0;
}

function foundItem({ name, because, models, chosen }: ProviderWire): Item<Draft> {
  const about = KNOWN_PROVIDERS[name]?.about ?? "of your providers.yaml";
  const why = models.length > 0 ? `${models.length} models` : because;
  return item<Draft>(name, `${about}: ${chosen ? "in use here" : why}`, { name, entry: {} });
}

const LOCAL_MS = 400;

async function localItem(
  server: DraftServer,
  { name, about, url }: (typeof LOCAL_SERVERS)[number],
): Promise<Item<Draft>[]> {
  const draft: Draft = { name, entry: { driver: "openai-compatible", base_url: url } };
  const { models } = await server.models(draft, LOCAL_MS);
  const offered = models.filter(({ from }) => from === "service").length;
  return offered === 0 ? [] : [item(name, `${about}: ${offered} models`, draft)];
}

/** A server that is not among the known ones. null: back. */
async function askForServer(prompt: Prompt): Promise<Draft | null> {
  for (;;) {
    const url = await prompt.ask("Its address, such as https://llm.example.com/v1 (empty: back)");
    if (url === "") return null;
    if (!/^https?:\/\//.test(url) || !URL.canParse(url)) {
      prompt.say("Expected an address that begins with http:// or https://.");
      continue;
    }
    const { hostname, port } = new URL(url);
    const isLocal = /^(?:localhost|127\..*|\[::1\])$/.test(hostname);
    const preset = isLocal
      ? `local${port === "" ? "" : `-${port}`}`
      : hostname.replaceAll(/[^A-Za-z0-9-]/g, "-");
    const name = await prompt.ask("A name for it", { preset });
    if (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(name)) {
      prompt.say('Expected a name of letters, digits, ".", "_" and "-".');
      continue;
    }
    return { name, entry: { driver: "openai-compatible", base_url: url } };
  }
}

/** The draft with a key, or as it is where none is needed. null: back. */
async function askForKey(tools: Tools, draft: Draft): Promise<Draft | null> {
  const { prompt, server } = tools;
  const { name, entry } = draft;
  const known = KNOWN_PROVIDERS[name];
  const listed = (await prompt.during(server.providers())).find((one) => one.name === name);
  const isServer = entry.base_url !== undefined;
  const needsNone = isServer ? false : listed?.key === "not needed" || known?.keyPage === undefined;
  if (needsNone && listed?.usable !== false) return draft;
  const variable = known?.keyVariable ?? variableOf(name, listed);
  const isKept = listed?.usable === true && draft.key === undefined;
  const items: Item<"command" | "enter" | "is" | "none">[] = [
    ...(isKept ? [item("as it is", listed.because, "is" as const)] : []),
    ...(isServer ? [item("none", "it needs no key", "none" as const)] : []),
    item("enter", "enter it: stored in ~/.config/rnix/env, mode 0600", "enter"),
    item("command", "a command prints it, such as pass show llm", "command"),
  ];
  const page = known?.keyPage === undefined ? "" : ` ${known.keyPage} has it.`;
  const how = await prompt.choose(`How does Rnix get the key of ${name}?${page}`, items, { back: true });
  if (how === null) return null;
  if (how === "is" || how === "none") return { ...draft, key: undefined };
  if (how === "command") {
    const line = await prompt.ask("The command (empty: back)");
    if (line === "") return askForKey(tools, draft);
    return { ...draft, entry: { ...entry, api_key_command: line, api_key_env: null }, key: undefined };
  }
  const value = await prompt.ask("Key (it is not shown; empty: back)", { hidden: true });
  if (value === "") return askForKey(tools, draft);
  prompt.say(`${value.length} characters.`);
  const api_key_env = known?.keyVariable === undefined ? variable : null;
  return { ...draft, entry: { ...entry, api_key_env, api_key_command: null }, key: { variable, value } };
}

/** The variable of a provider of the user's own. */
function variableOf(name: string, listed: ProviderWire | undefined): string {
  const [said = ""] = /^[A-Z_][A-Z0-9_]*/.exec(listed?.key ?? "") ?? [];
  const upper = name.toUpperCase().replaceAll(/[^A-Z0-9]/g, "_");
  return said || `${upper.replace(/^(\d)/, "_$1")}_API_KEY`;
}

type Offer = { models: ModelWire[]; draft: Draft } | { error: SyscallError; known: ModelWire[] };

/** The models of the provider: of its service, or the known ones where it has no list. */
async function offerOf(tools: Tools, draft: Draft): Promise<Offer> {
  const { prompt, server } = tools;
  prompt.say(`Asking ${draft.name} for its models …`);
  try {
    const { models, diagnostics } = await prompt.during(server.models(draft));
    const problem = diagnostics.find(({ code }) => code !== "NOT_FOUND");
    const [absent] = diagnostics;
    if (problem === undefined && absent !== undefined) {
      const completed = await withVersion(tools, draft);
      if (completed !== null) return completed;
      prompt.say(`${absent.message}.`);
    }
    if (problem === undefined) return { models, draft };
    return { error: new SyscallError(problem.code, problem.message), known: models };
  } catch (error) {
    if (!(error instanceof SyscallError) || error.code === "CANCELLED") throw error;
    return { error, known: [] };
  }
}

/** The provider at the address with `/v1`, which is often left out, if that one lists models; otherwise null. */
async function withVersion({ prompt, server }: Tools, draft: Draft): Promise<Offer | null> {
  const { base_url } = draft.entry;
  if (base_url == null || new URL(base_url).pathname !== "/") return null;
  const url = `${base_url.replace(/\/$/, "")}/v1`;
  const completed = { ...draft, entry: { ...draft.entry, base_url: url } };
  const { models, diagnostics } = await prompt.during(server.models(completed));
  if (diagnostics.length > 0 || models.length === 0) return null;
  prompt.say(`Its address is ${url}: the list of models is there.`);
  return { models, draft: completed };
}

/** Longer lists are searched. */
const SHOWN_MODELS = 15;

/** null: back. */
async function chooseModel({ prompt }: Tools, models: readonly ModelWire[]): Promise<string | null> {
  const ordered = models.toSorted((a, b) => Number(b.is_default) - Number(a.is_default));
  let shown: readonly ModelWire[] = ordered;
  for (;;) {
    for (const [index, one] of shown.slice(0, SHOWN_MODELS).entries()) {
      prompt.say(
        `  ${String(index + 1).padStart(2)}  ${one.model.padEnd(28)}  ${modelFactsText(one)}`.trimEnd(),
      );
    }
    const more = shown.length - SHOWN_MODELS;
    if (more > 0) prompt.say(`      and ${more} more: type a part of a name`);
    const preset = shown.length > 0 ? "1" : undefined;
    const answer = await prompt.ask("Model (number, name or a part of it; 0: back)", { preset });
    if (answer === "0") return null;
    const numbered = /^\d+$/.test(answer) ? shown[Number(answer) - 1] : undefined;
    if (numbered !== undefined) return numbered.model;
    if (ordered.some(({ model }) => model === answer)) return answer;
    const part = answer.toLowerCase();
    const found = ordered.filter(({ model }) => model.toLowerCase().includes(part));
    // The service has no list: any name may be right, and the word that is sent shows it.
    if (answer !== "" && ordered.length === 0) return answer;
    if (answer !== "" && found.length === 1) return found[0]?.model ?? null;
    if (found.length > 0) shown = found;
    else if (/^\d*$/.test(answer)) prompt.say("Expected a number of the list, or a model's name.");
    else {
      const items = [
        item("search", "show the list again", false),
        item("use", `use ${answer} all the same`, true),
      ];
      if (await prompt.choose(`The list has no ${answer}.`, items)) return answer;
      shown = ordered;
    }
  }
}

/** Sends one word; null when an answer came. */
async function tryModel(tools: Tools, draft: Draft, model: string): Promise<SyscallError | null> {
  const { prompt, server } = tools;
  prompt.say(`Sending one word to ${model} …`);
  try {
    prompt.say(answeredText(await prompt.during(server.sendWord(draft, model))));
    return null;
  } catch (error) {
    if (!(error instanceof SyscallError) || error.code === "CANCELLED") throw error;
    return error;
  }
}

type Next = "again" | "key" | "model" | "known" | "save" | Failed;

/** `at`: what failed, and for a list whether the known models can be used. */
async function afterFailure(
  { prompt }: Tools,
  draft: Draft,
  error: SyscallError,
  at: "list" | "none" | "word",
): Promise<Next> {
  prompt.say(`That did not work: ${error.message}`);
  const again = item<Next>("again", "try again", "again");
  const key = item<Next>("key", "enter another key", "key");
  const known = item<Next>("known", "choose among the models that Rnix knows", "known");
  const model = item<Next>("model", "choose another model", "model");
  const save = item<Next>("save", "keep it as it is: it may work later", "save");
  const other = item<Next>("provider", "choose another provider", "other provider");
  const leave = item<Next>("quit", "change nothing", "leave");
  const hasKey = KNOWN_PROVIDERS[draft.name]?.keyPage !== undefined || draft.entry.base_url !== undefined;
  // What most probably mends it comes first.
  const byCode: Item<Next>[] =
    error.code === "PERMISSION" && hasKey ? [key, again] : [again, ...(hasKey ? [key] : [])];
  const bySteps = at === "word" ? [model, save] : at === "list" ? [known] : [];
  const first =
    error.code === "NOT_FOUND" && at === "word" ? [...bySteps, ...byCode] : [...byCode, ...bySteps];
  return (await prompt.choose("What now?", [...first, other, leave])) ?? "leave";
}
