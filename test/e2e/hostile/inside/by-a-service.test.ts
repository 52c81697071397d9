import { describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { until } from "../../../support/until.ts";
import { binary } from "../../support/binary.ts";
import { Machine } from "../../support/machine.ts";
import { toolResults } from "../../support/requests.ts";
import { bash, calls, says } from "../../support/scenes.ts";

const RNIX = `'${binary()}'`;
const hasTmux = Bun.which("tmux") !== null;
/** Of the names that services have; each is a shell here. */
const SERVICES = ["cron", "crond", "atd", "dbus-daemon", "emacs", "dtach", "gnome-terminal-"];

/** A client of its own, which would have a run ask for nothing. */
const SET_MODE = `use IO::Socket::UNIX;
my $socket = IO::Socket::UNIX->new(Peer => shift) or die;
print $socket '{"method":"set_mode","payload":{"pid":1,"mode":"off"}}', "\\n";
$socket->flush;
print scalar <$socket>;
`;

/** A shell with the name of the service. */
function serviceOf(machine: Machine, service: string): string {
  const shell = join(machine.elsewhere, service);
  Bun.spawnSync(["cp", "/bin/sh", shell]);
  return shell;
}

/** The user's own service runs this line for someone; what it prints. */
async function asked(machine: Machine, service: string, line: string): Promise<string> {
  const shell = serviceOf(machine, service);
  // Not the last command: the shell stays, as the parent.
  const { stdout } = Bun.spawnSync([shell, "-c", `setsid -w sh -c '${line}; true' 2>&1; true`], {
    cwd: machine.project,
    env: machine.env,
  });
  return stdout.toString();
}

async function waiting(machine: Machine): Promise<string> {
  await machine.play({
    "ask me": [calls(["Write", { path: "made.txt", content: "x" }]), says("done")],
  });
  await machine.run(["spawn", "ask me", "--ask", "Write", "--on-ask", "park", "--allow", "Write", "-q"]);
  const { stdout } = await machine.run(["asks", "--json"]);
  return /"request_id": ?"([^"]+)"/.exec(stdout)?.[1] ?? "none";
}

describe.if(process.platform === "linux")("a service that starts programs for anybody is no person", () => {
  for (const service of SERVICES) {
    test(`${service} neither trusts nor answers, and other commands work`, async () => {
      await using machine = new Machine();
      machine.write("plugins/x.ts", "throw new Error('it was run');\n");
      const id = await waiting(machine);
      for (const line of [
        `${RNIX} trust --follow --yes`,
        `${RNIX} trust --yes`,
        `${RNIX} answer ${id} yes --read`,
        `${RNIX} allow 1 Bash`,
      ])
        expect(await asked(machine, service, line.replaceAll("'", ""))).toContain("This is for a person");
      const client = machine.write(join(machine.elsewhere, "set-mode.pl"), SET_MODE);
      expect(await asked(machine, service, `perl ${client} ${machine.socket}`)).toContain(
        "This is for a person",
      );
      expect(await asked(machine, service, `${RNIX.replaceAll("'", "")} ps -a`)).toContain("ask me");
      expect(machine.has(join(machine.dataDir, "trust"))).toBe(false);
      expect(machine.has("made.txt")).toBe(false);
      expect((await machine.run(["answer", id, "yes", "--read"])).code).toBe(0);
      await until(() => machine.has("made.txt"), "the allowed call");
      await machine.run(["wait", "--all"]);
    });
  }

  /** Each has the service's program make a terminal, at which "somebody" types: LINE is run there. */
  const TERMINALS: Record<string, string> = {
    "of script": `script -qec "$LINE" /dev/null </dev/null`,
    "of a shell with a server's name": `cp /bin/sh emacs; script -qec "./emacs -c \\"\\$LINE; true\\"" /dev/null </dev/null`,
    "of a server by its name": `cp /bin/sh emacs; exec ./emacs -c 'script -qec "$LINE" /dev/null </dev/null; true'`,
  };
  for (const [name, made] of Object.entries(TERMINALS)) {
    test.if(Bun.which("script") !== null)(`a terminal that is made below the service: ${name}`, async () => {
      await using machine = new Machine();
      machine.write("plugins/x.ts", "throw new Error('it was run');\n");
      await machine.run(["ps"]);
      // A time of reading as that of a terminal at which the user has typed for some time.
      const line = `touch -a -d '+1 minute' $(tty); ${RNIX} trust --yes 2>&1`;
      const program = machine.write(join(machine.elsewhere, "made"), made);
      machine.write(join(machine.elsewhere, "line"), line);
      const { stdout } = Bun.spawnSync(
        [serviceOf(machine, "cron"), "-c", `LINE="sh ${machine.elsewhere}/line" sh ${program}; true`],
        { cwd: machine.project, env: machine.env },
      );
      expect(stdout.toString()).toContain("This is for a person");
      expect(machine.has(join(machine.dataDir, "trust"))).toBe(false);
    });
  }

  test.if(hasTmux)(
    "the user's tmux, asked by a run",
    async () => {
      await using machine = new Machine();
      machine.write("plugins/x.ts", "throw new Error('it was run');\n");
      const socket = join(machine.root, "tmux");
      const tmux = (...args: string[]): string =>
        Bun.spawnSync(["tmux", "-S", socket, ...args], {
          cwd: machine.project,
          env: machine.env,
        }).stdout.toString();
      tmux("new-session", "-d", "-x", "200", "exec sh");
      try {
        const nested = "unshare -U -r -p -f -m --mount-proc ";
        const out = join(machine.project, "out");
        const ways = [
          `run-shell "${RNIX} trust --yes >${out} 2>&1; echo code \\$? >>${out}"`,
          `new-window "${RNIX} trust --yes >${out} 2>&1; echo code \\$? >>${out}"`,
          `split-window "setsid -w ${RNIX} trust --yes >${out} 2>&1; echo code \\$? >>${out}"`,
          `run-shell "${nested} ${RNIX} trust --yes >${out} 2>&1; echo code \\$? >>${out}"`,
        ];
        const wait = `until grep -qs '^code' ${out}; do sleep 0.02; done; cat ${out}; rm ${out}`;
        const commands = ways.map((way) => `tmux -S '${socket}' ${way}; ${wait}`);
        const model = await machine.play({ "parent task": [bash(...commands), says("done")] });
        await machine.run(["spawn", "parent task", "--allow", "Bash", "-q"]);
        const results = model.requests.flatMap(toolResults);
        for (const result of results) expect(result).toMatch(/This is for a person[\s\S]*code 1/);
        expect(results).toHaveLength(ways.length);
        expect(machine.has(join(machine.dataDir, "trust"))).toBe(false);
        // A person types, once the terminal is some seconds old.
        await until(() => {
          tmux("send-keys", `${RNIX} trust --yes`, "Enter");
          Bun.sleepSync(500);
          return machine.has(join(machine.dataDir, "trust"));
        }, "trust by what was typed");
      } finally {
        tmux("kill-server");
        rmSync(socket, { force: true });
      }
    },
    90_000,
  );
});
