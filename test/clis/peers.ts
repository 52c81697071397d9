/** Tries the calls of docs/permissions.md in another agent, by its defaults: `bun test/clis/peers.ts claude|opencode PROGRAM`. */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { EXAMPLES } from "../e2e/support/asked-examples.ts";
import { ModelServer } from "../support/model-server/server.ts";

interface Peer {
  /** Its names of the tools that it has, and of their arguments, and what it needs beside them. */
  tools: Record<string, string>;
  fields: Record<string, string>;
  more: Record<string, object>;
  config(url: string): [path: string, content: object];
  /** On its screen when it is ready, and with a question. */
  ready: RegExp;
  question: RegExp;
  /** Keys that show what "always" would allow, if it is not shown with the question, and keys for no. */
  show: string[];
  no: string[];
  /** What "always" would allow, as a cell of the table; "": it is not offered. */
  always(screen: string): string;
}

const RESULTS = join(import.meta.dir, "../e2e/support/asked-peers.json");
const KEY = "sk-fake-key-for-loopback";
const home = mkdtempSync(join(tmpdir(), "peers-"));
const project = join(home, "project");
const [description, TODOS] = ["Run it", "todowrite"];
const todos = [{ content: "a", status: "pending", priority: "low" }];
const code = (words: string) => `\`${words}\``;

const PEERS: Record<string, Peer> = {
  claude: {
    tools: { Bash: "Bash", Read: "Read", Write: "Write", Edit: "Edit", TaskCreate: "TaskCreate" },
    fields: { path: "file_path" },
    more: { Bash: { description }, TaskCreate: { description } },
    config() {
      const customApiKeyResponses = { approved: [KEY.slice(-20)] };
      const projects = { [project]: { hasTrustDialogAccepted: true } };
      return [".claude.json", { hasCompletedOnboarding: true, customApiKeyResponses, projects }];
    },
    ready: /\? for shortcuts/,
    question: /Esc to cancel/,
    show: [],
    no: ["Escape"],
    always(screen) {
      const second = /^[ ❯]*2\. (.*)$/m.exec(screen)?.[1] ?? "";
      const commands = /ask again for:? (.*?)( commands in .*)?$/.exec(second)?.[1];
      const folder = /(?:reading from|access to) (\S+)/.exec(second)?.[1];
      if (commands) return commands.split(" and ").map(code).join(", ");
      return folder ? `the folder ${code(folder)}` : /edits/.test(second) ? "all edits" : "";
    },
  },
  opencode: {
    tools: { Bash: "bash", Read: "read", Grep: "grep", Write: "write", Edit: "edit", TaskCreate: TODOS },
    fields: { path: "filePath", old_string: "oldString", new_string: "newString" },
    more: { Bash: { description }, TaskCreate: { todos } },
    config(url) {
      const models = { scripted: { tool_call: true, limit: { context: 200_000, output: 8000 } } };
      const options = { baseURL: `${url}/v1` };
      const provider = { fake: { npm: "@ai-sdk/openai-compatible", options, models } };
      const config = { model: "fake/scripted", small_model: "fake/scripted", provider };
      return [".config/opencode/opencode.json", config];
    },
    ready: /ctrl\+p commands/,
    question: /Permission required/,
    show: ["Right", "Enter"],
    no: ["Escape", "Escape"],
    always: (screen) => [...screen.matchAll(/┃ +- (\S+)/g)].map(([, words = ""]) => code(words)).join(", "),
  },
};

const [name = "", program = ""] = process.argv.slice(2);
const peer = PEERS[name];
if (!peer || !program) throw new Error(`expected ${Object.keys(PEERS).join(" or ")}, and its program's path`);

/** The call whose result has come. */
let answered = -1;
const model = await ModelServer.start(({ body }) => {
  const messages = JSON.stringify(body.messages);
  const mark = [...messages.matchAll(/CALL-(\d+)-/g)].at(-1);
  const [, [tool, input] = ["", {}]] = EXAMPLES[Number(mark?.[1])] ?? [];
  const own = peer.tools[tool];
  if (own === undefined || !Array.isArray(body.tools) || body.tools.length === 0) return { text: "A title" };
  if (/"tool_result"|"role":"tool"/.test(messages.slice(mark?.index))) {
    answered = Number(mark?.[1]);
    return { text: "Done." };
  }
  const whole = input.path === undefined ? input : { ...input, path: resolve(project, String(input.path)) };
  const renamed = Object.entries(whole).map(([key, value]) => [peer.fields[key] ?? key, value]);
  return { tool_calls: [{ name: own, input: { ...Object.fromEntries(renamed), ...peer.more[tool] } }] };
});

const ENV = `HOME=${home} PATH=${home}/bin:${process.env.PATH} TERM=xterm-256color LANG=C.UTF-8
  ANTHROPIC_BASE_URL=${model.url} ANTHROPIC_API_KEY=${KEY} ANTHROPIC_MODEL=claude-sonnet-4-5
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_MODELS_FETCH=1`;
const inEnv = ["env", "-i", ...ENV.split(/\s+/)];
function sh(...command: string[]): string {
  const { success, stdout, stderr } = Bun.spawnSync([...inEnv, ...command], { cwd: home });
  if (!success) throw new Error(`${command.join(" ")}: ${stderr}`);
  return stdout.toString();
}
const tmux = (...args: string[]) => sh("tmux", "-S", join(home, "tmux"), "-f", "/dev/null", ...args);
const screen = () => tmux("capture-pane", "-p").replaceAll(home, "~");
async function until(what: string, holds: () => boolean): Promise<void> {
  for (let tries = 0; !holds(); tries++, await Bun.sleep(200))
    if (tries > 300) throw new Error(`no ${what}:\n${screen()}`);
}
/** A pause after each key: these screens take keys when they have been drawn. */
async function press(...keys: string[]): Promise<void> {
  for (const key of keys) {
    tmux("send-keys", key);
    await Bun.sleep(1000);
  }
}

// No call reaches a network.
const SETUP = `mkdir bin && printf "#!/bin/sh\\necho '{}'\\n" > bin/curl && chmod +x bin/curl
  git config --global user.name me && git config --global user.email me@localhost
  git init -q -b main project && cd project && printf 'b\\na\\n' > a.txt && echo 'let a;' > a.ts
  git add . && git commit -qm one && echo 'print(1)' > script.py && echo '{"scripts":{"test":"true"}}' > package.json
  git add . && git commit -qm two`;
try {
  sh("sh", "-ec", SETUP);
  const [file, content] = peer.config(model.url);
  mkdirSync(dirname(join(home, file)), { recursive: true });
  writeFileSync(join(home, file), JSON.stringify(content));
  const version = /[\d.]+/.exec(sh(program, "--version"))?.[0] ?? "";
  tmux("new-session", "-d", "-x200", "-y60", "-c", project, ...inEnv, program);
  await until("prompt", () => peer.ready.test(screen()));
  const asked: Record<string, string | null> = {};
  for (const [at, [shown, [tool]]] of EXAMPLES.entries()) {
    if (!peer.tools[tool]) continue;
    await press(`CALL-${at}-`, "Enter");
    await until(shown, () => answered === at || peer.question.test(screen()));
    asked[shown] = null;
    if (answered === at) continue;
    await press(...peer.show);
    asked[shown] = `yes; ${peer.always(screen()) || "–"}`;
    await press(...peer.no);
  }
  const results = { ...JSON.parse(readFileSync(RESULTS, "utf8")), [name]: { version, asked } };
  writeFileSync(RESULTS, `${JSON.stringify(results, null, 2)}\n`);
  tmux("kill-server");
} finally {
  await model.stop();
  rmSync(home, { recursive: true, force: true });
}
