import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { ANTHROPIC_KEY, Machine, type RunOptions } from "../e2e/support/machine.ts";
import type { Result } from "../e2e/support/running.ts";
import type { Turn } from "../support/model-server/script.ts";
import type { ModelServer, RecordedRequest, TurnFunction } from "../support/model-server/server.ts";

/** A model with a price that the CLI knows. */
export const MODEL = "claude-sonnet-4-5";
export { ANTHROPIC_KEY as KEY };

/** The program under test; test/clis/main.ts names it. */
function claude(): string {
  const path = process.env.RNIX_TEST_CLAUDE;
  if (path === undefined) throw new Error("These tests are run by `npm run test:clis`.");
  return path;
}

/** A machine with the real CLI, a home of its own and a scripted model behind it. */
export class ClaudeMachine extends Machine {
  /** The CLI writes there, whatever its settings are. */
  readonly userHome = join(this.elsewhere, "home");

  constructor() {
    super();
    Object.assign(this.env, {
      HOME: this.userHome,
      PATH: `${dirname(claude())}:${process.env.PATH}`,
      XDG_CACHE_HOME: join(this.elsewhere, "cache"),
      XDG_STATE_HOME: join(this.elsewhere, "state"),
      // Where it keeps a folder of its own, and what it has no time to remove when it is cancelled.
      TMPDIR: join(this.elsewhere, "tmp"),
    });
    mkdirSync(join(this.elsewhere, "tmp"), { recursive: true });
  }

  async scripted(script: Turn[] | TurnFunction): Promise<ModelServer> {
    const model = await this.model(script);
    for (const name of ["OPENAI_BASE_URL", "OPENAI_API_KEY"]) delete this.env[name];
    Object.assign(this.env, { RNIX_PROVIDER: "claude", RNIX_MODEL: MODEL });
    return model;
  }

  /** A run without a daemon, to its end. */
  spawn(args: string[], options: RunOptions = {}): Promise<Result> {
    return this.run(["spawn", "--no-daemon", "--output", "json", ...args], options);
  }
}

/** What a run reports at its end. */
export interface Report {
  uuid: string;
  exit_code: number;
  exit_reason: string;
  result: string | null;
  error: { code: string; message: string } | null;
  steps: number;
  tool_calls: number;
  usage: { input_tokens: number; output_tokens: number };
  cost_usd: number | null;
}

export function report({ stdout, stderr }: Result): Report {
  try {
    return JSON.parse(stdout);
  } catch (cause) {
    throw new Error(`no report: ${stdout}${stderr}`, { cause });
  }
}

/** Names of the tools that a request offers. */
export function toolsOf(request: RecordedRequest | undefined): string[] {
  const tools = request?.body.tools;
  if (!Array.isArray(tools)) return [];
  return tools.map((tool: { name: string }) => tool.name);
}
