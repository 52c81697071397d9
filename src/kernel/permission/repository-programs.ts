/** What a repository's own configuration makes git run or read while it only reads. */

import { existsSync, lstatSync, readdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { isWithin, realOrSame } from "../../lib/inner-path.ts";
import { readRegularSync } from "../../lib/regular-file.ts";
import { SyscallError } from "../../plugin/index.ts";
import { namesIn } from "../../shell/lexer.ts";

/** Sections and keys that name nothing which a reading command runs, or reads outside of the repository. */
const HARMLESS = new RegExp(
  `^(?:user|author|committer|branch|submodule|pull|push|merge|mergetool|rebase|fetch|commit|tag|gui|color|credential|advice|init|http
  |url|gitflow|rerere|receive|stash|maintenance|gc|pack|feature|column|versionsort|sendemail|alias|am|apply|i18n|pager|index
  |status|difftool|checkout|clean|interactive|notes|transfer|uploadpack|worktree|pretty|grep|cherry|hub|svn-remote
  |github-pr-owner-number)\\.
  |^core\\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol|safecrlf
  |abbrev|bigfilethreshold|checkstat|commentchar|compression|editor|pager|sshcommand|askpass|gitproxy|longpaths|quotepath
  |sharedrepository|sparsecheckout|sparsecheckoutcone|trustctime|untrackedcache|whitespace|multipackindex|preloadindex
  |protecthfs|protectntfs|hidedotfiles|fscache|commitgraph|deltabasecachelimit|packedgitlimit|packedgitwindowsize)$
  |^extensions\\.(?:worktreeconfig|preciousobjects|relativeworktrees)$|^remote\\.\\*\\.(?!promisor|partialclone|vcs)
  |^lfs\\.(?:\\*\\.)?(?:access|locksverify)$|^lfs\\.(?:repositoryformatversion|url|pushurl|batch|fetch[a-z]+|prune[a-z]+|[a-z]+timeout
  |concurrenttransfers|allowincompletepush|skipdownloaderrors|basictransfersonly|setlockablereadonly|lockignoredfiles)$
  |^blame\\.(?!ignorerevsfile)|^log\\.(?!showsignature)|^format\\.(?!pretty)|^diff\\.(?!external|orderfile)[a-z]+$
  |^diff\\.\\*\\.(?:x?funcname|wordregex|binary|algorithm)$|^filter\\.\\*\\.required$`.replaceAll(
    /\n */g,
    "",
  ),
);
/** Settings that have no effect on a command that only reads: its environment overrides them. */
const QUIETED =
  /^(?:core\.(?:fsmonitor|hookspath)|log\.showsignature|gpg\.|remote\.\*\.|extensions\.partialclone|protocol\.)/;
/** What Git LFS writes there. */
const LFS = /^git-lfs (?:clean|smudge|filter-process)(?: --)?(?: %f)?$/;
const WORK_TREE = "core.worktree";
const MAX_BYTES = 200_000_000;
const HOOK = "post-index-change";
const SECTION = /^\s*\[\s*([A-Za-z0-9-]+)(\.[^\]"]*|\s+"(?:[^"\\]|\\.)*")?\s*\]/;
const SETTING = /^\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*?)\s*)?$/;
/** The mode of a submodule in git's index, and the places around it. */
const SUBMODULE = Buffer.from([0, 0, 0xe0, 0]);
const [MODE_AT, FLAGS_AT, NAME_AT] = [24, 60, 62];

/**
 * Returns the setting because of which git in this folder may run a program, or read elsewhere; null when there is none.
 * `isQuiet`: it gets the environment of a command that only reads.
 */
export function settingThatActs(folder: string, isQuiet: boolean): string | null {
  try {
    for (let dir = folder; ; dir = dirname(dir)) {
      const found = inWorkTree(dir, isQuiet, 0);
      if (found !== null || dir === dirname(dir)) return found;
    }
  } catch (thrown) {
    if (errnoOf(thrown) === undefined && !(thrown instanceof SyscallError)) throw thrown;
    return "what can't be read";
  }
}

function inWorkTree(top: string, isQuiet: boolean, depth: number): string | null {
  const entry = join(top, ".git");
  const stat = lstatSync(entry, { throwIfNoEntry: false });
  if (!stat) return null;
  if (stat.isSymbolicLink()) return "a .git that is a link";
  const link = stat.isFile() ? /^gitdir: (.*)/.exec(textOf(entry) ?? "")?.[1] : ".git";
  if (link === undefined || depth > 8) return "a .git that is not understood";
  const own = resolve(top, link.trim());
  const common = resolve(own, textOf(join(own, "commondir"))?.trim() ?? ".");
  if (!isQuiet && existsSync(join(common, "hooks", HOOK))) return `the hook ${HOOK}`;
  let namesWorkTree = false;
  for (const file of [join(common, "config"), join(own, "config.worktree")]) {
    const settings = settingsIn(textOf(file) ?? "");
    if (settings === null) return "a line that is not understood";
    const found = settings.find(({ name, value }) => !isHarmless(name, value, { top, own, isQuiet }));
    if (found) return `\`${found.name}\``;
    namesWorkTree ||= settings.some(({ name }) => name === WORK_TREE);
  }
  const elsewhere = leadingElsewhere({ entry, own, common, isFile: stat.isFile(), namesWorkTree });
  if (elsewhere !== null) return elsewhere;
  const submodules = submodulesOf(own);
  if (submodules === null) return "an index that is not understood";
  for (const path of submodules) {
    const found = inWorkTree(join(top, path), isQuiet, depth + 1);
    if (found !== null) return found;
  }
  return null;
}

/** Folders of a repository in which a link, or a list of other folders, makes git print files from elsewhere. */
const LINKABLE = namesIn(
  ". info objects objects/info objects/pack refs refs/heads refs/tags refs/remotes logs rebase-merge rebase-apply sequencer",
);

interface Repository {
  /** The `.git` in the work tree. */
  entry: string;
  own: string;
  common: string;
  isFile: boolean;
  /** Its configuration does, and leads back to the folder of `entry`: other values are not harmless. */
  namesWorkTree: boolean;
}

/** A file `.git` leads to a repository that leads back to it, as of a linked work tree or a submodule of git's. */
function leadingElsewhere({ entry, own, common, isFile, namesWorkTree }: Repository): string | null {
  const isSubmodule = isFile && namesWorkTree && common === own;
  const back = isFile && !isSubmodule ? resolve(own, textOf(join(own, "gitdir"))?.trim() ?? ".") : entry;
  if (realOrSame(back) !== realOrSame(entry)) return "a .git that leads elsewhere";
  if (common !== (isFile && !isSubmodule ? dirname(dirname(own)) : own)) return "a .git that leads elsewhere";
  if (existsSync(join(common, "objects/info/alternates"))) return "the objects of another folder";
  for (const dir of new Set([own, common].flatMap((top) => [...LINKABLE].map((name) => join(top, name))))) {
    if (!existsSync(dir)) continue;
    const entries = readdirSync(dir, { withFileTypes: true });
    const link = entries.find((one) => one.isSymbolicLink() && one.name !== "hooks");
    if (link) return `the link ${link.name}`;
  }
  return null;
}

/** null for a line that is not understood. */
function settingsIn(config: string): { name: string; value: string }[] | null {
  const settings: { name: string; value: string }[] = [];
  let section = "";
  for (const line of config.split(/\r?\n/)) {
    const [header = "", name, sub] = SECTION.exec(line) ?? [];
    if (name !== undefined) section = `${name.toLowerCase()}${sub === undefined ? "" : ".*"}`;
    const rest = line.slice(header.length);
    if (/^\s*(?:[#;].*)?$/.test(rest)) continue;
    const [, key, value = ""] = SETTING.exec(rest) ?? [];
    // A value that goes on in the next line may look like a section.
    if (key === undefined || section === "" || rest.endsWith("\\")) return null;
    settings.push({ name: `${section}.${key.toLowerCase()}`, value });
  }
  return settings;
}

function isHarmless(
  setting: string,
  value: string,
  { top, own, isQuiet }: { top: string; own: string; isQuiet: boolean },
): boolean {
  if (HARMLESS.test(setting) || (isQuiet && QUIETED.test(setting))) return true;
  // Git writes it into the repository of each submodule. Of a value in quotes, or with a comment, git reads another.
  if (setting === WORK_TREE)
    return /^[^"\\#;]+$/.test(value) && realOrSame(resolve(own, value)) === realOrSame(top);
  if (setting === "blame.ignorerevsfile")
    return /^[\w./-]+$/.test(value) && isWithin(realOrSame(top), realOrSame(resolve(top, value)));
  if (setting === "core.fsmonitor") return /^(?:true|false)?$/.test(value);
  if (setting === "core.hookspath") return !/["\\~]/.test(value) && !existsSync(resolve(top, value, HOOK));
  return setting.startsWith("filter.*.") && LFS.test(value);
}

/** The paths of the submodules in the index; null when it is in parts, or its paths are. */
function submodulesOf(gitDir: string): string[] | null {
  const paths: string[] = [];
  const file = join(gitDir, "index");
  if (!existsSync(file)) return [];
  if (readdirSync(gitDir).some((name) => name.startsWith("sharedindex."))) return null;
  const index = readRegularSync(file, MAX_BYTES);
  const ends = index.length - (NAME_AT - MODE_AT);
  for (let at = index.indexOf(SUBMODULE); at >= 0 && at < ends; at = index.indexOf(SUBMODULE, at + 1)) {
    if (index[7] === 4) return null;
    const entry = at - MODE_AT;
    const length = index.readUInt16BE(entry + FLAGS_AT) & 0xfff;
    const path = index.toString("utf8", entry + NAME_AT, entry + NAME_AT + length);
    if (!path.includes("\0")) paths.push(path);
  }
  return paths;
}

/** null for a missing file. */
function textOf(file: string): string | null {
  return existsSync(file) ? readRegularSync(file, MAX_BYTES).toString() : null;
}
