import { describe, expect, test } from "bun:test";
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { WorkTree } from "../../../src/kernel/files/git-work-tree.ts";
import { FolderWatch } from "../../../src/os/folder-watch.ts";
import { programsIn } from "../../support/programs.ts";

/** A repository with one commit, a trap that any program or remote of the repository would spring, and a kernel's programs. */
class Repository implements AsyncDisposable {
  readonly dir = realpathSync(mkdtempSync(join(tmpdir(), "rnix-git-")));
  readonly root = join(this.dir, "project");
  readonly home = join(this.dir, "home");
  readonly scratch = join(this.dir, "record");
  readonly trap = join(this.dir, "trap.sh");
  env: Record<string, string> = { PATH: process.env.PATH ?? "", HOME: this.home };
  /** The arguments of each git. */
  readonly ran: string[] = [];
  readonly #sprung = join(this.dir, "sprung");
  readonly #children = programsIn(this.dir);

  constructor(...init: string[]) {
    mkdirSync(this.root);
    mkdirSync(this.home);
    mkdirSync(this.scratch);
    writeFileSync(this.trap, `#!/bin/sh\necho "$0 $*" >> ${this.#sprung}\ncat\n`, { mode: 0o700 });
    this.git("init", "-q", ...init);
    this.write("old.txt", "as it was");
    this.write("deep/same.txt", "same");
    this.write(".gitignore", "ignored.txt\n");
    this.commit();
  }

  write(path: string, text: string): void {
    const file = join(this.root, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }

  git(...args: string[]): string {
    const { stdout, stderr, exitCode } = Bun.spawnSync(
      ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always", ...args],
      { cwd: this.root, env: { PATH: process.env.PATH ?? "", HOME: this.home } },
    );
    if (exitCode !== 0) throw new Error(stderr.toString());
    return stdout.toString();
  }

  commit(): void {
    this.git("add", "-A");
    this.git("commit", "-q", "-m", "next");
  }

  get sprung(): string {
    return existsSync(this.#sprung) ? readFileSync(this.#sprung, "utf8") : "";
  }

  open(dir = this.root, more: { scratch?: string } = {}): Promise<WorkTree | null> {
    return WorkTree.open({
      dir,
      untrusted: [this.root],
      env: this.env,
      scratch: this.scratch,
      watch: () => FolderWatch.open(),
      now: Date.now,
      exec: (request) => {
        this.ran.push(request.argv.slice(1).join(" "));
        return this.#children.exec({ uuid: "test", spillDir: join(this.dir, "spill") }, request);
      },
      ...more,
    });
  }

  /** The files that a listing at the end has and one at the beginning has not, or that differ. */
  async changed(change: () => void, dir = this.root): Promise<{ files: string[]; complete: boolean } | null> {
    const tree = await this.open(dir);
    if (tree === null) return null;
    try {
      const before = await tree.list();
      change();
      const after = await tree.list();
      if (before === null || after === null) return null;
      const names = new Set([...before.files.keys(), ...after.files.keys()]);
      const files = [...names].filter((name) => before.files.get(name) !== after.files.get(name)).sort();
      return { files, complete: before.complete && after.complete };
    } finally {
      await tree.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#children.close();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

const change = (repo: Repository) => (): void => {
  repo.write("old.txt", "changed");
  repo.write("new.txt", "new");
  repo.write("ignored.txt", "ignored");
};
const CHANGED = { files: ["new.txt", "old.txt"], complete: true };

const MISSING = "1".repeat(40);
const PROMISOR = (trap: string): string =>
  `[core]\n\trepositoryformatversion = 1\n\tsshCommand = ${trap}\n[extensions]\n\tpartialClone = origin\n[remote "origin"]\n\turl = ssh://nowhere/x\n\tpromisor = true\n\tpartialclonefilter = blob:none\n\tuploadpack = ${trap}\n`;

describe("the repository's configuration runs no program", () => {
  const traps: Record<string, (repo: Repository) => void> = {
    "a promisor remote with a missing HEAD": (repo) => {
      writeFileSync(join(repo.root, ".git/config"), PROMISOR(repo.trap));
      writeFileSync(join(repo.root, ".git/HEAD"), `${MISSING}\n`);
    },
    "a promisor remote over the ext transport": (repo) => {
      writeFileSync(
        join(repo.root, ".git/config"),
        `${PROMISOR(repo.trap).replace("ssh://nowhere/x", `ext::${repo.trap}`)}[protocol]\n\tallow = always\n`,
      );
      writeFileSync(join(repo.root, ".git/HEAD"), `${MISSING}\n`);
    },
    "a promisor remote and lost objects": (repo) => {
      appendFileSync(join(repo.root, ".git/config"), PROMISOR(repo.trap));
      rmSync(join(repo.root, ".git/objects"), { recursive: true });
      mkdirSync(join(repo.root, ".git/objects"));
    },
    "a monitor, hooks, a pager, an editor and an alias": (repo) => {
      for (const hook of ["post-index-change", "fsmonitor-watchman", "pre-auto-gc"]) {
        mkdirSync(join(repo.root, ".git/hooks"), { recursive: true });
        writeFileSync(join(repo.root, ".git/hooks", hook), readFileSync(repo.trap));
        chmodSync(join(repo.root, ".git/hooks", hook), 0o700);
      }
      appendFileSync(
        join(repo.root, ".git/config"),
        `[core]\n\tfsmonitor = ${repo.trap}\n\tpager = ${repo.trap}\n\teditor = ${repo.trap}\n\taskPass = ${repo.trap}\n\talternateRefsCommand = ${repo.trap}\n[alias]\n\tls-files = !${repo.trap}\n\tconfig = !${repo.trap}\n[pager]\n\tls-files = ${repo.trap}\n[credential]\n\thelper = ${repo.trap}\n[gc]\n\tauto = 1\n`,
      );
    },
    "filters and drivers of attributes in the tree": (repo) => {
      repo.write(".gitattributes", "* filter=x diff=x merge=x\n");
      appendFileSync(
        join(repo.root, ".git/config"),
        `[filter "x"]\n\tclean = ${repo.trap}\n\tsmudge = ${repo.trap}\n\trequired\n[diff "x"]\n\tcommand = ${repo.trap}\n\ttextconv = ${repo.trap}\n[merge "x"]\n\tdriver = ${repo.trap}\n[diff]\n\texternal = ${repo.trap}\n`,
      );
    },
    "a filter process of an included file, named by core.attributesFile": (repo) => {
      const included = join(repo.dir, "included");
      writeFileSync(included, `[filter "y"]\n\tprocess = ${repo.trap}\n[core]\n\tfsmonitor = ${repo.trap}\n`);
      writeFileSync(join(repo.dir, "attributes"), "* filter=y\n");
      appendFileSync(
        join(repo.root, ".git/config"),
        `[include]\n\tpath = ${included}\n[includeIf "gitdir:/**"]\n\tpath = ${included}\n[core]\n\tattributesFile = ${join(repo.dir, "attributes")}\n`,
      );
    },
    "a configuration of the work tree": (repo) => {
      appendFileSync(join(repo.root, ".git/config"), "[extensions]\n\tworktreeConfig = true\n");
      writeFileSync(join(repo.root, ".git/config.worktree"), `[core]\n\tfsmonitor = ${repo.trap}\n`);
    },
    "alternates and replacements": (repo) => {
      mkdirSync(join(repo.root, ".git/objects/info"), { recursive: true });
      writeFileSync(join(repo.root, ".git/objects/info/alternates"), "/proc/self/fd\n/dev\n");
    },
    "a .git file that leads to another repository": (repo) => {
      renameSync(join(repo.root, ".git"), join(repo.dir, "elsewhere"));
      appendFileSync(join(repo.dir, "elsewhere/config"), `[core]\n\tfsmonitor = ${repo.trap}\n`);
      writeFileSync(join(repo.root, ".git"), `gitdir: ${join(repo.dir, "elsewhere")}\n`);
    },
    "another work tree": (repo) => {
      appendFileSync(
        join(repo.root, ".git/config"),
        `[core]\n\tworktree = ${repo.dir}\n\tfsmonitor = ${repo.trap}\n`,
      );
    },
    "the user's own configuration": (repo) => {
      writeFileSync(
        join(repo.home, ".gitconfig"),
        `[core]\n\tfsmonitor = ${repo.trap}\n[filter "lfs"]\n\tclean = ${repo.trap}\n\tprocess = ${repo.trap}\n[trace2]\n\teventTarget = ${join(repo.dir, "sprung")}\n`,
      );
      repo.write(".gitattributes", "*.txt filter=lfs\n");
    },
    "variables of the run": (repo) => {
      Object.assign(repo.env, {
        GIT_DIR: "/nowhere",
        GIT_INDEX_FILE: "/dev/zero",
        GIT_CONFIG_COUNT: "1",
        GIT_CONFIG_KEY_0: "core.fsmonitor",
        GIT_CONFIG_VALUE_0: repo.trap,
        GIT_CONFIG_PARAMETERS: `'core.fsmonitor=${repo.trap}'`,
        GIT_CONFIG_GLOBAL: "/dev/zero",
        GIT_EXTERNAL_DIFF: repo.trap,
        GIT_SSH_COMMAND: repo.trap,
        GIT_EXEC_PATH: repo.dir,
        GIT_PAGER: repo.trap,
        GIT_TRACE: join(repo.dir, "sprung"),
      });
    },
    "a git in the project, first on the PATH": (repo) => {
      for (const folder of ["bin", "node_modules/.bin"]) {
        repo.write(`${folder}/git`, readFileSync(repo.trap, "utf8"));
        chmodSync(join(repo.root, folder, "git"), 0o700);
      }
      symlinkSync(join(repo.root, "bin"), join(repo.dir, "linked"));
      mkdirSync(join(repo.dir, "outside"));
      symlinkSync(join(repo.root, "bin/git"), join(repo.dir, "outside/git"));
      const mine = [".", "bin", join(repo.root, "bin"), join(repo.root, "node_modules/.bin")];
      repo.env.PATH = [...mine, join(repo.dir, "linked"), join(repo.dir, "outside"), repo.env.PATH].join(":");
    },
  };
  for (const [what, set] of Object.entries(traps)) {
    test(what, async () => {
      await using repo = new Repository();
      set(repo);
      expect(await repo.changed(change(repo))).toEqual(CHANGED);
      expect(repo.sprung).toBe("");
      expect(readdirSync(repo.scratch)).toEqual([]);
    });
  }

  test("a submodule's own", async () => {
    await using repo = new Repository();
    await using other = new Repository();
    repo.git("submodule", "--quiet", "add", other.root, "sub");
    repo.commit();
    const config = join(repo.root, ".git/modules/sub/config");
    appendFileSync(config, `[core]\n\tfsmonitor = ${repo.trap}\n${PROMISOR(repo.trap)}`);
    writeFileSync(join(repo.root, ".git/modules/sub/HEAD"), `${MISSING}\n`);
    appendFileSync(join(repo.root, ".git/config"), "[submodule]\n\trecurse = true\n");
    expect(await repo.changed(change(repo))).toEqual(CHANGED);
    expect(repo.sprung).toBe("");
  });
});

describe("git runs", () => {
  test("only for a new name that a pattern may match, once for all of them", async () => {
    await using repo = new Repository();
    repo.write(".gitignore", "ignored.txt\n*.log\n/build/\n");
    repo.write("venv/.gitignore", "*\n");
    repo.write("venv/lib.py", "x");
    repo.commit();
    const tree = (await repo.open()) ?? expect.unreachable();
    const list = async () => [...((await tree.list())?.files.keys() ?? [])].sort();
    expect(await list()).toEqual([]);
    repo.write("old.txt", "changed");
    repo.write("new/file.txt", "new");
    expect(await list()).toEqual(["new/file.txt", "old.txt"]);
    expect(repo.ran).toEqual([]);
    repo.write("build/out.o", "x");
    repo.write("new/a.log", "x");
    mkdirSync(join(repo.root, "log.log"));
    expect(await list()).toEqual(["new/file.txt", "old.txt"]);
    expect(repo.ran).toHaveLength(1);
    repo.write("new/a.log", "y");
    repo.write("build/more.o", "x");
    expect(await list()).toEqual(["new/file.txt", "old.txt"]);
    expect(repo.ran).toHaveLength(1);
    repo.write("new/.gitignore", "file.txt\n!a.log\n");
    // One that is ignored only now is still looked at.
    expect(await list()).toEqual(["new/.gitignore", "new/a.log", "new/file.txt", "old.txt"]);
    expect(repo.ran).toHaveLength(2);
    await tree.close();
  });

  test("not for a file whose time alone is another", async () => {
    await using repo = new Repository();
    utimesSync(join(repo.root, "old.txt"), 1, 1);
    const tree = (await repo.open()) ?? expect.unreachable();
    expect([(await tree.list())?.files.size, repo.ran]).toEqual([0, []]);
    await tree.close();
  });
});

describe("a change is found", () => {
  test.each([[2], [4]])(
    "with an index of version %p, and of the files that are only to be added",
    async (version) => {
      await using repo = new Repository();
      repo.write("deep/er/a.txt", "a");
      repo.commit();
      repo.write("later.txt", "x");
      repo.git("add", "-N", "later.txt");
      repo.git("update-index", "--index-version", String(version));
      const files = repo.changed(() => {
        change(repo)();
        repo.write("later.txt", "y");
        rmSync(join(repo.root, "deep/er/a.txt"));
      });
      const names = ["deep/er/a.txt", "later.txt", "new.txt", "old.txt"];
      expect(await files).toEqual({ files: names, complete: true });
    },
  );

  test("where a folder, a file and a link take each other's place", async () => {
    await using repo = new Repository();
    repo.write("elsewhere/same.txt", "same");
    repo.write("loose", "x");
    repo.commit();
    const files = repo.changed(() => {
      rmSync(join(repo.root, "old.txt"));
      repo.write("old.txt/inner.txt", "x");
      rmSync(join(repo.root, "deep"), { recursive: true });
      symlinkSync("elsewhere", join(repo.root, "deep"));
      rmSync(join(repo.root, "loose"));
      mkdirSync(join(repo.root, "loose"));
    });
    const names = ["deep", "deep/same.txt", "loose", "old.txt", "old.txt/inner.txt"];
    expect(await files).toEqual({ files: names, complete: true });
  });

  test("also when it is staged or committed during the run", async () => {
    await using repo = new Repository();
    const files = repo.changed(() => {
      change(repo)();
      repo.commit();
      rmSync(join(repo.root, "deep/same.txt"));
    });
    expect(await files).toEqual({ files: ["deep/same.txt", "new.txt", "old.txt"], complete: true });
  });

  test("in a file that had changed before, and not in one that is unchanged since", async () => {
    await using repo = new Repository();
    repo.write("old.txt", "changed before");
    repo.write("left.txt", "untracked before");
    const files = repo.changed(() => {
      repo.write("old.txt", "changed again");
      repo.git("add", "left.txt");
    });
    expect(await files).toEqual({ files: ["old.txt"], complete: true });
  });

  test("when its size and time are those of the index", async () => {
    await using repo = new Repository();
    const index = join(repo.root, ".git/index");
    // Written within the same second as the index.
    const now = Math.floor(Date.now() / 1000);
    utimesSync(join(repo.root, "old.txt"), now, now);
    repo.git("update-index", "--refresh");
    utimesSync(index, now, now);
    const files = repo.changed(() => {
      repo.write("old.txt", "as it is!");
      utimesSync(join(repo.root, "old.txt"), now, now);
    });
    expect(await files).toEqual({ files: ["old.txt"], complete: true });
  });

  test("from a folder below the work tree's root, whose ignore files count", async () => {
    await using repo = new Repository();
    const files = repo.changed(
      () => {
        change(repo)();
        repo.write("deep/ignored.txt", "x");
        repo.write("deep/own.txt", "x");
      },
      join(repo.root, "deep"),
    );
    expect(await files).toEqual({ files: ["own.txt"], complete: true });
  });

  test("in a linked work tree, with the exclude file of the repository", async () => {
    await using repo = new Repository();
    const linked = join(repo.dir, "linked");
    repo.git("worktree", "add", "-q", linked);
    appendFileSync(join(repo.root, ".git/info/exclude"), "private.txt\n");
    const files = repo.changed(() => {
      for (const name of ["old.txt", "new.txt", "private.txt"]) writeFileSync(join(linked, name), "new");
    }, linked);
    expect(await files).toEqual(CHANGED);
  });

  test("in a submodule that is the project", async () => {
    await using repo = new Repository();
    await using other = new Repository();
    repo.git("submodule", "--quiet", "add", other.root, "sub");
    const sub = join(repo.root, "sub");
    const files = repo.changed(() => {
      for (const name of ["old.txt", "new.txt", "ignored.txt"]) writeFileSync(join(sub, name), "new");
    }, sub);
    expect(await files).toEqual(CHANGED);
  });

  test("in a repository of the other object format", async () => {
    await using repo = new Repository("--object-format=sha256");
    expect(await repo.changed(change(repo))).toEqual(CHANGED);
  });

  test("in a repository without a commit or an index", async () => {
    await using repo = new Repository();
    rmSync(join(repo.root, ".git"), { recursive: true });
    repo.git("init", "-q");
    expect(await repo.changed(change(repo))).toEqual(CHANGED);
  });

  test("outside of a sparse checkout", async () => {
    await using repo = new Repository();
    repo.write("far/away.txt", "x");
    repo.commit();
    repo.git("sparse-checkout", "set", "deep");
    expect(existsSync(join(repo.root, "far"))).toBe(false);
    const files = repo.changed(() => repo.write("far/away.txt", "here"));
    expect(await files).toEqual({ files: ["far/away.txt"], complete: true });
  });

  test.each([
    ["the usual file", (repo: Repository) => join(repo.home, ".config/git/ignore"), ""],
    [
      "the file that .gitconfig names",
      (repo: Repository) => join(repo.home, "mine"),
      '[core]\n\texcludesFile = "~/mine"\n',
    ],
  ])("and a file that the user ignores everywhere is not: %s", async (_what, file, config) => {
    await using repo = new Repository();
    writeFileSync(join(repo.home, ".gitconfig"), config);
    mkdirSync(dirname(file(repo)), { recursive: true });
    writeFileSync(file(repo), "*.swp\n");
    const files = repo.changed(() => {
      change(repo)();
      repo.write("old.swp", "x");
    });
    expect(await files).toEqual(CHANGED);
  });

  test("and our own folder is not, where no rule ignores it", async () => {
    await using repo = new Repository();
    const scratch = join(repo.root, "odd [name]*");
    mkdirSync(scratch);
    const tree = (await repo.open(repo.root, { scratch })) ?? expect.unreachable();
    expect([...((await tree.list())?.files.keys() ?? [])]).toEqual([]);
    await tree.close();
  });
});

describe("the contents that the index names", () => {
  /** The content of `old.txt` in the index, by its name in the listing after a change. */
  async function indexed(repo: Repository, dir = repo.root): Promise<string | undefined> {
    const tree = (await repo.open(dir)) ?? expect.unreachable();
    try {
      writeFileSync(join(dir, "old.txt"), "changed");
      const entry = (await tree.list())?.entries.get("old.txt") ?? expect.unreachable();
      const found = (await tree.contents([entry.oid, "0".repeat(entry.oid.length)], 100)).get(entry.oid);
      return found && Buffer.from(found).toString();
    } finally {
      await tree.close();
    }
  }

  test("are read in a repository of either format, packed, shallow, detached, in a linked work tree, and as a submodule", async () => {
    await using repo = new Repository();
    await using sha256 = new Repository("--object-format=sha256");
    expect([await indexed(repo), await indexed(sha256)]).toEqual(["as it was", "as it was"]);
    repo.git("checkout", "-q", "--detach");
    repo.git("checkout", "-q", "old.txt");
    repo.git("gc", "-q");
    expect(await indexed(repo)).toBe("as it was");
    const [linked, shallow] = [join(repo.dir, "linked"), join(repo.dir, "shallow")];
    repo.git("worktree", "add", "-q", linked);
    repo.git("clone", "-q", "--depth", "1", `file://${repo.root}`, shallow);
    await using other = new Repository();
    other.git("submodule", "--quiet", "add", repo.root, "sub");
    for (const dir of [linked, shallow, join(other.root, "sub")])
      expect([dir, await indexed(dir.startsWith(other.dir) ? other : repo, dir)]).toEqual([dir, "as it was"]);
    expect(repo.sprung).toBe("");
  });

  test("are missing where they are larger than asked for, or gone", async () => {
    await using repo = new Repository();
    repo.write("old.txt", "x".repeat(101));
    repo.commit();
    expect(await indexed(repo)).toBeUndefined();
    repo.write("old.txt", "small");
    repo.commit();
    rmSync(join(repo.root, ".git/objects"), { recursive: true });
    mkdirSync(join(repo.root, ".git/objects"));
    expect(await indexed(repo)).toBeUndefined();
  });

  test("are named where git converts them, and nothing is looked at where it does not", async () => {
    await using repo = new Repository();
    const converted = async (): Promise<[string, number][]> => {
      const tree = (await repo.open()) ?? expect.unreachable();
      const found = [...(await tree.converted())];
      await tree.close();
      return found;
    };
    expect(await converted()).toEqual([]);
    repo.write("deep/.gitattributes", "*.crlf text eol=crlf\n");
    repo.write("deep/a.crlf", "1\r\n2\r\n");
    repo.commit();
    expect(await converted()).toEqual([["deep/a.crlf", 6]]);
  });
});

describe("what can't be determined is reported as incomplete, and soon", () => {
  test.each([
    ["config", "config"],
    ["index", "index"],
    ["commondir", "commondir"],
    ["info/exclude", "info/exclude"],
  ])("a FIFO as .git/%s", async (_what, path) => {
    await using repo = new Repository();
    rmSync(join(repo.root, ".git", path), { force: true });
    Bun.spawnSync(["mkfifo", join(repo.root, ".git", path)]);
    const began = performance.now();
    await expect(repo.changed(() => {})).rejects.toThrow("expected a file, found a FIFO");
    expect(performance.now() - began).toBeLessThan(5_000);
  });

  test("a device or a FIFO as .git", async () => {
    await using repo = new Repository();
    rmSync(join(repo.root, ".git"), { recursive: true });
    symlinkSync("/dev/zero", join(repo.root, ".git"));
    await expect(repo.changed(() => {})).rejects.toThrow("found a device");
  });

  test("an index that is invalid, split or sparse", async () => {
    await using repo = new Repository();
    repo.git("update-index", "--split-index");
    expect(await repo.changed(() => {})).toBeNull();
    repo.git("update-index", "--no-split-index");
    repo.git("sparse-checkout", "set", "--cone", "--sparse-index", "nowhere");
    expect(await repo.changed(() => {})).toMatchObject({ complete: false });
    writeFileSync(join(repo.root, ".git/index"), "DIRC nonsense");
    expect(await repo.changed(() => {})).toBeNull();
  });

  test("a FIFO that git opens itself", async () => {
    await using repo = new Repository();
    const tree = (await repo.open()) ?? expect.unreachable();
    rmSync(join(repo.root, ".gitignore"));
    Bun.spawnSync(["mkfifo", join(repo.root, ".gitignore")]);
    repo.write("ignored/new.txt", "git has to decide");
    const began = performance.now();
    expect(await tree.list({ soon: true })).toBeNull();
    expect(performance.now() - began).toBeLessThan(6_000);
    await tree.close();
    expect(readdirSync(repo.scratch)).toEqual([]);
  });

  test("a machine without git", async () => {
    await using repo = new Repository();
    repo.env.PATH = repo.dir;
    expect(await repo.open()).toBeNull();
  });
});
