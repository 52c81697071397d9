/** Shell commands that only read: the mode `outside` does not ask for them. */

import { evaluatingBuiltin } from "./shell-builtins.ts";
import { namesIn, type Word } from "./shell-lexer.ts";
import type { SimpleCommand } from "./shell-words.ts";

/** Programs that read and print, whatever their arguments are. */
const READERS = namesIn(
  `: base64 basename cat cd cksum cmp comm cut df dirname dirs du echo expand false file fold grep egrep fgrep groups head
  hexdump id join jq ls md5sum nl nproc od paste printf pwd readlink realpath rev seq sha1sum sha256sum sha512sum sleep
  stat strings tac tail test tr true tty type uname unexpand wc which whoami xxd [`,
);

/** Programs that only read without these options. */
const READERS_UNLESS: ReadonlyMap<string, RegExp> = new Map([
  ["date", /^(?:-[a-zA-Z]*s|--set)/],
  ["diff", /^--to-file/],
  ["env", /./],
  ["find", /^-(?:exec|execdir|ok|okdir|delete|fprint|fprint0|fprintf|fls)$/],
  ["hostname", /./],
  ["rg", /^--(?:pre|hostname-bin)/],
  ["sort", /^(?:-[a-zA-Z]*[oT]|--output|--compress-program|--temporary)/],
  ["tree", /^-[a-zA-Z]*o/],
  ["uniq", /^[^-]/],
  ["xxd", /^-[a-zA-Z]*r/],
]);

/** Subcommands of git that only read. Their options may not name a program or an output file. */
const GIT_READERS = namesIn(
  "blame cat-file describe diff diff-tree grep log ls-files ls-tree merge-base rev-list rev-parse shortlog show status",
);
const GIT_WRITES = /^(?:--output|-o$|--ext-diff|--textconv|-O|--open-files-in-pager|--paginate|-p$)/;

/** Returns true when the command only reads, as far as its words show. */
export function isHarmless(command: SimpleCommand): boolean {
  if (command.assigns || command.writes || evaluatingBuiltin(command) !== null) return false;
  const [first, ...args] = command.words;
  if (first === undefined || first.dynamic) return false;
  if (first.text === "git") return isGitReader(args);
  const unless = READERS_UNLESS.get(first.text);
  // What an expansion becomes is not known: it may be one of the options.
  if (unless) return args.every((word) => !word.dynamic && !unless.test(word.text));
  return READERS.has(first.text);
}

function isGitReader([subcommand, ...args]: readonly Word[]): boolean {
  if (subcommand === undefined || subcommand.dynamic || !GIT_READERS.has(subcommand.text)) return false;
  // `git log -p` shows a patch; as an option of git itself, before the subcommand, it starts a pager.
  return args.every((word) => !word.dynamic && (word.text === "-p" || !GIT_WRITES.test(word.text)));
}
