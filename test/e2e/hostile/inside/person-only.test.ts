import { describe, expect, test } from "bun:test";
import { chmodSync } from "node:fs";
import { join } from "node:path";
import { until } from "../../../support/until.ts";
import { binary } from "../../support/binary.ts";
import { processesOf } from "../../support/leftovers.ts";
import { Machine, OPENAI_KEY } from "../../support/machine.ts";
import { toolResults } from "../../support/requests.ts";
import { bash, says } from "../../support/scenes.ts";
import { Receipt } from "../../support/verdict.ts";

const RNIX = `'${binary()}'`;

/** What only a person may do. */
const COMMANDS = [
  "trust --follow --yes",
  "allow 1 Write",
  "gc",
  "demo",
  "resume 1",
  "daemon stop",
  "daemon start --foreground",
  "daemon --internal",
  "spawn 'child chore' --no-daemon",
];

const CLEARED = 'env -i HOME="$HOME" PATH="$PATH" $(env | grep -o "^XDG_[A-Z_]*=[^ ]*")';
const UNMARKED = "prlimit --rttime=5000000000";
/** Each shows the command other ancestors, or none. */
const NESTED = "unshare -U -r -p -f -m --mount-proc prlimit --rttime=5:5";
const hasNamespaces =
  process.platform === "linux" && Bun.spawnSync([...NESTED.split(" "), "true"]).exitCode === 0;
const ELSEWHERE =
  'XDG_DATA_HOME="$PWD/o" XDG_CONFIG_HOME="$PWD/o" XDG_RUNTIME_DIR="$PWD/o" HOME="$PWD/o" RNIX_DATA_DIR="$PWD/o"';

/** How a program of a run may try not to look like one; CMD is the command. */
const WAYS: Record<string, string> = {
  "as it is": `${RNIX} CMD`,
  "without its cookies": `env -u RNIX_UNIT -u RNIX_CHILD ${RNIX} CMD`,
  "with a cleared environment": `${CLEARED} ${RNIX} CMD`,
  "without its soft mark": `bash -c "ulimit -S -R 5000000000; exec ${CLEARED.replaceAll('"', '\\"')} ${RNIX} CMD"`,
  "without its marks": `${CLEARED} ${UNMARKED} ${RNIX} CMD`,
  "without its marks, from a parent without them": `${CLEARED} ${UNMARKED} sh -c "${RNIX} CMD; exit \\$?"`,
  "in a session of its own": `setsid -w ${CLEARED} ${UNMARKED} ${RNIX} CMD`,
  "by nohup": `nohup ${CLEARED} ${UNMARKED} ${RNIX} CMD`,
  "with other folders": `${CLEARED} ${ELSEWHERE} ${UNMARKED} ${RNIX} CMD`,
  "with another socket": `${CLEARED} RNIX_SOCKET="$PWD/o/it.sock" ${UNMARKED} ${RNIX} CMD`,
  "under another name": `bash -c "exec -a bash ${CLEARED.replaceAll('"', '\\"')} ${UNMARKED} ${RNIX} CMD"`,
  "as a copy": `${CLEARED} ${UNMARKED} "$PWD/o/agent-cli" CMD`,
  "by the daemon's own file": `${CLEARED} ${UNMARKED} /proc/$PPID/exe CMD`,
  "by perl": `perl -e 'delete @ENV{"RNIX_UNIT", "RNIX_CHILD"}; exec @ARGV' ${UNMARKED} ${RNIX} CMD`,
  "as an orphan": `( ( setsid ${CLEARED} ${ELSEWHERE} ${UNMARKED} sh -c "${RNIX} CMD; echo \\"code \\$?\\"; touch '$PWD/done'" & ) & ); until test -e done; do sleep 0.01; done; rm done; ORPHAN`,
};

const NESTED_WAYS: Record<string, string> = {
  "in a PID namespace": `${NESTED} ${CLEARED} ${RNIX} CMD`,
  "in a PID namespace, with the limit of a desktop": `${NESTED.replace("5:5", "200000:200000")} ${CLEARED} ${RNIX} CMD`,
  "in a PID namespace, with other folders": `${NESTED} ${CLEARED} ${ELSEWHERE} ${RNIX} CMD`,
  "in a PID namespace under the /proc of another": `unshare -U -r -p -f ${CLEARED} ${UNMARKED} ${RNIX} CMD`,
  "in two PID namespaces": `${NESTED} ${NESTED} ${CLEARED} ${RNIX} CMD`,
  "with its parent hidden": `unshare -U -r -m sh -c "mount -t tmpfs none /proc/\\$PPID; exec ${CLEARED.replaceAll('"', '\\"').replace("$(", "\\$(")} ${UNMARKED} ${RNIX} CMD"`,
  "with the ancestors of another": `unshare -U -r -m sh -c "mount --bind /proc/1/stat /proc/\\$$/stat; exec ${CLEARED.replaceAll('"', '\\"').replace("$(", "\\$(")} ${UNMARKED} ${RNIX} CMD"`,
  "in a PID namespace of root": `{ unshare -p -f -m --mount-proc true && n='' || n='-U -r'; unshare $n -p -f -m --mount-proc prlimit --rttime=5:5 ${CLEARED} ${RNIX} CMD; }`,
};
if (hasNamespaces) Object.assign(WAYS, NESTED_WAYS);

/** Types the lines in a run's shell; what they print. */
async function typed(machine: Machine, lines: readonly string[]): Promise<string> {
  const model = await machine.play({
    "parent task": [bash(`mkdir -m 700 o; exec 2>&1\n${lines.join("\n")}`), says("done")],
    "child chore": [says("never")],
  });
  // A run's shell has no key in its environment, and this file all the same.
  machine.write(join(machine.configDir, "env"), `OPENAI_API_KEY=${OPENAI_KEY}\n`);
  chmodSync(join(machine.configDir, "env"), 0o600);
  machine.write("plugins/x.ts", "throw new Error('it was run');\n");
  const { code, stdout } = await machine.run(["spawn", "parent task", "--output", "json"]);
  expect(code).toBe(0);
  expect(Receipt.parse(JSON.parse(stdout))).toMatchObject({ exit_code: 0, children: [] });
  expect(
    model.requests.some(({ text }) => text.includes('child chore"') && !text.includes("parent task")),
  ).toBe(false);
  return model.requests.flatMap(toolResults).at(-1) ?? "";
}

describe.if(process.platform === "linux")("a run's program can't do what only a person may do", () => {
  for (const [name, way] of Object.entries(WAYS)) {
    test(name, async () => {
      await using machine = new Machine();
      const before = name === "as a copy" ? [`cp ${RNIX} o/agent-cli`] : [];
      const commands = name === "as it is" ? [...COMMANDS, "spawn 'child chore' --trust"] : COMMANDS;
      const lines = commands.map((command) => {
        const line = way.replace("CMD", command);
        return line.endsWith("; ORPHAN") ? line.replace("; ORPHAN", "") : `${line}; echo "code $?"`;
      });
      const result = await typed(machine, [...before, ...lines]);
      expect(result.match(/^code (1|69)$/gm)).toHaveLength(commands.length);
      expect(result.match(/refused inside a run/g)).toHaveLength(commands.length);
      for (const folder of [machine.dataDir, join(machine.project, "o")])
        expect(machine.has(join(folder, "trust"))).toBe(false);
      expect((await machine.run(["ps", "-a", "--json"])).stdout.match(/"uuid"/g)).toHaveLength(1);
    });
  }

  test("by its own request to the daemon", async () => {
    await using machine = new Machine();
    const ask = (method: string, payload: object): string => {
      const frame = JSON.stringify({ method, payload });
      return `${CLEARED} ${UNMARKED} setsid -w perl -MIO::Socket::UNIX -e 'my $s = IO::Socket::UNIX->new(Peer => shift) or die; print $s shift, "\\n"; $s->flush; print scalar <$s>' '${machine.socket}' '${frame}'`;
    };
    const lines = [
      ask("shutdown", { now: true }),
      ask("gc", {}),
      ask("allow", { pid: 1, tools: ["Write"] }),
      ask("deny", { pid: 1, tools: ["Write"] }),
      ask("resume", { pid: 1, cwd: machine.project, env: {} }),
    ];
    const result = await typed(machine, lines);
    expect(result.match(/"code":"PERMISSION"/g)).toHaveLength(lines.length);
  });
});

describe("a person's command is known as one", () => {
  const waysOf = (command: string): Record<string, string> => ({
    "in a shell": command,
    "in a session of its own": `setsid -w ${command}`,
    "with a cleared environment": `env -i $(env | grep -E "^(HOME|PATH|XDG_.*|OPENAI_.*|RNIX_.*)=[^ ]*") ${command}`,
    "without parents": `( ( setsid ${command} & ) & ); until test -e answer; do sleep 0.01; done`,
    "beside the daemon it has started": `${RNIX} daemon start --foreground & until ${RNIX} daemon status; do sleep 0.02; done; ${command}; ${RNIX} daemon stop; wait`,
    "after the daemon it has started": `${RNIX} daemon start; ${command}`,
  });
  const command = `sh -c "${RNIX} trust --follow --yes && ${RNIX} spawn 'a task' --no-daemon -q >answer"`;
  for (const [name, line] of Object.entries(waysOf(command))) {
    test.if(process.platform === "linux" || !line.includes("setsid"))(name, async () => {
      await using machine = await Machine.playing({ "a task": [says("done")] });
      const proc = Bun.spawn(["sh", "-c", line], {
        cwd: machine.project,
        env: machine.env,
        stdout: "ignore",
        stderr: "pipe",
      });
      const said = await new Response(proc.stderr).text();
      await proc.exited;
      await until(() => machine.has("answer") && machine.read("answer") !== "", said);
      expect(machine.read("answer")).toBe("done\n");
      expect(said).toContain("is trusted");
      await until(
        () => !processesOf(machine.root).some(({ command: one }) => one.includes("a task")),
        "its end",
      );
    });
  }
});

test.skipIf(Bun.which("prlimit") === null)(
  "a shell that another program has limited learns why it counts as inside, and how to remove that",
  async () => {
    await using machine = new Machine();
    const command = ["prlimit", "--rttime=200000:200000", binary(), "trust", "--yes"];
    const { exitCode, stderr } = Bun.spawnSync(command, { cwd: machine.project, env: machine.env });
    expect(exitCode).not.toBe(0);
    expect(stderr.toString()).toContain("sudo prlimit --pid $$ --rttime=unlimited");
  },
);
