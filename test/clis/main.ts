import { resolve } from "node:path";
import { installClaude, installInspector, installMcpServers } from "./install.ts";

/**
 * `npm run test:clis`: brings the CLIs that Rnix drives, MCP servers and an MCP client into a cache folder, and runs the tests that need them. They
 * have names of their own (`*.cli.ts`), so that `bun test` alone does not take them up.
 */
const claude = await installClaude();
const servers = await installMcpServers();
const inspector = await installInspector();
const tests = [...new Bun.Glob("*.cli.ts").scanSync({ cwd: import.meta.dir, absolute: true })].toSorted();
const run = Bun.spawn([process.execPath, resolve(import.meta.dir, "../suite.ts"), ...tests], {
  env: {
    ...process.env,
    RNIX_TEST_CLAUDE: claude,
    RNIX_TEST_MCP_SERVERS: servers,
    RNIX_TEST_MCP_INSPECTOR: inspector,
  },
  stdio: ["inherit", "inherit", "inherit"],
});
process.exit(await run.exited);
