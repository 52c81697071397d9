import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { shellPath } from "../support/shells.ts";
import { binary } from "./support/binary.ts";
import { Machine } from "./support/machine.ts";
import { AtTerminal } from "./support/running.ts";
import { says } from "./support/scenes.ts";

setDefaultTimeout(240_000);

/** What a user types, and the words that the command then gets. */
const LINES: readonly (readonly [string, readonly string[]])[] = [
  ["rnix agen\t", ["agents"]],
  ["rnix daemon stat\t", ["daemon", "status"]],
  ["rnix spawn --max-c\t", ["spawn", "--max-cost"]],
  ["rnix spawn --output jsonl\t", ["spawn", "--output", "jsonl"]],
  ["rnix spawn --agent revi\t", ["spawn", "--agent", "reviewer"]],
  ["rnix spawn --provider my-pr\t", ["spawn", "--provider", "my-provider"]],
  ["rnix spawn --model qwen:8\t", ["spawn", "--model", "qwen:8b"]],
  ["rnix spawn --allow Gre\t", ["spawn", "--allow", "Grep"]],
  ["rnix spawn --allow Read,Gre\t", ["spawn", "--allow", "Read,Grep"]],
  ["rnix log \t", ["log", "1"]],
  ["rnix deny 1 Gre\t", ["deny", "1", "Grep"]],
  ["rnix cron disable nigh\t", ["cron", "disable", "nightly"]],
  ["rnix spawn --add note\t", ["spawn", "--add", "notes.md"]],
  ["rnix spawn --agent zzz\t", ["spawn", "--agent", "zzz"]],
];
const FROM_DISK = LINES.filter(([typed]) => /agen|my-pr|qwen|Gre|log|cron/.test(typed));

/** Prints the words that a command got, one after the other in brackets. */
const GIVEN = "given";

interface Shell {
  argv(rc: string): string[];
  rc(script: string): string;
  env?(folder: string): Record<string, string>;
  /** The name of its file of settings. */
  file: string;
}

const SHELLS: Readonly<Record<string, Shell>> = {
  bash: {
    file: "bashrc",
    argv: (rc) => ["--noprofile", "--rcfile", rc, "-i"],
    rc: (script) =>
      `PS1='ready> '\nbind 'set enable-bracketed-paste off'\nsource ${script}\nrnix() { printf '${GIVEN}'; printf '[%s]' "$@"; printf '.\\n'; }\n`,
  },
  zsh: {
    file: ".zshrc",
    argv: () => ["-i"],
    env: (folder) => ({ ZDOTDIR: folder }),
    rc: (script) =>
      `PS1='ready> '\nunset zle_bracketed_paste\nautoload -Uz compinit\ncompinit -u -D\nsource ${script}\nrnix() { printf '${GIVEN}'; printf '[%s]' "$@"; printf '.\\n'; }\n`,
  },
  fish: {
    file: "config.fish",
    argv: (rc) => ["--private", "--no-config", "-C", `source ${rc}`],
    rc: (script) =>
      `function fish_prompt; echo -n 'ready> '; end\nset -g fish_greeting\nset -g fish_autosuggestion_enabled 0\nsource ${script}\nfunction rnix; printf '${GIVEN}'; printf '[%s]' $argv; printf '.\\n'; end\n`,
  },
};

describe.each(Object.entries(SHELLS))("completions typed into %s", (name, shell) => {
  const path = shellPath(name);

  test.skipIf(path === null)(
    "commands, flags, files, runs, agents, providers, models and tools",
    async () => {
      await using machine = new Machine();
      await machine.model([says("Done.")]);
      machine.write("notes.md", "");
      machine.agent("reviewer", 'name: reviewer\ndescription: Reviews; "$(touch pwned)"\n', "Review.");
      machine.write("agents/zzzz$(touch pwned)/agent.yaml", 'name: "zzzz$(touch pwned)"\ndescription: Bad\n');
      machine.write("agents/zzzz$(touch pwned)/instructions.md", "Bad.");
      machine.write(
        join(machine.configDir, "providers.yaml"),
        'providers:\n  my-provider:\n    driver: openai-compatible\n    base_url: http://127.0.0.1:1/v1\n    models: { "qwen:8b": {} }\n',
      );
      const run = await machine.run(["do it"]);
      expect(run.code).toBe(0);
      const { OPENAI_API_KEY: key, OPENAI_BASE_URL: url } = machine.env;
      const file = machine.write(
        join(machine.configDir, "env"),
        `OPENAI_API_KEY=${key}\nOPENAI_BASE_URL=${url}\n`,
      );
      chmodSync(file, 0o600);
      await machine.ok(["cron", "add", "@daily", "look", "--name", "nightly"]);

      const folder = join(machine.elsewhere, "shell");
      mkdirSync(folder);
      symlinkSync(binary(), join(folder, "rnix"));
      const script = machine.write(
        join(folder, `rnix.${name}`),
        (await machine.run(["completions", name])).stdout,
      );
      const rc = machine.write(join(folder, shell.file), shell.rc(script));
      const terminal = new AtTerminal({
        argv: [path ?? name, ...shell.argv(rc)],
        cwd: machine.project,
        env: {
          ...machine.env,
          ...shell.env?.(folder),
          PATH: `${folder}:${machine.env.PATH}`,
          HISTFILE: "/dev/null",
        },
      });
      let from = 0;
      const shows = async (pattern: RegExp): Promise<string> => {
        const found = await terminal.shows(new RegExp(`^[\\s\\S]{${from}}[\\s\\S]*?(?:${pattern.source})`));
        const text = found.slice(from);
        from = found.length;
        return text;
      };
      const check = async (lines: typeof LINES): Promise<void> => {
        for (const [typed, words] of lines) {
          await shows(/ready> /);
          terminal.type(typed);
          // The shell has answered the key when it shows the next one.
          terminal.type(" #end");
          await shows(/#end/);
          terminal.type("\x7f".repeat(5));
          terminal.type("\r");
          const shown = await shows(/given.*?\.\r?\n/);
          expect({ typed, shown: Bun.stripANSI(shown).match(/given(.*)\.\r?\n/)?.[1] }).toEqual({
            typed,
            shown: words.map((word) => `[${word}]`).join(""),
          });
        }
      };
      await check(LINES);
      // From disk, and no daemon is started for it.
      await machine.run(["daemon", "stop"]);
      await check(FROM_DISK);
      expect(machine.daemonPid).toBeNull();
      expect(existsSync(join(machine.project, "pwned"))).toBe(false);
      await shows(/ready> /);
      terminal.type("exit\r");
      expect((await terminal.done).code).toBe(0);
      // fish's own.
      rmSync(join(machine.root, "run", "fish_universal_variables.notifier"), { force: true });
    },
  );
});
