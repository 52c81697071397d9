/** What commands are called in reasons and rules: the program with its subcommand, what it may do, which options it may get. */

import { basename } from "node:path";
import { beginsAsOption, namesIn, type Word } from "../../shell/lexer.ts";
import { harmlessProgram, isVersionOnly } from "./harmless-programs.ts";

/** Programs whose first argument names what they do. */
const WITH_SUBCOMMANDS = namesIn(
  `apt apt-get aws brew bun bundle cargo composer deno docker dotnet gem gh git glab go gradle helm just kubectl mix mvn npm npx
  pip pip3 pnpm podman poetry rails rake rustup systemctl terraform uv yarn`,
);
/** After one of these, `run` or `exec` does not name a kind of command: the next word does. */
const RUNNERS = new Set(["bun", "npm", "pnpm", "yarn", "uv", "poetry"]);

/** The words that name what a command does: `curl`, `git push`, `npm run test`. null: its subcommand is not known. */
function titleWords(words: readonly Word[]): string[] | null {
  const [program, subcommand, third] = words.map(({ text, dynamic }) =>
    dynamic || text.startsWith("-") ? undefined : text,
  );
  if (program === undefined) return null;
  if (!WITH_SUBCOMMANDS.has(program)) return [program];
  if (subcommand === undefined) return null;
  if (!RUNNERS.has(program) || !/^(?:run|exec|x)$/.test(subcommand)) return [program, subcommand];
  return third === undefined ? null : [program, subcommand, third];
}

const NETWORK = "may reach the network";
const CHANGES = "may change files";
const RUNS = "runs other programs";
/** Programs and subcommands, by what they may do. The first match counts. */
const MAY: readonly (readonly [names: string, may: string])[] = [
  [
    `git_fetch git_pull git_push git_clone git_ls-remote git_submodule go_get npm_publish docker_pull docker_push
    npm_install npm_ci npm_i pnpm_install yarn_install bun_install pip_install pip3_install cargo_publish
    curl wget ssh scp sftp rsync nc ncat telnet ftp ping traceroute dig nslookup host whois http https xh gh glab aws gcloud az
    kubectl helm terraform apt apt-get brew`,
    NETWORK,
  ],
  [
    "rm rmdir mv cp ln touch mkdir chmod chown dd tee truncate install shred unlink patch tar unzip zip git",
    CHANGES,
  ],
  [
    `sh bash zsh dash fish env xargs sudo doas su nohup nice watch parallel eval exec source . python python3 node bun deno npm npx
    pnpm yarn make just cargo go ruby perl php java mvn gradle docker podman uv pip pip3 pytest jest vitest tsx tox rake bundle
    composer dotnet swift cmake ninja bazel osascript systemd-run strace gdb time timeout`,
    RUNS,
  ],
];

/** Why a command that is not known to only read is asked for: a clause that follows "because". */
export function whyOf(words: readonly Word[]): string {
  const title = titleWords(words) ?? words.slice(0, 1).map(({ text }) => text);
  const names = [title.join("_"), title[0] ?? ""];
  const may = names.map((name) => MAY.find(([known]) => namesIn(known.trim()).has(name))?.[1]);
  return `\`${title.join(" ")}\` ${may.find((text) => text !== undefined) ?? "may change something"}`;
}

/** Programs that run what their arguments say: a pattern would cover any command. */
const RUN_ARGUMENTS = namesIn(
  `. ash awk bash builtin busybox chroot command dash doas docker_compose docker_exec docker_run env eval exec fish flock gawk gdb
  find gh_alias gh_extension git_bisect git_config git_filter-branch git_submodule kubectl_exec kubectl_run ksh less man mawk nice
  nohup nsenter parallel podman_exec podman_run rsync run scp sed setsid sh source ssh stdbuf strace su sudo systemd-run tar
  taskset time timeout unshare vi vim watch xargs zip zsh`,
);

/**
 * Of these, some options run programs, or name files to write: an "always" covers only the known ones. `--`: what follows
 * is not taken for an option. All other subcommands of git are like `RUN_ARGUMENTS`.
 */
const KNOWN_OPTIONS = `
git push|-u -f -n -q -v -d --set-upstream --force --force-with-lease --tags --follow-tags --dry-run --all --delete --no-verify --atomic --progress --porcelain --quiet
git fetch|-p -t -a -q -v -f --all --prune --tags --quiet --depth --unshallow --dry-run --force --no-tags --verbose
git pull|-r -q -v -p --rebase --no-rebase --ff-only --ff --no-ff --autostash --quiet --tags --prune --all --depth --no-edit
git clone|-b -q --depth --branch --single-branch --quiet --no-tags
git ls-remote|-h -t -q --heads --tags --refs --symref --quiet
git add|-A -u -f -n -v -p -N --all --update --force --dry-run --patch --intent-to-add
git commit|-a -m -am -q -v -s -n --all --message --amend --no-edit --no-verify --allow-empty --quiet --signoff --fixup --author --date
git checkout|-b -B -f -q --force --quiet --track --detach --ours --theirs --
git switch|-c -C -f -q -d --create --force-create --detach --track --quiet --discard-changes
git restore|-s --source --staged --worktree -S -W -q --
git reset|-q --hard --soft --mixed --keep --quiet --
git stash|-u -m -q --include-untracked --message --keep-index --quiet --index
git merge|-m -q --no-ff --ff --ff-only --squash --abort --continue --no-edit --no-commit
git rebase|-q --continue --abort --skip --onto --autostash --keep-base
git cherry-pick|-x -n --continue --abort --skip --no-commit
git revert|-n --no-edit --continue --abort --no-commit
git rm|-r -f -q --cached --force --
git mv|-f -n -v -k
git tag|-a -m -d -f -l --delete --force --list --annotate --message
git branch|-d -D -m -M -f -u --delete --move --force --set-upstream-to --unset-upstream
git worktree|-b -f --force --detach
git remote|-v
git clean|-f -d -x -n -q --force --dry-run
go test|-v -run -count -race -short -cover -bench -timeout -json -failfast -benchmem -parallel
go build|-v -race -tags
go run|-race -tags
go vet|-json
make|-j -k -s -B -n -C --silent --keep-going --always-make --dry-run --jobs
npm *|-s -w -D -g --silent --if-present --workspace --workspaces --save-dev --save-exact --no-save --production --omit --no-audit --no-fund --legacy-peer-deps --
pnpm *|-s -w -r -D -F --silent --recursive --filter --frozen-lockfile --save-dev --
cargo *|-q -v -p -j --release --all --workspace --lib --bins --tests --test --bin --no-run --package --features --all-features --all-targets --locked --offline --quiet --verbose --
sort|-o -n -r -u -b -f --output --unique --numeric-sort --reverse
gh api|-q --jq --paginate --cache --silent
curl|-s -S -L -f -i -I -v -O -X -H -d -m -sS -sSf -sI -sL -sSL -fsSL -fsS --silent --show-error --location --fail --include --head --verbose --remote-name --request --header --data --data-raw --json --max-time --compressed
wget|-q -nv -c -S --quiet --no-verbose --continue --spider
`;

let optionTable: ReadonlyMap<string, ReadonlySet<string>> | undefined;

function knownOptions(title: readonly string[]): ReadonlySet<string> | undefined {
  optionTable ??= new Map(
    KNOWN_OPTIONS.trim()
      .split("\n")
      .map((line) => line.split("|"))
      .map(([name = "", options = ""]) => [name, namesIn(options)]),
  );
  return optionTable.get(title.slice(0, 2).join(" ")) ?? optionTable.get(`${title[0]} *`);
}

/** Addresses other than of the web, and values that are files: `curl` would print or send any file. */
const OTHER_SOURCE = /^@|=@|^[{[]|^(?!https?:)[a-z][\w+.-]*:(?![\d ])/i;

/**
 * Programs that run what is in the project, or that `coversFiles` limits to it, whatever their options: of others,
 * "always" offers the whole line.
 */
const OFFERED = namesIn(
  `ant biome black bun bun_test chmod chown cmake cp deno_test dotnet_build dotnet_test eslint flake8 gradle_build gradle_test gulp
  jest just ln make mix_test mkdir mocha mv mvn_test mvn_package mypy ninja node npx perl php phpunit playwright prettier pytest
  python python3 rake rm rmdir rubocop ruby ruff shred swift_build swift_test tee touch truncate ts-node tsc tsx turbo unlink vite
  vitest webpack yarn_build yarn_lint yarn_test`,
);

/** Of `npm *`, `pnpm *` and `cargo *`: they do what the project says, and set no program that another one runs. */
const OFFERED_TASKS = namesIn(
  `add bench build check ci clippy dedupe doc exec fetch fmt i install list ls outdated pack prune publish remove run start stop t test
  tree uninstall update view x`,
);

function isOffered(title: readonly string[]): boolean {
  const [program = "", subcommand = ""] = title;
  if (OFFERED.has(program) || OFFERED.has(`${program}_${subcommand}`) || program.includes("/")) return true;
  const isTask = !/^(?:npm|pnpm|cargo)$/.test(program) || OFFERED_TASKS.has(subcommand);
  return isTask && knownOptions(title) !== undefined;
}

/** Words that a rule can hold as they are, and that a terminal shows. */
export const PLAIN = /^[^\s*()?[\]{}"'`$\\\p{C}\p{DI}\u{2800}]+$/u;

/** Programs that run the code on their standard input if no file is given. */
const READ_PROGRAMS = namesIn(
  "ash bash bun dash deno fish ksh lua node perl php psql python python3 R ruby sh sqlite3 zsh",
);

/** Whether the program is the input: a rule for such a command would cover any. */
function readsItsProgram(words: readonly Word[]): boolean {
  const [program, ...args] = words;
  if (!program || !READ_PROGRAMS.has(basename(program.text))) return false;
  return args.every(({ text, form }) => beginsAsOption(form) || text === "-");
}

/** The pattern that "always" offers for a command: its title with any arguments, or this very line; null for none. */
export function alwaysPattern(words: readonly Word[]): string | null {
  if (readsItsProgram(words)) return null;
  const title = titleWords(words);
  const isSweeping = sweepingOption(title?.[0], words) !== undefined;
  if (!isSweeping && title?.every((text) => PLAIN.test(text)) && isOffered(title) && fitsPattern(words))
    return `${title.join(" ")} *`;
  const [first, second] = words;
  if (title === null && WITH_SUBCOMMANDS.has(first?.text ?? "") && !second?.text.startsWith("-")) return null;
  return exactPattern(words);
}

/** The pattern for this very line; null where a rule can't hold it. */
export function exactPattern(words: readonly Word[]): string | null {
  return words.length > 0 && words.every(({ text, dynamic }) => !dynamic && PLAIN.test(text))
    ? words.map(({ text }) => text).join(" ")
    : null;
}

/** By program: options with which it changes all that is below a folder, or makes a link to any path. */
const SWEEPING: ReadonlyMap<string | undefined, RegExp> = new Map([
  ["rm", /^-\w*[rR]|^--r/],
  ["chmod", /^-\w*R|^--rec/],
  ["chown", /^-\w*R|^--rec/],
  ["ln", /^-\w*s|^--s/],
]);

/** Returns the pattern of an option with which the program does more than change the files that it is given. */
export function sweepingOption(program: string | undefined, args: readonly Word[]): RegExp | undefined {
  const option = SWEEPING.get(program && basename(program));
  return option && args.some(({ text }) => option.test(text)) ? option : undefined;
}

/** Whether a pattern such as `env *` is for a program, or a subcommand, whose arguments may name a program to run. */
export function runsArguments(pattern: string): boolean {
  const [program = "", subcommand, ...rest] = pattern.split(/\s+/);
  const isOpen = [program, subcommand, ...rest].some((word) => word?.includes("*"));
  return isOpen && (RUN_ARGUMENTS.has(program) || RUN_ARGUMENTS.has(`${program}_${subcommand}`));
}

/** Whether a pattern with a star may cover the command in an "always": none of its arguments can name a program to run. */
export function fitsPattern(words: readonly Word[]): boolean {
  const title = titleWords(words);
  const [program = ""] = title ?? words.map(({ text }) => text);
  const name = program.slice(program.lastIndexOf("/") + 1);
  const known = knownOptions(title ?? [name]);
  const reader = harmlessProgram(words.slice(0, 2).map(({ text }) => text));
  if (known === undefined && reader && !isVersionOnly(reader.program)) return false;
  if (RUN_ARGUMENTS.has(name) || (title && RUN_ARGUMENTS.has(title.slice(0, 2).join("_")))) return false;
  if (known === undefined) return name !== "git";
  const args = words.slice(title?.length ?? 1);
  for (const { text, form } of args) {
    if (text === "--" && known.has("--")) return true;
    if (beginsAsOption(form) && !known.has(text.replace(/=.*/s, "").replace(/^(-[jC])\d+$/, "$1")))
      return false;
    if (name === "make" && form.includes("=")) return false;
    if (name === "curl" && OTHER_SOURCE.test(form)) return false;
  }
  return true;
}
