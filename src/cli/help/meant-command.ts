/** Suggests the command that a user meant when the first word is not a command. */

import { nearestName } from "../../lib/edit-distance.ts";
import { COMMANDS } from "../commands.ts";
import { shellWord } from "../system/own-name.ts";

/** A command that does what words of other programs mean. */
interface Meant {
  words: string;
  command?: string;
  to: string;
  /** The command for a word without further ones. */
  alone?: string;
  /** It takes none of the words after it. */
  takesNone?: true;
  /** A line of the shell instead of a command. */
  shell?: string;
}

const MEANT: readonly Meant[] = [
  { words: "run exec ask prompt", command: "spawn", to: "run an agent" },
  { words: "start", command: "spawn", to: "run an agent", alone: "daemon start" },
  { words: "stop halt interrupt", command: "suspend", to: "suspend a run, so that rnix resume continues it" },
  { words: "cancel abort end terminate", command: "kill", to: "end a run" },
  { words: "status stat info", command: "show", to: "see what a run does", alone: "ps" },
  { words: "inspect describe", command: "show", to: "see what a run does" },
  { words: "list ls", command: "ps", to: "list the runs" },
  { words: "jobs schedules", command: "cron", to: "list the scheduled jobs" },
  { words: "schedule", command: "cron add", to: "schedule a run", alone: "cron" },
  { words: "todo todos", command: "tasks", to: "see the tasks of a run" },
  { words: "remember", command: "memory add", to: "let agents remember something", alone: "memory" },
  { words: "htop", command: "top", to: "see what runs", takesNone: true },
  {
    words: "update upgrade self-update",
    shell: "git pull && npm run install:bin",
    to: "update Rnix, in the folder of its source",
  },
  { words: "sessions runs history", command: "ps -a", to: "list the runs" },
  { words: "fork branch", command: "resume --fork", to: "start a new run from the steps of another" },
  { words: "retry", command: "resume", to: "continue a run that was stopped or has failed" },
  {
    words: "restart",
    command: "resume",
    to: "continue a run that was stopped or has failed",
    alone: "daemon restart",
  },
  { words: "talk", command: "chat", to: "talk with an agent" },
  { words: "revert rollback", command: "undo", to: "take back what a run changed" },
  { words: "changes", command: "diff", to: "see what a run changed" },
  { words: "questions", command: "asks", to: "see what runs ask you" },
  { words: "reply", command: "answer", to: "answer a question of a run" },
  { words: "unpause", command: "continue", to: "let a paused run continue" },
  { words: "follow watch", command: "attach", to: "follow a run" },
  { words: "tail", command: "log -f", to: "follow what a run says and does" },
  { words: "trace", command: "strace", to: "see the syscalls of a run" },
  { words: "grant", command: "allow", to: "give a run a tool" },
  { words: "revoke", command: "deny", to: "take a tool from a run" },
  {
    words: "login auth configure onboard",
    command: "setup",
    to: "choose a provider and enter its key",
    takesNone: true,
  },
  { words: "settings", command: "config", to: "see every setting", takesNone: true },
  { words: "rm clean prune", command: "gc", to: "remove old runs" },
  { words: "example", command: "demo", to: "see a run without a key", takesNone: true },
];

/** Languages that are written without spaces between words. */
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;
/** A word of a sentence, as opposed to a path, a number, a UUID or a pattern. */
const WORD = /^[\p{L}\p{M}][\p{L}\p{M}'’-]*[,.;:!?]*$/u;

/** Whether this argument is a text for a model, not a name or a misspelled command. */
export function isSentence(argument: string): boolean {
  const text = argument.trim();
  return (
    !text.startsWith("-") && (/\s/.test(text) || UNSPACED.test(text)) && quotedCommand(text) === undefined
  );
}

/** What the user most probably meant, with a line to paste. `args`: words after `name`. `more`: commands of plugins. */
export function meantCommand(name: string, args: readonly string[], more: readonly string[] = []): string {
  const quoted = quotedCommand(name);
  if (quoted !== undefined) return `; it was quoted. Without quotes:${line(quoted, args)}`;
  // One word would be the name of a command.
  if (PRINT_FLAGS.has(name))
    return `; an intent needs no flag:${line(args.some(isSentence) ? "" : "spawn", args)}`;
  if (name.startsWith("-")) {
    const named = args.find((arg) => Object.hasOwn(COMMANDS, arg));
    const command = named ?? (args.some(isSentence) ? "spawn" : "chat");
    // As git and make call it.
    const flag = name === "-C" ? "--cwd" : name;
    const others = named === undefined ? args : args.toSpliced(args.indexOf(named), 1);
    return `; the command comes first:${line(command, [flag, ...others])}`;
  }
  if (args[0] === "daemon" && SUBCOMMANDS.daemon?.includes(name))
    return `; use:${line(`daemon ${name}`, [])}`;
  const isText = args.length > 1 && unquotedIntent([name, ...args]) !== undefined;
  const other = MEANT.find(({ words }) => words.split(" ").includes(name));
  if (other !== undefined && !isText) return otherWord(other, args);
  const near = other ? undefined : nearestName(name, [...Object.keys(COMMANDS), "help", ...more]);
  const sentence = asSentence(name, args);
  if (near !== undefined) {
    const also = isText ? `\nor, for an agent:${sentence}` : "";
    return `; did you mean ${near}?${line(near, args)}${also}`;
  }
  const what = args.length > 0 ? "an intent is one argument, in quotes" : "to run an agent";
  return `; ${what}:${sentence ?? line("spawn", [name, ...args])}`;
}

/** With these flags other agents take an intent. */
const PRINT_FLAGS: ReadonlySet<string> = new Set(["-p", "--print", "--prompt"]);

/** The line to paste for words of a sentence without quotes, such as `rnix show me the tests`; undefined for others. */
export function unquotedIntent(words: readonly string[]): string | undefined {
  const [name = "", ...args] = words;
  const end = words.findIndex((word) => word.startsWith("-"));
  const text = end < 0 ? words : words.slice(0, end);
  return text.length > 2 && text.every((word) => WORD.test(word)) ? asSentence(name, args) : undefined;
}

function otherWord({ command = "", to, alone, takesNone, shell }: Meant, args: readonly string[]): string {
  if (shell !== undefined) return `; to ${to}:\n  ${shell}`;
  if (args.length === 0 && alone !== undefined) return `; use:${line(alone, [])}`;
  return `; to ${to}:${line(command, takesNone ? [] : args)}`;
}

/** The words as one argument, with the flags after it; undefined when one of them was quoted, or there is only one. */
function asSentence(name: string, args: readonly string[]): string | undefined {
  const end = args.findIndex((arg) => arg.startsWith("-"));
  const words = [name, ...(end < 0 ? args : args.slice(0, end))];
  if (words.length < 2 || words.some((word) => /\s/.test(word))) return undefined;
  return line("", [words.join(" "), ...(end < 0 ? [] : args.slice(end))]);
}

/** The command that a quoted text is: its name, and a flag, a number or a subcommand. */
function quotedCommand(text: string): string | undefined {
  const [name = "", second, ...more] = text.trim().split(/\s+/);
  const command = Object.hasOwn(COMMANDS, name) ? name : nearestName(name, Object.keys(COMMANDS));
  if (command === undefined || second === undefined || more.length > 1) return undefined;
  const isArgument = /^(?:-.*|\d+|0[0-9a-f]{7}[0-9a-f-]*)$/.test(second);
  const isSubcommand = more.length === 0 && SUBCOMMANDS[command]?.includes(second) === true;
  return isArgument || isSubcommand ? [command, second, ...more].join(" ") : undefined;
}

/** Second words of commands. They are listed here because a mistyped line must not load every command. */
const SUBCOMMANDS: Readonly<Record<string, readonly string[]>> = {
  daemon: ["start", "status", "stop", "restart", "logs"],
  agents: ["new"],
  skills: ["new", "check"],
  plugins: ["new", "check"],
};

function line(command: string, args: readonly string[]): string {
  return `\n  ${["rnix", command, ...args.map(shellWord)].filter((part) => part !== "").join(" ")}`;
}
