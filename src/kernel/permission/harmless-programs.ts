/** Programs that only read and print, with the options of each that are known to do no more. */

import { namesIn } from "../../shell/lexer.ts";

/** What a program takes its operands for. A pattern or script stands before the files. */
const KINDS = ["text", "files", "pattern", "sed", "awk", "find", "xargs", "wrapped", "cd"] as const;
/**
 * What follows an option: nothing, a text, a file that is read, the pattern, a text in the same word only, a format of
 * git's, a newline or NUL; or that no pattern follows, or that it reads behind links.
 */
const VALUES = ["", ":", "@", "!", "?", "%", "~", "^", "#"] as const;
export type Value = (typeof VALUES)[number];

export interface Program {
  operands: (typeof KINDS)[number];
  /** More operands, or an option after the last one, could name a file to write. */
  most: number;
  /** No option of any known version does more than read and print, or reads a list of files. */
  anyOption: boolean;
  /** Options of one letter, which can be bundled (`-la`). */
  short: ReadonlyMap<string, Value>;
  /** Options of several letters. An abbreviation does not count, because it may mean another option. */
  words: ReadonlyMap<string, Value>;
}

const DIFF = `-psuzwbaRW -M? -C? -B? -U? -D -S: -G: -l: --stat? --shortstat --numstat --name-only --name-status --cached
  --staged --color? --no-color --word-diff? --color-words --check --summary --unified= --diff-filter= --ignore-all-space
  --ignore-space-change --ignore-blank-lines --exit-code --quiet --no-ext-diff --no-textconv --patch --no-patch --raw
  --no-renames --find-renames? --minimal --histogram --patience --relative --merge-base --text --function-context
  --no-prefix --compact-summary --dirstat? --pickaxe-regex --pickaxe-all --full-index --no-indent-heuristic`;
const LOG = `${DIFF} -nL: -gEFPir -0123456789 --oneline --graph --all --decorate? --no-decorate --author= --committer= --since=
  --until= --after= --before= --grep= --format% --pretty% --abbrev-commit --abbrev? --no-merges --merges --first-parent --reverse
  --follow --date= --max-count= --skip= --branches? --tags? --remotes? --source --left-right --cherry-pick --topo-order
  --date-order --author-date-order --invert-grep --all-match --not --ancestry-path --boundary --simplify-by-decoration
  --count --full-history --no-notes --no-color --max-parents? --min-parents? --cc -mc`;

/**
 * One program a line: its names, its operands with their greatest number, and its options. `*`: any. `-ab`: letters
 * without a value; `-k:` with one, `-f@` with a file, `-e!` with the pattern, `-I?` with one in the same word; so do
 * `--key=` and `--key?`. `-r#` reads behind links. `--key%`: a format that must not ask git for signatures, which a program checks.
 */
const TABLE = `
: true false arch uptime free pidof pwd whoami groups id uname nproc tty sleep seq basename dirname tr echo printf type which test [ [[|text|*
command wait exit return break continue shift set|text|*
cat tac head nl column fold expand unexpand rev od hexdump readlink realpath df cmp comm stat|files|*
wc|files|-clmwL --bytes --chars --lines --words --max-line-length --total? --help --version
cksum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum|files|-btz -a? -l? --algorithm? --base64 --binary --length? --raw --tag --text --untagged --zero --help --version
ls|files|* -L# --dereference#
du|files|-0123456789aAbcdDgHhklmnPrsSx -B? -I? -t? -L# --dereference# --all --apparent-size --block-size? --bytes --count-links --dereference-args --exclude? --human-readable --inodes --max-depth? --no-dereference --null --one-file-system --separate-dirs --si --summarize --threshold? --time? --time-style? --total --help --version
tail|files|* -n: -c: -s:
cut paste join|files|* -d: -f: -c: -b: -t: -o:
grep egrep fgrep|pattern|* -R# -S# --dereference-recursive# -A: -B: -C: -m: -d: -D: -e! -f@ --include= --exclude= --exclude-dir= --color --count --ignore-case --line-number --recursive --files-with-matches --files-without-match --only-matching --max-count= --word-regexp --invert-match --extended-regexp --fixed-strings --perl-regexp --no-filename --with-filename --context= --after-context= --before-context= --text --null --quiet --no-messages
jq|pattern|* -f@ --from-file@ --raw-output --compact-output --slurp --null-input --sort-keys --tab --exit-status --join-output
rg|pattern|-nNiSsvwxcloqFPUuaHIhp0 -A: -B: -C: -g: -t: -T: -e! -m: -r: -j: -M: -d: -E: --files^ --hidden --no-ignore --no-ignore-vcs --json --count --count-matches --glob= --iglob= --type= --type-not= --type-list^ --files-with-matches --files-without-match --line-number --no-line-number --ignore-case --smart-case --case-sensitive --heading --no-heading --no-filename --with-filename --color= --max-count= --max-depth= --context= --after-context= --before-context= --sort= --sortr= --stats --multiline --multiline-dotall --pcre2 --fixed-strings --word-regexp --invert-match --only-matching --vimgrep --column --trim --no-messages --regexp! --replace= --null --quiet --text --version --no-config --max-columns= --threads=
fd fdfind|pattern|-HIagilps0u -t: -e: -d: -E: --type= --extension= --max-depth= --min-depth= --hidden --no-ignore --glob --absolute-path --exclude= --full-path --ignore-case --color=
sed|sed|-nErsz -e! --quiet --silent --regexp-extended --expression!
awk gawk mawk nawk|awk|-F: -v:
find|find|exact -name -iname -path -ipath -wholename -type -maxdepth -mindepth -not -o -or -a -and -size -mtime -mmin -ctime -cmin -atime -amin -newer -newermt -prune -print -print0 -printf -ls -empty -perm -user -group -uid -gid -regex -iregex -regextype -links -inum -depth -xdev -mount -P -quit -true -false -daystart -executable -readable -writable -nouser -nogroup -samefile -lname -xtype
sort|files|-bcCdfghiMmnRrsuVz -k: -t: -S: --check? --dictionary-order --field-separator= --general-numeric-sort --human-numeric-sort --ignore-case --ignore-leading-blanks --key= --merge --month-sort --numeric-sort --parallel= --random-sort --reverse --sort= --stable --unique --version-sort --zero-terminated
uniq|files1|-cdDiuz -f: -s: -w: --count --repeated --unique --ignore-case --skip-fields= --skip-chars= --check-chars=
xxd|files1|exact -b -e -E -i -p -ps -u -c= -g= -l= -s= -o=
diff|files|-abBcdeEiNnpqstuwyTZ0123456789 -r# -C: -U: -W: -L: -x: -I: --brief --unified? --context? --recursive# --ignore-all-space --ignore-space-change --ignore-blank-lines --ignore-case --side-by-side --color? --exclude= --label= --new-file --text --minimal --strip-trailing-cr --report-identical-files --suppress-common-lines --width= --no-dereference
base64|files|-diwD --decode --wrap= --ignore-garbage
file|files|-bikLNhr0 -F: --brief --mime --mime-type --mime-encoding --dereference
tree|files|-adfhipsugDFCnrtJX -l# -L: -I: -P: --noreport --dirsfirst --gitignore --prune --du --si --filelimit=
date|text|-uR -I? -d: -r: -j --date= --utc --universal --iso-8601? --rfc-3339= --rfc-email --reference= --debug
hostname|text0|-sfidAI --fqdn --short --long --ip-address --all-ip-addresses --domain
env|text0|
printenv|text|-0 --null
ps|text|-eflAFjHwxaT -p: -u: -o: -C: --sort= --no-headers --forest
pgrep|text|-flaxnovcwi -u: -U: -P: -d: --full --list-name --list-full --exact --newest --oldest --count --ignore-case
ss netstat|text|-tulnpaoemsiHxrw46 --tcp --udp --listening --numeric --processes --all --summary
lsof|text|-nPtlRab -i? -p: -u: -c:
node npm python python3 deno bun ruby make gcc java docker|text0|exact -v -V --version -version
docker ps docker images|text0|-aqls -f: -n: --all --quiet --latest --size --no-trunc --filter= --format= --last= --digests
cd|cd|-PLe
time|wrapped|-p
timeout|wrapped1|-k: -s: --kill-after= --signal= --foreground --preserve-status
xargs|xargs|-0rt -n: -L: -P: -d~ -I! --null --no-run-if-empty --max-args= --max-procs= --delimiter~
git|text0|exact -v --version
git version|text|--build-options
git status|files|-sbvz -u? --short --branch --porcelain? --long --verbose --untracked-files? --ignored? --no-renames --ahead-behind --no-ahead-behind --show-stash --column?
git diff|files|${DIFF}
git diff-tree git diff-index git diff-files|files|${DIFF} -rt --no-commit-id --root
git log git show git rev-list git whatchanged|files|${LOG}
git reflog|text0|${LOG}
git shortlog|files|-nsecw? ${LOG} --summary --numbered --email
git blame|files|-wMCselftncp -L: -M? -C? --line-porcelain --porcelain --date= --show-email --root --abbrev? --since= --color-lines --color-by-age
git grep|pattern|-niIlLcwvEFPohHqWpaz -e! -A: -B: -C: -m: --cached --untracked --line-number --name-only --files-with-matches --files-without-match --count --ignore-case --word-regexp --invert-match --extended-regexp --fixed-strings --perl-regexp --break --heading --show-function --function-context --and --or --not --color? --no-color --column --only-matching --max-depth= --all-match
git branch|text0|-arvlqi --list --show-current --all --remotes --verbose --merged? --no-merged? --contains? --no-contains? --points-at? --sort% --column? --color? --no-color --abbrev?
git tag|text0|-l --list --sort% --merged? --no-merged? --contains? --points-at? --column? --color?
git remote|text0|-v --verbose
git remote get-url|text|--all --push
git stash list|text0|${LOG}
git stash show|text|${DIFF} --include-untracked --only-untracked
git worktree list|text0|-vz --porcelain --verbose
git config|text0|--get= --get-all= --get-regexp= --list -l --show-origin --show-scope --local --worktree --name-only
git rev-parse|files|-q --short? --verify --abbrev-ref? --symbolic --symbolic-full-name --show-toplevel --show-prefix --show-cdup --git-dir --git-common-dir --absolute-git-dir --is-inside-work-tree --is-inside-git-dir --is-bare-repository --all --branches? --tags? --remotes? --quiet --default= --sq --show-object-format
git ls-files|files|-cdmosikuztvf -x: --cached --deleted --modified --others --ignored --stage --unmerged --killed --exclude-standard --exclude= --full-name --error-unmatch --directory --no-empty-directory --eol --deduplicate --abbrev? --recurse-submodules
git ls-tree|files|-drtlz --name-only --name-status --full-name --full-tree --long --abbrev? --object-only --format%
git cat-file|files|-tpse
git check-ignore git check-attr|files|-vnqaz --verbose --non-matching --no-index --quiet --all --cached
git describe|text|--tags --all --long --always --dirty? --abbrev? --match= --exclude= --contains --exact-match --first-parent --candidates= --broken?
git merge-base|text|-a --all --octopus --independent --is-ancestor --fork-point
git name-rev|text|--tags --name-only --always --all --refs= --exclude= --no-undefined
git for-each-ref git show-ref|text|--format% --sort% --count= --heads --tags --merged? --no-merged? --contains? --points-at? --verify --hash? --head --abbrev? -d -q -s --quiet --dereference
git symbolic-ref|text1|-q --short --quiet
git count-objects|text0|-vH --verbose --human-readable
`;

let programs: ReadonlyMap<string, Program> | undefined;

function entriesOf(line: string): [string, Program][] {
  const [names = "", operands = "", options = ""] = line.split("|");
  const program = programOf(operands, [...namesIn(options.trim())]);
  const known = /^(?:git|docker) /.test(names) ? names.split(/ (?=git |docker )/) : [...namesIn(names)];
  return known.map((name) => [name, program]);
}

function programOf(operands: string, options: readonly string[]): Program {
  const exact = options.includes("exact");
  const short = new Map<string, Value>();
  const words = new Map<string, Value>();
  for (const option of options.filter((text) => text.startsWith("-"))) {
    const [, dashes = "", name = "", value = ""] = /^(--?)(.+?)([:@!?%~^#=]?)$/.exec(option) ?? [];
    if (dashes === "--" || exact) words.set(`${dashes}${name}`, kindOf(value));
    else for (const letter of name) short.set(letter, kindOf(value));
  }
  const [, kind = "", most] = /^([a-z]+)(\d?)$/.exec(operands) ?? [];
  const found = KINDS.find((known) => known === kind);
  if (found === undefined) throw new Error(`No kind of operands: ${operands}`);
  return {
    operands: found,
    most: most ? Number(most) : Number.POSITIVE_INFINITY,
    anyOption: options.includes("*"),
    short,
    words,
  };
}

function kindOf(sign: string): Value {
  return VALUES.find((known) => known === sign) ?? (sign === "=" ? ":" : "");
}

/** Whether nothing but printing its version or state is known to be harmless. */
export function isVersionOnly({ most, short }: Program): boolean {
  return most === 0 && short.size === 0;
}

/** Returns the program that the words name, with its subcommand, and how many words that are; null for another one. */
export function harmlessProgram(
  texts: readonly (string | null)[],
): { program: Program; name: string; length: number } | null {
  programs ??= new Map(TABLE.trim().replaceAll(/\n +/g, " ").split("\n").flatMap(entriesOf));
  for (const length of [3, 2, 1]) {
    if (texts.length < length) continue;
    const name = texts.slice(0, length).join(" ");
    const program = programs.get(name);
    if (program && !texts.slice(0, length).includes(null)) return { program, name, length };
  }
  return null;
}
