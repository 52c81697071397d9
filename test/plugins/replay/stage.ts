import { join } from "node:path";
import replay from "../../../plugins/replay/index.ts";
import {
  type History,
  type LLMAnswer,
  type LLMMessage,
  type LLMRequest,
  O_RDWR,
  type RunInfo,
  type ToolCall,
} from "../../../src/plugin/index.ts";
import { PluginStore } from "../../../src/store/plugin-store.ts";
import { testContext } from "../../support/conformance/context.ts";
import { Folder } from "../../support/folder.ts";
import { ask, request } from "../../support/model-server/device.ts";

export const DEVICE = "/dev/llm/replay";

/** What the test's agent does with a call: the text that its model is shown. */
type Tools = (call: ToolCall) => string;

/** A folder for scripts, the runs there are, and a small loop that plays a model against tools. */
export class Stage extends Folder {
  readonly runs: RunInfo[] = [];
  readonly steps = new Map<string, object[]>();
  readonly history: History = {
    runs: async ({ uuid, parent, limit }) =>
      this.runs
        .filter((run) =>
          parent === undefined ? run.uuid.startsWith(uuid ?? "?") : run.parent_uuid === parent,
        )
        .slice(0, limit),
    steps: async (uuid, after, max) =>
      (this.steps.get(uuid) ?? [])
        .filter((step) => "step" in step && Number(step.step) > after)
        .slice(0, max),
  };

  write(name: string, content: string | object): string {
    this.put(name, typeof content === "string" ? content : JSON.stringify(content));
    return name;
  }

  /** One process's model: kept from answer to answer, as its file is. */
  async open(model: string, self: Partial<RunInfo> & { depth?: number } = {}): Promise<Player> {
    const { uuid = "self", depth = 0, cwd = this.dir } = self;
    const { context } = testContext(cwd, {
      process: { pid: 9, uuid, tree: uuid, agent: "default", depth, attended: false, operator: false },
      history: this.history,
      store: new PluginStore({
        plugin: "replay",
        run: join(this.dir, "store", uuid),
        project: join(this.dir, "store"),
        user: join(this.dir, "store"),
      }),
    });
    const device = replay.devices[DEVICE];
    return new Player(model, await device.factory("", O_RDWR, context));
  }
}

class Player {
  readonly messages: LLMMessage[] = [{ role: "user", content: "fix it" }];
  readonly #model: string;
  readonly #file: Awaited<ReturnType<(typeof replay.devices)[typeof DEVICE]["factory"]>>;
  turn = 0;

  constructor(model: string, file: Awaited<ReturnType<(typeof replay.devices)[typeof DEVICE]["factory"]>>) {
    this.#model = model;
    this.#file = file;
  }

  /** The next answer, and what its calls come to, in the conversation. */
  async next(tools: Tools = () => "ok", what: Partial<LLMRequest> = {}): Promise<LLMAnswer> {
    const asked = { ...request, model: this.#model, turn: this.turn, messages: this.messages, ...what };
    const { answer } = await ask(this.#file, asked);
    this.turn++;
    const { content, tool_calls } = answer;
    this.messages.push({ role: "assistant", content, ...(tool_calls.length > 0 && { tool_calls }) });
    for (const call of tool_calls) {
      this.messages.push({ role: "tool", content: tools(call), tool_call_id: call.id });
    }
    return answer;
  }

  /** Answers up to the first without calls. */
  async play(tools?: Tools): Promise<string[]> {
    const texts: string[] = [];
    for (;;) {
      const { content, tool_calls } = await this.next(tools);
      texts.push(content);
      if (tool_calls.length === 0) return texts;
    }
  }
}

export function run(uuid: string, more: Partial<RunInfo> = {}): RunInfo {
  return {
    uuid,
    pid: 1,
    parent_uuid: null,
    kind: "agent",
    agent: "default",
    intent: "fix it",
    provider: "openai",
    model: "m",
    cwd: "/then",
    project: "/then",
    created_at_ms: 0,
    ended_at_ms: 1,
    exit_code: 0,
    exit_reason: "completed",
    ...more,
  };
}

type Called = [
  name: string,
  input: Record<string, unknown>,
  result: string | { error: string; code: string },
];

/** A step as it is recorded. */
export function step(n: number, content: string, ...calls: Called[]): object {
  const ids = calls.map((_, index) => `t${n}_${index + 1}`);
  return {
    v: 1,
    step: n,
    messages: [
      ...(n === 1 ? [{ role: "user", content: "fix it" }] : []),
      {
        role: "assistant",
        content,
        ...(calls.length > 0 && {
          tool_calls: calls.map(([name, input], i) => ({ id: ids[i], name, input })),
        }),
      },
    ],
    tool_calls: calls.map(([name, input, result], i) => ({
      id: ids[i],
      name,
      input,
      result: typeof result === "string" ? result : null,
      error: typeof result === "string" ? null : result.error,
      error_code: typeof result === "string" ? null : result.code,
      state: typeof result === "string" ? "done" : "failed",
    })),
    usage: { input_tokens: 5, output_tokens: 6, cached_tokens: 1 },
  };
}
