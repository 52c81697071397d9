import { resolve } from "node:path";
import { installClaude, installInspector, installMcpServers, installProjects } from "./install.ts";

/**
 * `npm run test:clis`: brings the CLIs that Rnix drives, MCP servers, an MCP client and three npm projects into a cache folder, and runs the tests that need them. They
 * have names of their own (`*.cli.ts`), so that `bun test` alone does not take them up.
 */
const claude = await installClaude();
const servers = await installMcpServers();
const inspector = await installInspector();
const projects = await installProjects();
const tests = [...new Bun.Glob("*.cli.ts").scanSync({ cwd: import.meta.dir, absolute: true })].toSorted();
const run = Bun.spawn([process.execPath, resolve(import.meta.dir, "../suite.ts"), ...tests], {
  env: {
    ...process.env,
    RNIX_TEST_CLAUDE: claude,
    RNIX_TEST_MCP_SERVERS: servers,
    RNIX_TEST_MCP_INSPECTOR: inspector,
    RNIX_TEST_PROJECTS: projects,
  },
  stdio: ["inherit", "inherit", "inherit"],
});
process.exit(await run.exited);
