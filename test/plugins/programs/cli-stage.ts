import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Device, O_RDWR, type OpenContext, type VFSFile } from "../../../src/plugin/index.ts";
import { exchange, text } from "../../support/conformance/vfs-file.ts";
import { request } from "../../support/model-server/device.ts";
import { openContext, type RealContext } from "../../support/open-context.ts";
import { until } from "../../support/until.ts";
import { standIn } from "./stand-in.ts";

/** What a stand-in is made of: its name, its answers, and what it prints of itself. */
export type StandIn = [
  name: string,
  answers: Parameters<typeof standIn>[2],
  help?: Parameters<typeof standIn>[3],
];

/** The driver of a CLI on a folder with a stand-in for the CLI, which is on the PATH and really runs. */
export class CliStage implements AsyncDisposable {
  readonly root = realpathSync(mkdtempSync(join(tmpdir(), "rnix-cli-")));
  readonly program: ReturnType<typeof standIn>;
  readonly real: RealContext;
  readonly #device: Device;

  constructor(device: Device, standing: StandIn, { env, ...more }: Partial<OpenContext> = {}) {
    this.#device = device;
    this.program = standIn(this.root, ...standing);
    this.real = openContext(this.root, join(this.root, "kept"), {
      env: { PATH: `${this.root}:/usr/bin:/bin`, HOME: this.root, ...env },
      secret: async () => "the-key",
      ...more,
    });
  }

  /** Programs under way. */
  get running(): number {
    return this.real.children.list().length;
  }

  async open(more: Partial<OpenContext> = {}): Promise<VFSFile> {
    return this.#device.factory("", O_RDWR, { ...this.real.context, ...more });
  }

  /** One streamed request on a file that is opened for it, and all that it answers. */
  async ask(asked: object, more: Partial<OpenContext> = {}): Promise<string> {
    const file = await this.open(more);
    try {
      return text(await exchange(file, JSON.stringify({ ...request, stream: true, ...asked })));
    } finally {
      await file.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // What has exited is looked after for a moment.
    await until(() => this.running === 0);
    await this.real[Symbol.asyncDispose]();
    rmSync(this.root, { recursive: true, force: true });
  }
}

/** A conversation of these words. */
export function user(content: string): object {
  return { messages: [{ role: "user", content }] };
}
