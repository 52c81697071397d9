/** Plans what requests begin: runs, calls and resumes. Each waits for the init.yaml that it needs. */

import { type Env, homeNotice, type UserPaths } from "../../config/environment/paths.ts";
import type { ProviderChoice } from "../../kernel/types.ts";
import { requireOwn } from "../../store/runs/own-run.ts";
import { planSpawn, type SpawnPlan, type SpawnPorts } from "../plan/plan-spawn.ts";
import { type PlacedResume, parentUuid, placedSpawn } from "../plan/request-defaults.ts";
import type { Run } from "../records/recorded-run.ts";
import type { InMemorySettings } from "../recovery/auto-resume.ts";
import type { InitService } from "../recovery/init-service.ts";
import type { Services } from "../services.ts";

interface PlansPorts {
  user: UserPaths;
  planner: SpawnPorts;
  /** Waits for the init.yaml that a run in this folder needs. */
  ready: InitService["ready"];
  /** The environment of runs without a caller. */
  environment: Record<string, string>;
  /** The notice for runs if the record key could not be saved. */
  keyNotice: string | undefined;
  /** Where the variables of the daemon send telemetry; null: those of the command are used. */
  endpoint: string | undefined | null;
  /** Settings of a waiting run that are in memory only. */
  inMemory(uuid: string): InMemorySettings | undefined;
}

export interface Plans
  extends Pick<Services, "plan" | "planCall" | "planResume" | "planModel" | "planAdopt"> {
  /** Plans a resume in this environment, with the keys of `provider` if the run had it. */
  planResumeIn(run: Run, request: PlacedResume, provider?: ProviderChoice): Promise<SpawnPlan>;
}

/** Most runs are not resumed: the code is loaded with the first that is. */
const resumes = () => import("../plan/plan-resume.ts");

export function makePlans(ports: PlansPorts): Plans {
  const { user, planner, ready, environment, keyNotice, inMemory } = ports;
  const defaults = { dataDir: user.dataDir, environment, parent: planner.parent };
  const planResumeIn: Plans["planResumeIn"] = async (run, request, provider) => {
    const { planResume, requireFolders } = await resumes();
    requireOwn(run.info);
    requireFolders(run.info);
    const left = await ready({ cwd: run.info.project, env: request.env });
    const { notices, ...planned } = await planResume(run, request, planner, provider);
    return { ...planned, notices: [...left, ...notices] };
  };
  return {
    planResumeIn,
    async plan(asked, unit) {
      const { request, notices: placed } = placedSpawn(asked, unit, defaults);
      // A child does not wait for init.yaml, because its parent runs already.
      const isChild = parentUuid(request, unit) !== undefined;
      const left = isChild ? [] : await ready(request);
      if (request.workflow?.graph !== undefined) {
        const { checkGraph } = await import("../plan/check-graph.ts");
        await checkGraph(request, unit, planner);
      }
      const { notices, ...planned } = await planSpawn(request, unit, planner);
      const unused = isChild ? undefined : endpointNotice(request.env, ports.endpoint);
      const ofUser = [keyNotice, homeNotice(user), unused].filter((notice) => notice !== undefined);
      return { ...planned, notices: [...left, ...ofUser, ...placed, ...notices] };
    },
    async planCall({ env: given, ...place }) {
      const from = { ...place, env: given ?? environment };
      // A server of init.yaml may have the tool, or be the one that is named.
      const isMounted = place.tool?.includes("__") || place.path?.startsWith("/mnt/");
      const left = place.server !== undefined || isMounted ? await ready(from) : [];
      const { planCall } = await import("../plan/plan-call.ts");
      const { notices, ...planned } = await planCall(from, planner);
      return { ...planned, notices: [...left, ...notices] };
    },
    async planResume(run, { env, ...request }) {
      if (env !== undefined) return planResumeIn(run, { ...request, env });
      const had = inMemory(run.info.uuid);
      if (had) return planResumeIn(run, { ...request, env: had.env }, had.provider ?? undefined);
      const { keepAddress } = await import("../plan/keep-address.ts");
      return keepAddress(run.info, await planResumeIn(run, { ...request, env: environment }));
    },
    planModel: async (run, { env = environment, ...chosen }, current) =>
      (await resumes()).planModel(run, { env, ...chosen }, planner, current),
    planAdopt: async (run, { env = environment, ...request }) =>
      (await resumes()).planAdopt(run, { ...request, env }, planner),
  };
}

/** One daemon sends the telemetry of all runs. */
function endpointNotice(env: Env, known: PlansPorts["endpoint"]): string | undefined {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: given } = env;
  if (!given || known === null || known === given) return undefined;
  return "OTEL_EXPORTER_OTLP_ENDPOINT of this command is not used: the daemon was started without it. `rnix daemon restart` takes it over";
}
