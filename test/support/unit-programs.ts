import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { UnitTrace } from "../../src/os/adopted-unit.ts";
import type { UnitChild } from "../../src/os/children.ts";
import type { KernelHarness } from "./kernel.ts";

interface Program {
  /** Its files without their endings. */
  path: string;
  output: string;
  code: number | null;
  gone: PromiseWithResolvers<void>;
}

/** The harness of a kernel removes them with its folder. */
function writeFiles({ path, output, code }: Program): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(`${path}.out`, output);
  if (code !== null) writeFileSync(`${path}.exit`, `${code}\n`);
}

/**
 * In place of the programs of units: each ends when the test says so. They are outside of the kernel, so that they run on
 * when it dies, and the next one adopts them.
 */
export class UnitPrograms {
  /** By command. */
  readonly #programs = new Map<string, Program>();

  /** Gives the kernel these programs. It ends none of them when it is dead. */
  serve({ children }: KernelHarness, isDead: () => boolean = () => false): void {
    for (const program of this.#programs.values()) writeFiles(program);
    children.startUnit = ({ identified }, { argv }) => this.#start(argv, identified, isDead);
    children.adoptUnit = async ({ child }) => {
      const program = this.#programs.get(child);
      if (!program || program.code !== null) return null;
      return this.#handle(child, program, isDead);
    };
  }

  isRunning(command: string): boolean {
    return this.#programs.get(command)?.code === null;
  }

  /** How often a command was started. */
  readonly starts: string[] = [];

  print(command: string, text: string): void {
    const program = this.#programs.get(command);
    if (!program) throw new Error(`${command} was not started`);
    program.output += text;
    appendFileSync(`${program.path}.out`, text);
  }

  exit(command: string, code: number): void {
    const program = this.#programs.get(command);
    if (!program || program.code !== null) return;
    program.code = code;
    writeFiles(program);
    program.gone.resolve();
  }

  #handle(
    command: string,
    { gone }: Program,
    isDead: () => boolean,
  ): { gone: Promise<void>; end(): Promise<void> } {
    const dead = Promise.withResolvers<void>();
    const end = async (): Promise<void> => (isDead() ? dead.resolve() : this.exit(command, 143));
    return { gone: Promise.race([gone.promise, dead.promise]), end };
  }

  #start(
    argv: readonly string[],
    identified: (trace: UnitTrace) => boolean,
    isDead: () => boolean,
  ): UnitChild {
    const command = argv.at(-1) ?? "";
    const exitFile = argv.find((word) => word.endsWith(".exit")) ?? "";
    const program: Program = {
      path: exitFile.replace(/\.exit$/, ""),
      output: "",
      code: null,
      gone: Promise.withResolvers<void>(),
    };
    this.#programs.set(command, program);
    this.starts.push(command);
    identified({ child: command, mark: null, pid: 2, start: "1", boot: "b" });
    const { gone, end } = this.#handle(command, program, isDead);
    return {
      pid: 2,
      gone: gone.then(() => true),
      exited: async () => ({ code: program.code, signal: null }),
      end,
    };
  }
}
