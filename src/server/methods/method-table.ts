import { allow } from "./allow.ts";
import { answerUser } from "./answer-user.ts";
import { attach } from "./attach.ts";
import { attachDebug } from "./attach-debug.ts";
import { attachLog } from "./attach-log.ts";
import { call } from "./call.ts";
import { compact } from "./compact.ts";
import { compareRuns } from "./compare-runs.ts";
import { daemonStatus } from "./daemon-status.ts";
import { deny } from "./deny.ts";
import { diff } from "./diff.ts";
import { endChat } from "./end-chat.ts";
import { exportScript } from "./export-script.ts";
import { gc } from "./gc.ts";
import { getProcDetail } from "./get-proc-detail.ts";
import { getStepDetail } from "./get-step-detail.ts";
import { getStepPrompt } from "./get-step-prompt.ts";
import { interrupt } from "./interrupt.ts";
import { kill } from "./kill.ts";
import { lastRun } from "./last-run.ts";
import { listAgents } from "./list-agents.ts";
import { listAllProcs } from "./list-all-procs.ts";
import { listAsks } from "./list-asks.ts";
import { listEvents } from "./list-events.ts";
import { listModels } from "./list-models.ts";
import { listPlugins } from "./list-plugins.ts";
import { listProcs } from "./list-procs.ts";
import { listProviders } from "./list-providers.ts";
import { listSkills } from "./list-skills.ts";
import { listSteps } from "./list-steps.ts";
import { listTools } from "./list-tools.ts";
import type { PlainDefinition, StreamDefinition } from "./method.ts";
import { ping } from "./ping.ts";
import { replay } from "./replay.ts";
import { resume } from "./resume.ts";
import { sendMessage } from "./send-message.ts";
import { setModel } from "./set-model.ts";
import { show } from "./show.ts";
import { shutdown } from "./shutdown.ts";
import { signalTree } from "./signal-tree.ts";
import { spawn } from "./spawn.ts";
import { suspend } from "./suspend.ts";
import { takeBackMessage } from "./take-back-message.ts";
import { tryModel } from "./try-model.ts";
import { undo } from "./undo.ts";
import { wait } from "./wait.ts";

/** All methods by their names in the protocol. Each has its own file with payload, answer and handler. */
export const METHODS = {
  ping,
  spawn,
  list_procs: listProcs,
  list_all_procs: listAllProcs,
  last_run: lastRun,
  kill,
  signal_tree: signalTree,
  suspend,
  compact,
  resume,
  replay,
  compare_runs: compareRuns,
  export_script: exportScript,
  allow,
  deny,
  list_asks: listAsks,
  answer_user: answerUser,
  wait,
  send_message: sendMessage,
  take_back_message: takeBackMessage,
  interrupt,
  set_model: setModel,
  end_chat: endChat,
  attach,
  attach_debug: attachDebug,
  attach_log: attachLog,
  list_events: listEvents,
  list_steps: listSteps,
  get_step_detail: getStepDetail,
  get_step_prompt: getStepPrompt,
  get_proc_detail: getProcDetail,
  show,
  diff,
  undo,
  call,
  list_plugins: listPlugins,
  list_tools: listTools,
  list_agents: listAgents,
  list_skills: listSkills,
  list_providers: listProviders,
  list_models: listModels,
  try_model: tryModel,
  gc,
  daemon_status: daemonStatus,
  shutdown,
};

type Methods = typeof METHODS;

export type Method = keyof Methods;

/** What a request of the method brings. */
export type Payload<M extends Method> = Parameters<Methods[M]["handle"]>[0];

export type StreamingMethod = {
  [M in Method]: Methods[M]["streaming"] extends true ? M : never;
}[Method];

export type PlainMethod = Exclude<Method, StreamingMethod>;

/** What each method answers in `payload`. A streaming method answers this first, then its events. */
export type Answers = {
  [M in Method]: Methods[M] extends
    | PlainDefinition<Payload<M>, infer A>
    | StreamDefinition<Payload<M>, infer A>
    ? A
    : never;
};
