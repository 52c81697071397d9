import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "../../test/e2e/support/machine.ts";
import { TYPESCRIPT } from "../../test/plugins/lsp/support.ts";
import { type Figure, time } from "../figure.ts";
import { median } from "../measure.ts";

const FILES = 200;
const CALLS = 40;

/** References of one name over 200 files, by the real typescript-language-server: its first call, and warm ones. */
export async function lsp(): Promise<Figure[]> {
  await using machine = new Machine();
  machine.config({ plugins: { lsp: TYPESCRIPT } });
  machine.write("tsconfig.json", '{"compilerOptions": {"strict": true, "types": []}}');
  machine.write("shared.ts", "export const shared = 1;\n");
  for (let i = 0; i < FILES; i++)
    machine.write(
      `f${i}.ts`,
      `import { shared } from "./shared.ts";\nexport const own${i} = shared + ${i};\n`,
    );
  // Another column of the name each time: the same call again and again would end the run.
  const input = (turn: number) => ({
    operation: "findReferences",
    file: "shared.ts",
    line: 1,
    character: 14 + (turn % 6),
  });
  await machine.model(({ assistantMessages: turn }) =>
    turn > CALLS ? { text: "done" } : { tool_calls: [{ name: "Lsp", input: input(turn) }] },
  );
  const PATH = `${join(import.meta.dir, "../../node_modules/.bin")}:${process.env.PATH}`;
  await machine.ok(["spawn", "--allow", "Lsp", "find them"], { env: { PATH } });
  const steps = join(machine.project, ".rnix/data/steps");
  const [uuid = ""] = readdirSync(steps);
  const took = [...readFileSync(join(steps, uuid, "steps.jsonl"), "utf8").matchAll(/"duration_ms":(\d+)/g)];
  const [first = Number.NaN, ...warm] = took.map(([, ms]) => Number(ms));
  await machine.ok(["daemon", "stop"]);
  return [
    time(`findReferences in ${FILES} files, the first call`, first),
    time("the same warm", median(warm)),
  ];
}
