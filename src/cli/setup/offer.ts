/** Offers to set up a provider where a run found none. */

import { isServerError } from "../../client/client.ts";
import { SyscallError } from "../../plugin/index.ts";
import { isInsideRun } from "../../server/daemon/inside-run.ts";
import type { Io, Session } from "../io.ts";
import { DraftServer } from "./draft.ts";
import { Prompt } from "./prompt.ts";
import { isTerminal, setUpAtTerminal } from "./set-up.ts";

/**
 * After a run could not begin: if the reason is that no provider can be used, asks the user to set one up. Returns
 * whether that was done, so that the run can be tried again. Never asks without a terminal, or inside a run.
 */
export async function offerSetup(io: Io, session: Session, error: unknown): Promise<boolean> {
  const mayBe = error instanceof SyscallError && error.code === "UNAVAILABLE" && isServerError(error);
  if (!mayBe || !isTerminal(io) || isInsideRun(io.env)) return false;
  const providers = await new DraftServer(io, session).providers();
  if (providers.some(({ name, usable }) => usable && name !== "replay")) return false;
  if (!(await isWanted(io))) return false;
  return setUpAtTerminal(io, session, {}, { runs: true });
}

async function isWanted(io: Io): Promise<boolean> {
  using prompt = Prompt.open(io);
  if (prompt === null) return false;
  const answer = await prompt.ask("No model provider can be used yet. Set one up now?", { preset: "yes" });
  return /^y(es)?$/i.test(answer);
}
