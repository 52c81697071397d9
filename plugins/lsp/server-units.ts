/** Lists the language servers that a run uses among its background units. */

import { type LSPMeta, type OpenContext, SyscallError } from "rnix/plugin";
import type { LanguageServer } from "./language-server.ts";
import { MAX_FAILURES } from "./server-pool.ts";

/** Units by run and server. A unit leaves when its run ends. */
const listed = new Map<string, string>();

/** Lists the server as a unit of the run that calls, or brings its unit up to date. */
export async function listServer(
  { kind, root, end, restarts }: LanguageServer,
  { units, process }: OpenContext,
): Promise<void> {
  if (units === undefined) return;
  const metadata: LSPMeta = {
    server_name: kind.name,
    command: kind.command.join(" "),
    state: end === undefined ? "running" : "error",
    exit_code: end?.code ?? null,
    restart_count: restarts,
    max_restarts: MAX_FAILURES,
  };
  const key = JSON.stringify([process.uuid, root, kind.name]);
  const known = listed.get(key);
  if (known !== undefined) return await units.update(known, { metadata });
  try {
    const { id } = await units.register({ kind: "lsp", description: `${kind.name} in ${root}`, metadata });
    listed.set(key, id);
    // The server is shared: the run leaves it, and the kernel ends it when no run uses it any more.
    void units.killed(id).then(async () => {
      listed.delete(key);
      await units.update(id, { status: "completed" });
    });
  } catch (thrown) {
    // Without room for a unit, or where no units can run, the server answers all the same.
    if (!(thrown instanceof SyscallError) || !["EXHAUSTED", "UNAVAILABLE"].includes(thrown.code))
      throw thrown;
  }
}
