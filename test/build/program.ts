import { PLUGIN_PROGRAM } from "../../src/lib/program-channel.ts";
import { startProgram } from "../../src/os/channel.ts";
import { embeddedAgents, embeddedPlugins, embeddedSkills } from "../../src/plugin/host/embedded.ts";
import { type HostProject, PluginHost } from "../../src/plugin/host/host.ts";
import { realTimers } from "../../src/plugin/host/process-options.ts";
import { problemText } from "../../src/plugin/host/report.ts";
import { SyscallError } from "../../src/plugin/index.ts";
import { commit, version } from "../../src/version.ts";
import { testContext } from "../support/conformance/context.ts";

/** What the tests of this folder compile: it tells as JSON what it is and what it sees around it. */
const [what = "", ...args] = process.argv.slice(2);
if (what === PLUGIN_PROGRAM) await (await import("../../src/plugin/host/plugin-program.ts")).ended;
const answers: Record<string, () => Promise<unknown>> = {
  about: async () => ({
    version,
    commit,
    nodeEnv: process.env.NODE_ENV,
    plugins: embeddedPlugins().map(({ name }) => name),
    agents: (await embeddedAgents()).map(({ path }) => path),
    skills: (await embeddedSkills()).map(({ path }) => path),
    preloaded: Object.keys(globalThis).filter((key) => key.startsWith("hostile")),
    env: Object.keys(process.env).filter((key) => key.startsWith("HOSTILE")),
  }),
  stock: async () => {
    const from = process.cpuUsage();
    for (const plugin of embeddedPlugins()) await plugin.import();
    const { user, system } = process.cpuUsage(from);
    return { cpuMs: (user + system) / 1000 };
  },
  plugins: async () => {
    // Short deadlines, so that a plugin that hangs is found out at once.
    const limits = { loadMs: 60_000, answerMs: 10, aliveMs: 100 };
    const host = new PluginHost({
      start: startProgram,
      configDir: "/nonexistent",
      beside: null,
      limits,
      timers: realTimers,
    });
    const [dir = "", path = "", input = ""] = args;
    const project: HostProject = { id: "p", dir, kind: "rnix", isTrusted: () => true };
    const lease = await host.lease(project);
    const answer = path === "" ? "" : await said(() => call(lease, path, input));
    lease.release();
    const reports = (await host.list(project)).filter(({ layer }) => layer === "project");
    await host.close();
    const plugins = reports.map(({ name, state, problems }) => ({
      name,
      state,
      problems: problems.map(problemText),
    }));
    return { answer, plugins };
  },
};

async function call(
  lease: Awaited<ReturnType<PluginHost["lease"]>>,
  path: string,
  input: string,
): Promise<string> {
  const { entry, subpath } = lease.namespace.resolve(path);
  const file = await entry.device.factory(subpath, 2, testContext("/tmp").context);
  try {
    const deadline = AbortSignal.timeout(input === "hang" ? 500 : 20_000);
    await file.write(input, deadline);
    return String(await file.read(10_000, deadline));
  } finally {
    await file.close();
  }
}

async function said(call: () => Promise<string>): Promise<string> {
  try {
    return await call();
  } catch (error) {
    return error instanceof SyscallError ? `${error.code}: ${error.message}` : `not a SyscallError: ${error}`;
  }
}

process.stdout.write(JSON.stringify(await answers[what]?.()));
