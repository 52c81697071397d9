/** What the programs of a run use together is limited, and a limit that was reached is named. */
import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { groupMechanism } from "../../src/os/program-group.ts";
import { installed } from "../support/installed.ts";
import { Machine } from "./support/machine.ts";
import { toolResults } from "./support/requests.ts";
import { calls, says } from "./support/scenes.ts";
import { verdict } from "./support/verdict.ts";

const { processes, memory } = groupMechanism() ?? {};

/** The groups of runs that are there now. */
function groups(): string[] {
  return [processes?.parent, memory?.parent].flatMap((parent) =>
    parent === undefined ? [] : readdirSync(parent).filter((name) => /^rnix-[0-9a-f]{8}-/.test(name)),
  );
}

interface Case {
  what: string;
  can: boolean;
  command: string;
  config: object;
  note: RegExp;
  sandbox?: string;
}

const CASES: Case[] = [
  {
    what: "a fork bomb",
    can: processes !== undefined,
    // It ends by itself, should nothing stop it.
    command:
      "sh -c 'b() { [ $1 -gt 11 ] || { b $(($1 + 1)) & b $(($1 + 1)); sleep 1; }; }; b 0; wait'; echo over",
    config: { program_processes: 60 },
    note: /\[programs have reached the limit of 60 processes \(program_processes\)\]/,
  },
  {
    what: "a program that takes all memory",
    can: memory !== undefined,
    // At most 1 GiB.
    command:
      "python3 -c 'x = bytearray(1 << 30); [x.__setitem__(i, 1) for i in range(0, 1 << 30, 4096)]'; echo over",
    config: { program_memory: 1 },
    note: /\[programs were ended at the limit of 1 % of the memory \(program_memory\)\]/,
  },
];

const EACH: Omit<Case, "can">[] = [
  {
    what: "a program that opens many files",
    command: "python3 -c 'f = [open(\"/dev/null\") for i in range(99)]'; echo over",
    config: { program_files: 64 },
    note: /\[a program has reached the limit of 64 open files \(program_files\)\]/,
  },
  {
    what: "a program that never waits",
    command: "sh -c 'while :; do :; done'; echo over",
    config: { program_cpu: "1s" },
    note: /\[a program was ended at the limit of 1 s of processor time \(program_cpu\)\]/,
  },
  {
    what: "a program that fills the disk",
    // It lasts: the limit is set right after the start of a program.
    command: "sleep 0.3; head -c 3000000 /dev/zero >big; wc -c <big",
    config: { program_file_size: "1MiB" },
    note: /1048576\n\[a program has reached the limit of 1048576 bytes for a file \(program_file_size\)\]/,
  },
];
const EVERYWHERE = EACH.flatMap((one): Case[] => [
  { ...one, can: process.platform === "linux" },
  { ...one, what: `${one.what} in a sandbox`, can: installed("bwrap"), sandbox: "required" },
]);

for (const { what, can, command, config, note, sandbox = "off" } of [...CASES, ...EVERYWHERE]) {
  // The system of a container may offer no control groups.
  test.if(can)(`${what} is limited, and its run goes on`, async () => {
    await using machine = new Machine();
    machine.config({ ...config, sandbox });
    const model = await machine.play({ "do it": [calls(["Bash", { command }]), says("done")] });
    const { receipt } = await verdict(machine, ["do it"]);
    expect(receipt).toMatchObject({ exit_code: 0, result: "done" });
    const last = model.requests.at(-1);
    expect(last && toolResults(last)[0]).toMatch(note);
    expect(machine.strays()).toEqual([]);
    expect(groups()).not.toContain(`rnix-${receipt.uuid}`);
  });
}
