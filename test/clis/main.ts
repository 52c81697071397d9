import { resolve } from "node:path";
import { installClaude, installMcpServers } from "./install.ts";

/**
 * `npm run test:clis`: brings the CLIs that Rnix drives, and MCP servers, into a cache folder, and runs the tests that need them. They
 * have names of their own (`*.cli.ts`), so that `bun test` alone does not take them up.
 */
const claude = await installClaude();
const servers = await installMcpServers();
const tests = [...new Bun.Glob("*.cli.ts").scanSync({ cwd: import.meta.dir, absolute: true })].toSorted();
const run = Bun.spawn([process.execPath, resolve(import.meta.dir, "../suite.ts"), ...tests], {
  env: { ...process.env, RNIX_TEST_CLAUDE: claude, RNIX_TEST_MCP_SERVERS: servers },
  stdio: ["inherit", "inherit", "inherit"],
});
process.exit(await run.exited);
