/** The table of run options: each one's name, values, flag and sources, and what becomes of it. */

import { ASK_MODES } from "../lib/ask-modes.ts";
import { TAINT_POLICIES } from "../lib/taint.ts";
import { EFFORTS } from "../plugin/model.ts";
import type { RunOption } from "./run-option.ts";
import { run } from "./setting.ts";

const MIN = 60_000;
const MODEL = "which model to use";
const EFFORT = "how much the model thinks before it answers";
const ASK = "ask a person before these calls, such as Bash or Write(.github/**)";
const ASK_MODE =
  "what needs your yes without a rule: only look and plan, ask outside the project, accept edits, or nothing";
const ON_ASK =
  "without a person, or an answer in time: refuse, take the question's default, or suspend until rnix answer";
const ON_UNITS =
  "with live background units, after the answer: wait for them, suspend until they report, or end them";
const PROVIDER = "which provider to use; rnix providers lists them";
const ALLOW = "allow only these tools, such as Read,Grep or Bash(git *)";
const DENY = "refuse these tools";
const NETWORK = "what the run reaches: on, off, or hosts such as example.com, *.example.com, example.com:443";
const SANDBOX =
  "run its programs in a sandbox: where one can be made (the default without a terminal), always, or not";
const SANDBOX_LEVEL =
  "what programs in the sandbox may write: the project, or only a private temporary folder";
const TAINT =
  "once it has read text of others (web, MCP, --untrusted), a call that acts outside is asked, refused or neither; auto: asked where no person is there";
const SKILL = "load this skill into the prompt";

/** An option has this name in requests and in the code. Flags are shown in this order. */
export const RUN_OPTIONS = {
  agent: {
    kind: "text",
    hint: "NAME",
    init: true,
    help: {
      spawn: "which agent to run; rnix agents lists them",
      chat: "which agent to talk with; rnix agents lists them",
    },
  },
  provider: {
    kind: "text",
    hint: "NAME",
    init: true,
    help: { spawn: PROVIDER, chat: PROVIDER, resume: `${PROVIDER}; the run's own by default` },
  },
  model: {
    kind: "text",
    hint: "MODEL",
    init: true,
    help: { spawn: MODEL, chat: MODEL, resume: `${MODEL}; the run's own by default` },
  },
  effort: { kind: "choice", choices: EFFORTS, help: { spawn: EFFORT, chat: EFFORT } },
  max_steps: {
    kind: "limit",
    hint: "N",
    setting: run("count", 100, "steps of a run", { unlimited: true }),
    limits: "steps",
    agent: true,
    init: true,
    process: true,
    help: {
      spawn: 'maximum steps of the run, or "unlimited"',
      chat: 'maximum steps of the conversation, or "unlimited"',
      resume: 'maximum steps of the whole run, including past ones, or "unlimited"',
    },
  },
  context_budget: {
    kind: "limit",
    flag: "budget",
    hint: "TOKENS",
    setting: run("count", null, "tokens of a run and its children, then exit 2"),
    limits: "tokens",
    agent: true,
    init: true,
    process: true,
    help: {
      spawn: 'maximum tokens of the run and its children, or "unlimited"; exit 2 when used up',
      chat: 'maximum tokens of the conversation and its sub-agents, or "unlimited"',
      resume: 'maximum tokens of the whole run, including those used, or "unlimited"',
    },
  },
  max_cost: {
    kind: "limit",
    hint: "USD",
    setting: run("dollars", null, "cost of a run and its children, then exit 2"),
    limits: "cost",
    agent: true,
    init: true,
    process: true,
    help: {
      spawn:
        'maximum cost of the run and its children, or "unlimited"; exit 2 when used up. Needs a known price',
      chat: 'maximum cost of it, or "unlimited". Needs a known price',
      resume: 'maximum cost of the whole run, including what was spent, or "unlimited"',
    },
  },
  timeout_ms: {
    kind: "limit",
    key: "timeout",
    flag: "timeout",
    hint: "DUR",
    setting: run("duration", 60 * MIN, "wall time of a run; paused time does not count", { unlimited: true }),
    limits: "timeMs",
    agent: true,
    init: true,
    process: true,
    help: {
      spawn: 'maximum running time, such as 10m, or "unlimited"',
      chat: 'maximum working time, without waiting for you, such as 2h, or "unlimited"',
      resume: 'maximum running time, including past time, such as 20m, or "unlimited"',
    },
  },
  allow: { kind: "rules", init: true, process: true, help: { spawn: ALLOW, chat: ALLOW } },
  deny: { kind: "rules", init: true, help: { spawn: DENY, chat: DENY } },
  ask: { kind: "rules", process: true, help: { spawn: ASK, chat: ASK, resume: ASK } },
  ask_mode: {
    kind: "choice",
    choices: ASK_MODES.toReversed(),
    help: { spawn: ASK_MODE, chat: ASK_MODE, resume: ASK_MODE },
  },
  on_ask: {
    kind: "choice",
    choices: ["deny", "default", "park"],
    process: true,
    recorded: "options",
    shown: "on ask",
    help: { spawn: ON_ASK, chat: ON_ASK, resume: ON_ASK },
  },
  on_units: {
    kind: "choice",
    choices: ["wait", "park", "kill"],
    process: true,
    recorded: "options",
    shown: "on units",
    help: { spawn: ON_UNITS, resume: ON_UNITS },
  },
  mcp: {
    kind: "list",
    hint: "NAME",
    help: {
      spawn: "start this MCP server for the run; without it the run does not begin",
      chat: "start this MCP server for the conversation",
    },
  },
  skill: { kind: "list", hint: "NAME", help: { spawn: SKILL, chat: SKILL } },
  sandbox: {
    kind: "choice",
    choices: ["auto", "required", "off"],
    words: {
      choices: ["unattended", "auto", "required", "off"],
      default: "unattended",
      about:
        "a sandbox for the programs of a run: auto, required, off; unattended: auto without a terminal, else off",
    },
    agent: true,
    help: { spawn: SANDBOX, chat: SANDBOX },
  },
  sandbox_level: {
    kind: "choice",
    choices: ["project", "read-only"],
    words: { default: "project", about: "what programs in a sandbox may write: project or read-only" },
    agent: true,
    help: { spawn: SANDBOX_LEVEL, chat: SANDBOX_LEVEL },
  },
  network: {
    kind: "list",
    hint: "HOST",
    words: { default: "on", about: "what a run reaches: on, off, or hosts such as example.com" },
    agent: true,
    init: true,
    process: true,
    inherited: true,
    recorded: "options",
    shown: "network",
    help: { spawn: NETWORK, chat: NETWORK },
  },
  taint: {
    kind: "choice",
    choices: TAINT_POLICIES,
    words: { default: "auto", about: TAINT },
    process: true,
    inherited: true,
    recorded: "options",
    shown: "taint",
    help: { spawn: TAINT, chat: TAINT },
  },
  trust: {
    kind: "switch",
    help: {
      spawn: "let this run use everything the project brings, trusted or not",
      chat: "use everything the project brings, trusted or not",
      resume: "let it use everything the project brings, trusted or not",
    },
  },
  base: {
    kind: "text",
    hint: "REF",
    help: {
      spawn:
        "take agents, skills, plugins, servers, settings and instructions from this commit, not from the checkout",
    },
  },
  check: {
    kind: "list",
    hint: "CMD",
    process: true,
    help: { spawn: "a command that must succeed at the end, else the run fails" },
  },
  check_attempts: {
    kind: "count",
    hint: "N",
    setting: run("count", 3, "how often the checks are run: after a failed attempt the model continues", {
      max: 100,
    }),
    agent: true,
    process: true,
    recorded: "options",
    help: {
      spawn:
        "how often the checks are run (default 3): after a failed one the agent sees its output and continues",
    },
  },
  output_schema: {
    kind: "schema",
    hint: "FILE",
    process: true,
    recorded: "head",
    help: { spawn: "a file with the JSON Schema that the answer must fit; it is then one JSON document" },
  },
  system_prompt: {
    kind: "prompt",
    hint: "TEXT|@FILE",
    process: true,
    recorded: "head",
    help: { spawn: "added to the agent's instructions; @FILE reads it from a file" },
  },
  add: {
    kind: "paths",
    hint: "PATH",
    help: {
      spawn: "attach a file, text or image, or let the run use a folder outside the project",
      chat: "attach a file or an image to the first message, or let it use a folder outside the project",
    },
  },
  resume_on_restart: {
    kind: "switch",
    ofJobs: false,
    process: true,
    help: { spawn: "resume by itself when the daemon starts again after a crash or a stop" },
  },
} as const satisfies Record<string, RunOption>;
