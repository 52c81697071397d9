/** `rnix mcp login` and `rnix mcp logout`: OAuth at an MCP server, by the user's browser. */

import { SyscallError } from "../../plugin/index.ts";
import { visible } from "../../plugin/visible.ts";
import { defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { bool, noDaemon } from "../flags.ts";
import { type Io, project, refuseInsideRun, withSession } from "../io.ts";
import { openBrowser } from "../system/open-browser.ts";

const args = [{ name: "NAME", about: "of a server at an address; rnix mcp list prints them" }];
const notes = ["It is for a person: inside a run it is refused."] as const;

export const login = defineCommand({
  about: "Log in at an MCP server that asks for it: prints an address for your browser, and opens it",
  args,
  flags: { "no-browser": bool("only print the address"), "no-daemon": noDaemon },
  examples: { "rnix mcp login docs": "after a run or rnix mcp test asked for it" },
  notes: [
    "The browser returns to a port of this machine. The tokens are for the server's URL only, and are refreshed when they expire.",
    ...notes,
  ],
  async run(io, flags, [name = ""]) {
    await refuseInsideRun(io, "mcp login");
    return withSession(io, { inside: flags["no-daemon"] }, async (session) => {
      const wire = await session.connect();
      const ask = async (request: Record<string, string>): Promise<string> =>
        (await wire.request("login_mcp", { ...project(io), name, request }, { timeoutMs: null })).answer;
      const state = crypto.randomUUID();
      const returned = Promise.withResolvers<URLSearchParams>();
      await using callback = callbackServer(state, (found) => returned.resolve(found));
      const address = await ask({ redirect: callback.redirect, state });
      if (address === "") {
        io.stderr.write(`${name} asks for no login\n`);
        return EXIT.ok;
      }
      io.stderr.write(`Open this address, and agree there:\n${address}\n`);
      if (!flags["no-browser"]) void openBrowser(io, address);
      const found = await within(io, returned.promise);
      const code = found.get("code");
      if (code === null) {
        const why = found.get("error_description") ?? found.get("error") ?? "no code";
        throw new SyscallError("PERMISSION", `${name} refused the login: ${visible(why)}`);
      }
      const iss = found.get("iss");
      await ask({ redirect: callback.redirect, code, ...(iss !== null && { iss }) });
      io.stderr.write(`logged in at ${name}\n`);
      return EXIT.ok;
    });
  },
});

export const logout = defineCommand({
  about: "Remove the tokens of a login at an MCP server",
  args,
  flags: { "no-daemon": noDaemon },
  examples: { "rnix mcp logout docs": "the next run needs a login again" },
  notes: [...notes],
  async run(io, flags, [name = ""]) {
    await refuseInsideRun(io, "mcp logout");
    return withSession(io, { inside: flags["no-daemon"] }, async (session) => {
      const wire = await session.connect();
      const { answer } = await wire.request("login_mcp", { ...project(io), name, request: { logout: true } });
      io.stderr.write(answer === "" ? `there is no login at ${name}\n` : `logged out of ${name}\n`);
      return EXIT.ok;
    });
  },
});

/** How long the person may take. */
const LOGIN_MS = 5 * 60_000;
const LAST_ANSWER_MS = 500;

/** Gets the browser's return, on a port of the loopback address. A request with another state is refused. */
function callbackServer(state: string, returned: (found: URLSearchParams) => void) {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request) {
      const { pathname, searchParams } = new URL(request.url);
      if (pathname !== "/callback" || searchParams.get("state") !== state)
        return new Response("This is not the login that Rnix waits for.\n", { status: 400 });
      returned(searchParams);
      const text = "You can close this page and return to your terminal.\n";
      return new Response(text, { headers: { connection: "close" } });
    },
  });
  return {
    redirect: `http://127.0.0.1:${server.port}/callback`,
    // The last answer is on its way. A browser may keep another connection open.
    [Symbol.asyncDispose]: () => Promise.race([server.stop(), Bun.sleep(LAST_ANSWER_MS)]),
  };
}

async function within<T>(io: Io, work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const message = `the login was not completed within ${LOGIN_MS / 60_000} minutes`;
  const timer = io.timer(LOGIN_MS, () => late.reject(new SyscallError("TIMEOUT", message)));
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    timer.cancel();
  }
}
