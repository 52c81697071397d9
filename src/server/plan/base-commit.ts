/** Finds the commit that a name such as `origin/main` stands for. */

import { join } from "node:path";
import type { OwnRepository } from "../../kernel/files/git-repository.ts";
import { type Repository, readIfThere } from "../../kernel/files/user-repository.ts";
import { SyscallError } from "../../plugin/index.ts";

/** A name, and after it the steps to an ancestor, such as `~2` or `^`. No option, range or search. */
const REF = /^(?<name>[\w./+@#%=,-]+?)(?<steps>(?:[~^]\d{0,4})*)$/;
const MAX_REF = 250;
const HASH = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;
const SHORT_HASH = /^[0-9a-f]{4,64}$/;
/** Maximum steps from a reference to the reference that it names. */
const MAX_LINKS = 5;
const BRANCHES = "refs/remotes/origin";

/** Fails with INVALID for a text that git could take for something else than a branch, a tag or a commit. */
export function requireRef(ref: string): void {
  const plain = REF.test(ref) && ref.length <= MAX_REF && !/^[-.]|\.\.|@\{|\/\/|\/\./.test(ref);
  if (plain) return;
  const message = `--base: expected a branch, a tag or a commit such as origin/main, got ${JSON.stringify(ref)}.`;
  throw new SyscallError("INVALID", message);
}

/** The commit's hash. Fails with INVALID when the repository does not have it, and says how to get it. */
export async function resolveCommit(
  own: OwnRepository,
  repository: Repository,
  ref: string,
): Promise<string> {
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
