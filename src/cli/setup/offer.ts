/** Offers to set up a provider where a run found none. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { isServerError } from "../../client/client.ts";
import { SyscallError } from "../../plugin/index.ts";
import { isInsideRun } from "../../server/daemon/inside-run.ts";
import { userPaths } from "../../server/offline-commands.ts";
import { type Io, type Session, withSession } from "../io.ts";
import { DraftServer } from "./draft.ts";
import { Prompt } from "./prompt.ts";
import { isTerminal, setUpAtTerminal } from "./set-up.ts";

/**
 * After a run could not begin: if the reason is that no provider can be used, asks the user to set one up. Returns
 * whether that was done, so that the run can be tried again. Never asks without a terminal, or inside a run.
 */
export async function offerSetup(io: Io, session: Session, error: unknown): Promise<boolean> {
  const mayBe = error instanceof SyscallError && error.code === "UNAVAILABLE" && isServerError(error);
  return mayBe && isTerminal(io) && !isInsideRun(io.env) && setUpIfWanted(io, session);
}

/** The same before a conversation. A user with a key or a provider does not wait for the search of the machine. */
export async function setUpFirst(io: Io): Promise<void> {
  if (!isTerminal(io) || isInsideRun(io.env) || hasProvider(io)) return;
  await withSession(io, {}, (session) => setUpIfWanted(io, session));
}

async function setUpIfWanted(io: Io, session: Session): Promise<boolean> {
  const providers = await new DraftServer(io, session).providers();
  // A recording is no model.
  if (providers.some(({ name, usable }) => usable && name !== "replay") || !(await isWanted(io)))
    return false;
  return setUpAtTerminal(io, session, {}, { runs: true });
}

function hasProvider({ env }: Io): boolean {
  const isSet = Object.entries(env).some(([name, value]) => value && NAMES_A_KEY.test(name));
  const { configDir } = userPaths(env);
  return isSet || ["providers.yaml", "env"].some((file) => existsSync(join(configDir, file)));
}

const NAMES_A_KEY = /_API_KEY$|^RNIX_PROVIDER$|^CLAUDE_CODE_OAUTH_TOKEN$/;

async function isWanted(io: Io): Promise<boolean> {
  using prompt = Prompt.open(io);
  if (prompt === null) return false;
  const answer = await prompt.ask("No model provider can be used yet. Set one up now?", { preset: "yes" });
  return /^y(es)?$/i.test(answer);
}
