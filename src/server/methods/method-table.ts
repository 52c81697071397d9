/** The table of methods. */

import { lazy } from "../../lib/caches.ts";
import type { PlainDefinition, StreamDefinition } from "./method.ts";

/**
 * All methods by their names in the protocol. Each has its own file with payload, answer and handler, which is loaded at
 * its first call: most servers answer a few methods only.
 */
export const METHODS = {
  ping: async () => (await import("./ping.ts")).ping,
  spawn: lazy(async () => (await import("./spawn.ts")).spawn),
  list_procs: async () => (await import("./list-procs.ts")).listProcs,
  list_all_procs: async () => (await import("./list-all-procs.ts")).listAllProcs,
  last_run: async () => (await import("./last-run.ts")).lastRun,
  kill: async () => (await import("./kill.ts")).kill,
  signal_tree: async () => (await import("./signal-tree.ts")).signalTree,
  suspend: async () => (await import("./suspend.ts")).suspend,
  compact: async () => (await import("./compact.ts")).compact,
  resume: async () => (await import("./resume.ts")).resume,
  replay: async () => (await import("./replay.ts")).replay,
  compare_runs: async () => (await import("./compare-runs.ts")).compareRuns,
  export_script: async () => (await import("./export-script.ts")).exportScript,
  export_html: async () => (await import("./export-html.ts")).exportHtml,
  background_call: async () => (await import("./background-call.ts")).backgroundCall,
  stop_unit: async () => (await import("./stop-unit.ts")).stopUnit,
  unit_output: async () => (await import("./unit-output.ts")).unitOutput,
  allow: async () => (await import("./allow.ts")).allow,
  deny: async () => (await import("./deny.ts")).deny,
  list_asks: async () => (await import("./list-asks.ts")).listAsks,
  morning: async () => (await import("./morning.ts")).morning,
  answer_user: async () => (await import("./answer-user.ts")).answerUser,
  watch_procs: async () => (await import("./watch-procs.ts")).watchProcs,
  wait: async () => (await import("./wait.ts")).wait,
  send_message: async () => (await import("./send-message.ts")).sendMessage,
  take_back_message: async () => (await import("./take-back-message.ts")).takeBackMessage,
  interrupt: async () => (await import("./interrupt.ts")).interrupt,
  set_model: async () => (await import("./set-model.ts")).setModel,
  set_mode: async () => (await import("./set-mode.ts")).setMode,
  end_chat: async () => (await import("./end-chat.ts")).endChat,
  attach: async () => (await import("./attach.ts")).attach,
  attach_debug: async () => (await import("./attach-debug.ts")).attachDebug,
  attach_log: async () => (await import("./attach-log.ts")).attachLog,
  run_events: async () => (await import("./run-events.ts")).runEvents,
  list_events: async () => (await import("./list-events.ts")).listEvents,
  list_steps: async () => (await import("./list-steps.ts")).listSteps,
  get_step_detail: async () => (await import("./get-step-detail.ts")).getStepDetail,
  get_step_prompt: async () => (await import("./get-step-prompt.ts")).getStepPrompt,
  get_proc_detail: async () => (await import("./get-proc-detail.ts")).getProcDetail,
  show: async () => (await import("./show.ts")).show,
  show_workflow: async () => (await import("./show-workflow.ts")).showWorkflow,
  diff: async () => (await import("./diff.ts")).diff,
  take: async () => (await import("./take.ts")).take,
  undo: async () => (await import("./undo.ts")).undo,
  require_person: async () => (await import("./require-person.ts")).requirePerson,
  require_files: async () => (await import("./require-files.ts")).requireFiles,
  call: async () => (await import("./call.ts")).call,
  login_mcp: async () => (await import("./login-mcp.ts")).loginMcp,
  test_mcp: async () => (await import("./test-mcp.ts")).testMcp,
  list_plugins: async () => (await import("./list-plugins.ts")).listPlugins,
  list_commands: async () => (await import("./list-commands.ts")).listCommands,
  list_tools: async () => (await import("./list-tools.ts")).listTools,
  list_agents: async () => (await import("./list-agents.ts")).listAgents,
  list_skills: async () => (await import("./list-skills.ts")).listSkills,
  list_providers: async () => (await import("./list-providers.ts")).listProviders,
  list_models: async () => (await import("./list-models.ts")).listModels,
  try_model: async () => (await import("./try-model.ts")).tryModel,
  gc: async () => (await import("./gc.ts")).gc,
  daemon_status: async () => (await import("./daemon-status.ts")).daemonStatus,
  open_dashboard: async () => (await import("./open-dashboard.ts")).openDashboard,
  shutdown: async () => (await import("./shutdown.ts")).shutdown,
};

type Methods = { [M in keyof typeof METHODS]: Awaited<ReturnType<(typeof METHODS)[M]>> };

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
