/** Opens a base revision (`--base`): its commit, and a folder with the project's definitions as that commit has them. */

import { existsSync, realpathSync, statSync } from "node:fs";
import { mkdir, utimes } from "node:fs/promises";
import { join, relative } from "node:path";
import type { BaseView } from "../../config/config-sources.ts";
import type { Env } from "../../config/environment/paths.ts";
import type { NamedFiles } from "../../config/files/named-files.ts";
import type { Project } from "../../config/project/project.ts";
import { Git, type OwnRepository } from "../../kernel/files/git-repository.ts";
import { openRepository, type Repository, readIfThere, rootOf } from "../../kernel/files/user-repository.ts";
import type { RunBase } from "../../kernel/types.ts";
import type { Clock } from "../../lib/clock.ts";
import { errnoOf } from "../../lib/error-detail.ts";
import { innerPath, isWithin } from "../../lib/inner-path.ts";
import { readRegularSync } from "../../lib/regular-file.ts";
import type { Children } from "../../os/children.ts";
import { SyscallError } from "../../plugin/index.ts";
import { removeOld } from "../../store/files/remove-old.ts";
import { type Definitions, definitionsOf, GitTree, nameOf, placeDefinitions } from "./base-definitions.ts";

export interface BasePorts {
  /** The folder for definitions, absolute. No tool of a run writes there. */
  folder: string;
  /** A folder for git's work, absolute. */
  scratch: string;
  children: Pick<Children, "exec">;
  clock: Clock;
}

/** Whose base is opened, for a run in `cwd`. */
interface BaseOf {
  project: Project;
  /** Absolute, real. */
  cwd: string;
  env: Env;
  /** `commit`: it is known already, from a record or a parent. */
  base: { ref: string; commit?: string };
}

export interface BaseRevision extends RunBase {
  /** Has the definitions, where the project has them. Real. */
  dir: string;
  view: BaseView;
  /** Shown to the user: what was left out. */
  notices: string[];
}

/** Unused definitions are removed after this time; a run that resumes later writes them again. */
const KEPT_MS = 30 * 24 * 60 * 60_000;
/** A larger file of a command counts as changed. */
const MAX_COMPARED_BYTES = 16 * 1024 ** 2;
/** With one of these, the checkout's files are compared with those of the base. */
const NAME_COMMANDS = [".mcp.json", ".rnix/mcp.yaml", ".rnix/providers.yaml"];
/** What actions/checkout and others leave in a configuration: a header, or an address with a password. */
const CREDENTIALS = /extraheader\s*=|:\/\/[^/\s@:]*:[^/\s@]+@/i;

/**
 * Opens base revisions. Nothing of the checkout is executed or followed: git reads objects, from a repository of its own
 * (git-repository.ts), and every content is compared with its name.
 */
export class BaseRevisions {
  readonly #ports: BasePorts;

  constructor(ports: BasePorts) {
    this.#ports = ports;
  }

  /**
   * Fails with INVALID for a name that is no commit, outside of a repository, and where the base has another project;
   * with UNAVAILABLE without git.
   */
  async open({ project, cwd, env, base: { ref, commit: known } }: BaseOf): Promise<BaseRevision> {
    requireRef(ref);
    const { repository, git } = await this.#repository(project, env);
    try {
      return await git.within({ format: repository.format, objects: [repository.objects] }, async (own) => {
        const commit = await resolveCommit(own, repository, known ?? ref);
        const tree = (folder: string) => GitTree.open(own, commit, folder, repository.format);
        await requireSameProject(await tree(""), project, repository.root, cwd, ref);
        const ofProject = await tree(relative(repository.root, project.dir));
        const within = innerPath(project.dir, cwd) ?? "";
        const wanted = await definitionsOf(ofProject, within);
        const dir = await this.#place(commit, relative(repository.root, project.dir), within, wanted);
        return {
          ref,
          commit,
          dir,
          view: await viewOf(ofProject, wanted, project, repository.format),
          notices: [...wanted.notices, ...credentialsNotice(repository)],
        };
      });
    } finally {
      await repository.index?.handle.close();
    }
  }

  async #repository(project: Project, env: Env): Promise<{ repository: Repository; git: Git }> {
    const { scratch, children, clock } = this.#ports;
    const root = project.kind === "none" ? null : await rootOf(project.dir);
    const repository = root === null ? null : await openRepository(root);
    if (repository === null) {
      throw new SyscallError("INVALID", `--base: ${project.dir} is in no git repository with a project.`);
    }
    const owner = { uuid: OWNER, spillDir: scratch, clock };
    const git = await Git.find({
      dir: project.dir,
      untrusted: [repository.root],
      env: { ...(env.PATH !== undefined && { PATH: env.PATH }) },
      scratch,
      exec: (request) => children.exec(owner, request),
    });
    if (git !== null) return { repository, git };
    await repository.index?.handle.close();
    const message = "--base needs the program git on the PATH, outside of the project.";
    throw new SyscallError("UNAVAILABLE", message);
  }

  /** The folder's name depends on all that its content depends on. */
  async #place(commit: string, prefix: string, within: string, wanted: Definitions): Promise<string> {
    const { folder, clock } = this.#ports;
    const id = Bun.CryptoHasher.hash("sha256", [commit, prefix, within].join("\0"), "hex").slice(0, 12);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const dir = join(realpathSync(folder), `${commit.slice(0, 12)}-${id}`);
    await placeDefinitions(dir, wanted);
    const now = new Date(clock.now());
    await utimes(dir, now, now);
    await removeOld(folder, clock.now() - KEPT_MS);
    return dir;
  }
}

/** Programs need an owner; these belong to no run. */
const OWNER = "base-revision";

/**
 * Fails with INVALID where the base has another project for the run's folder. By adding or deleting a `.rnix` folder, a
 * checkout could leave out the definitions of the base.
 */
async function requireSameProject(
  tree: GitTree | null,
  { dir }: Project,
  root: string,
  cwd: string,
  ref: string,
): Promise<void> {
  const folders = foldersUpTo(root, isWithin(root, cwd) ? cwd : dir);
  const marks = new Set<string>();
  const asked = folders.map((folder) => join(relative(root, folder), ".rnix"));
  for (const { path } of (await tree?.files(asked)) ?? []) {
    const [owner] = path.split(/(?:^|\/)\.rnix\//);
    marks.add(join(root, owner ?? ""));
  }
  const isAdded = dir !== root && !marks.has(dir);
  const deleted = folders.find(
    (folder) => marks.has(folder) && isWithin(dir, folder) && !existsSync(join(folder, ".rnix")),
  );
  if (!isAdded && deleted === undefined) return;
  const there = deleted ?? folders.find((folder) => marks.has(folder)) ?? root;
  const message = `--base: the project of this folder is ${dir} in the checkout, and ${there} in ${ref}. Run it in the folder of a project that both have.`;
  throw new SyscallError("INVALID", message);
}

/** From `dir` up to `top`. */
function foldersUpTo(top: string, dir: string): string[] {
  const parts = relative(top, dir).split("/").filter(Boolean);
  return [...parts.keys(), parts.length].map((count) => join(top, ...parts.slice(0, count))).reverse();
}

async function viewOf(
  tree: GitTree | null,
  wanted: Definitions,
  { dir }: Project,
  format: Repository["format"],
): Promise<BaseView> {
  const compares = wanted.files.some(({ path }) => NAME_COMMANDS.includes(path));
  const files = compares && tree !== null ? await tree.files() : [];
  const names = new Map(files.map(({ path, oid }) => [path, oid]));
  const isSame = (file: string): boolean => names.get(relative(dir, file)) === contentName(file, format);
  return {
    workTree: dir,
    isUnchanged: ({ files: named, manifests, unbound }: NamedFiles) =>
      unbound === undefined && [...named, ...manifests].every(isSame),
  };
}

/** null for a file that can't be read or is too large. */
function contentName(file: string, format: Repository["format"]): string | null {
  try {
    if (statSync(file).size > MAX_COMPARED_BYTES) return null;
    return nameOf(readRegularSync(file, MAX_COMPARED_BYTES), format);
  } catch (error) {
    if (error instanceof SyscallError || errnoOf(error) !== undefined) return null;
    throw error;
  }
}

function credentialsNotice({ config, root }: Repository): string[] {
  if (config === null || !CREDENTIALS.test(config)) return [];
  return [
    `${join(root, ".git/config")} holds credentials, and programs of the run can read it: check out without them (actions/checkout: persist-credentials: false)`,
  ];
}

/** A name, and after it the steps to an ancestor, such as `~2` or `^`. No option, range or search. */
const REF = /^(?<name>[\w./+@#%=,-]+?)(?<steps>(?:[~^]\d{0,4})*)$/;
const MAX_REF = 250;
const HASH = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;
const SHORT_HASH = /^[0-9a-f]{4,64}$/;
/** Maximum steps from a reference to the reference that it names. */
const MAX_LINKS = 5;
const BRANCHES = "refs/remotes/origin";

/** Fails with INVALID for a text that git could take for something else than a branch, a tag or a commit. */
function requireRef(ref: string): void {
  const plain = REF.test(ref) && ref.length <= MAX_REF && !/^[-.]|\.\.|@\{|\/\/|\/\./.test(ref);
  if (plain) return;
  const message = `--base: expected a branch, a tag or a commit such as origin/main, got ${JSON.stringify(ref)}.`;
  throw new SyscallError("INVALID", message);
}

/** The commit's hash. Fails with INVALID when the repository does not have it, and says how to get it. */
async function resolveCommit(own: OwnRepository, repository: Repository, ref: string): Promise<string> {
  requireRef(ref);
  const { name = ref, steps = "" } = REF.exec(ref)?.groups ?? {};
  const named = await hashOf(repository, name);
  if (named !== null || SHORT_HASH.test(name)) {
    const asked = `${named ?? name}${steps}^{commit}`;
    const { exit, output } = await own.run(["rev-parse", "--verify", "--quiet", asked]);
    const commit = output.toString().trim();
    if (exit.code === 0 && HASH.test(commit)) return commit;
  }
  throw await missing(repository, ref, name);
}

/** Looks where git looks, in its order, and last among the branches of origin: a pipeline often has no others. */
async function hashOf(repository: Repository, name: string): Promise<string | null> {
  if (HASH.test(name)) return name;
  const packed = packedRefs(await readIfThere(join(repository.commonDir, "packed-refs")));
  const places = name.startsWith("refs/")
    ? [name]
    : [
        ...(/^[A-Z_]+$/.test(name) ? [name] : []),
        ...["refs/tags", "refs/heads", "refs/remotes"].map((folder) => `${folder}/${name}`),
        `refs/remotes/${name}/HEAD`,
        `${BRANCHES}/${name}`,
      ];
  for (const place of places) {
    const hash = await readRef(repository, packed, place, MAX_LINKS);
    if (hash !== null) return hash;
  }
  return null;
}

async function readRef(
  repository: Repository,
  packed: ReadonlyMap<string, string>,
  place: string,
  links: number,
): Promise<string | null> {
  const folder = place.startsWith("refs/") ? repository.commonDir : repository.gitDir;
  const text = await readIfThere(join(folder, place));
  const link = /^ref: (refs\/[\w./+@#%=,-]+)\s*$/.exec(text ?? "")?.[1];
  if (link !== undefined && links > 0 && !link.includes("..")) {
    return readRef(repository, packed, link, links - 1);
  }
  // Each line of FETCH_HEAD says more after the hash.
  const [hash = ""] = (text ?? "").split(/\s/, 1);
  return HASH.test(hash) ? hash : (packed.get(place) ?? null);
}

function packedRefs(text: string | null): Map<string, string> {
  const lines = (text ?? "").matchAll(/^([0-9a-f]{40,64}) (refs\/\S+)$/gm);
  return new Map([...lines].map(([, hash = "", name = ""]) => [name, hash]));
}

async function missing(repository: Repository, ref: string, name: string): Promise<SyscallError> {
  const branch = name.replace(/^(?:refs\/(?:heads|tags|remotes\/origin)|origin)\//, "");
  const isShallow = (await readIfThere(join(repository.commonDir, "shallow"))) !== null;
  const why = isShallow ? " It is a shallow clone, which has only its newest commits." : "";
  const message = `--base: the repository ${repository.root} has no commit ${ref}.${why} Fetch it first: git fetch origin ${branch} --depth=1`;
  return new SyscallError("INVALID", message);
}
