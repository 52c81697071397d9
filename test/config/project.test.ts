import { describe, expect, test } from "bun:test";
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { userPaths } from "../../src/config/environment/paths.ts";
import { findProject, type Locks, Projects, prepareProject } from "../../src/config/project/project.ts";
import { failure, Sandbox } from "./sandbox.ts";

/** The list of known projects, in the sandbox. */
const LIST = "home/.local/share/rnix/projects.json";

/** Folders below the sandbox, the current one, the project's, its kind, and folders that every user may write. */
const GRID: [title: string, folders: string, cwd: string, dir: string, kind: string, open?: string][] = [
  ["a .rnix here", "home/p/.rnix", "home/p", "home/p", "rnix"],
  ["a .rnix above", "home/p/.rnix home/p/a/b", "home/p/a/b", "home/p", "rnix"],
  ["the nearer of two .rnix", "home/p/.rnix home/p/a/.rnix home/p/a/b", "home/p/a/b", "home/p/a", "rnix"],
  ["a .rnix above the git root", "home/p/.rnix home/p/a/.git", "home/p/a", "home/p", "rnix"],
  ["the git root", "home/p/.git home/p/a", "home/p/a", "home/p", "git"],
  ["the nearer of two git roots", "home/p/.git home/p/sub/.git", "home/p/sub", "home/p/sub", "git"],
  ["the current folder", "home/p/a", "home/p/a", "home/p/a", "folder"],
  ["none in HOME, whatever it has", "home/.rnix home/.git", "home", "home", "none"],
  ["never HOME, from a folder below", "home/.rnix home/.git home/p", "home/p", "home/p", "folder"],
  ["nothing above HOME", ".rnix home/p", "home/p", "home/p", "folder"],
  ["none above HOME itself", ".rnix home", ".", ".", "none"],
  ["outside of HOME as well", "srv/p/.rnix srv/p/a", "srv/p/a", "srv/p", "rnix"],
  ["none in a world-writable folder", "tmp/.rnix tmp/.git", "tmp", "tmp", "none", "tmp"],
  ["no world-writable folder above", "tmp/.rnix tmp/.git tmp/mine", "tmp/mine", "tmp/mine", "folder", "tmp"],
  [
    "past a world-writable folder inside a project",
    "home/p/.rnix home/p/cache/x",
    "home/p/cache",
    "home/p",
    "rnix",
    "home/p/cache",
  ],
];

describe("the project is", () => {
  for (const [title, folders, cwd, dir, kind, open] of GRID) {
    test(title, () => {
      using box = new Sandbox();
      for (const path of folders.split(" ")) box.folder(path);
      if (open) chmodSync(join(box.dir, open), 0o777);
      const found: { dir: string; kind: string } = box.project(join(box.dir, cwd));
      expect({ dir: found.dir, kind: found.kind }).toEqual({ dir: join(box.dir, dir), kind });
    });
  }

  test("found through a link, by its real path and with the same id", () => {
    using box = new Sandbox();
    symlinkSync(box.projectDir, join(box.dir, "link"));
    expect(box.project(join(box.dir, "link"))).toEqual(box.project());
  });

  test("a git work tree, whose .git is a file", () => {
    using box = new Sandbox();
    box.write("home/tree/.git", "gitdir: elsewhere\n");
    box.folder("home/tree/src");
    expect(box.project(join(box.home, "tree/src"))).toMatchObject({
      dir: join(box.home, "tree"),
      kind: "git",
    });
  });

  test("not what only links to a .rnix, or has a file of that name", () => {
    using box = new Sandbox();
    box.write("home/a/.rnix", "");
    box.folder("home/b");
    symlinkSync(join(box.projectDir, ".rnix"), join(box.home, "b/.rnix"));
    expect(box.project(join(box.home, "a")).kind).toBe("folder");
    expect(box.project(join(box.home, "b")).kind).toBe("folder");
  });

  test("not a folder that another user owns, or whose .rnix another user owns", () => {
    using box = new Sandbox();
    box.folder("home/work/sub");
    const cwd = join(box.projectDir, "sub");
    const at = { cwd, home: box.home, env: {} };
    expect(findProject({ ...at, uid: box.uid }).kind).toBe("rnix");
    expect(findProject({ ...at, uid: box.uid + 1 })).toMatchObject({ dir: cwd, kind: "folder" });
  });

  test("not a folder whose .rnix or itself was given away", () => {
    using box = new Sandbox();
    const at = { cwd: box.projectDir, home: box.home, uid: box.uid, env: {} };
    const givenAway = (given: string) => ({
      realpath: realpathSync,
      lstat(path: string) {
        const stat = lstatSync(path, { throwIfNoEntry: false });
        if (stat && path === given) stat.uid = box.uid + 1;
        return stat ?? null;
      },
    });
    expect(findProject(at).kind).toBe("rnix");
    for (const given of [join(box.projectDir, ".rnix"), box.projectDir]) {
      expect(findProject(at, givenAway(given)).kind).toBe("folder");
    }
  });

  test("not across a file-system border", () => {
    using box = new Sandbox();
    const cwd = box.folder("home/work/mnt/a");
    const border = join(box.projectDir, "mnt");
    const lstat = (path: string) => {
      const stat = lstatSync(path, { throwIfNoEntry: false });
      if (stat && (path === border || path.startsWith(`${border}/`))) stat.dev += 1;
      return stat ?? null;
    };
    const at = { cwd, home: box.home, uid: box.uid, env: {} };
    expect(findProject(at).dir).toBe(box.projectDir);
    expect(findProject(at, { realpath: realpathSync, lstat })).toMatchObject({ dir: cwd, kind: "folder" });
  });

  test("an error where the current folder is missing, relative, or a file", async () => {
    using box = new Sandbox();
    box.write("home/file", "");
    expect((await failure(() => box.project(join(box.dir, "gone")))).code).toBe("NOT_FOUND");
    expect((await failure(() => box.project("work"))).code).toBe("INVALID");
    expect((await failure(() => box.project(join(box.home, "file")))).code).toBe("INVALID");
  });
});

test("with CI set, a world-writable folder is a project, unless it is one for all users", () => {
  using box = new Sandbox();
  const cwd = box.folder("clone");
  box.folder("clone/.git");
  const kindOf = (mode: number, env: Record<string, string>): string => {
    chmodSync(cwd, mode);
    return findProject({ cwd, home: box.home, uid: box.uid, env }).kind;
  };
  expect(kindOf(0o777, {})).toBe("none");
  expect(kindOf(0o777, { CI: "true" })).toBe("git");
  expect(kindOf(0o1777, { CI: "true" })).toBe("none");
});

describe("a project's data", () => {
  test("is in its .rnix, or where RNIX_DATA_DIR says, or the user's own where there is no project", async () => {
    using box = new Sandbox();
    const at = { cwd: box.projectDir, home: box.home, uid: box.uid };
    const dataDir = (env: Record<string, string>, cwd = at.cwd) => findProject({ ...at, cwd, env }).dataDir;
    expect(dataDir({})).toBe(join(box.projectDir, ".rnix/data"));
    expect(dataDir({ RNIX_DATA_DIR: "/data/x" })).toBe("/data/x");
    expect(dataDir({}, box.home)).toBe(join(box.home, ".local/share/rnix"));
    expect(dataDir({ XDG_DATA_HOME: "/xdg" }, box.home)).toBe("/xdg/rnix");
    expect(dataDir({ RNIX_DATA_DIR: "/data/x" }, box.home)).toBe("/data/x");
    expect((await failure(() => dataDir({ RNIX_DATA_DIR: "data" }))).code).toBe("INVALID");
  });

  test("is private, and the only thing that a run makes", () => {
    using box = new Sandbox();
    const project = box.project(box.folder("home/new"));
    prepareProject(project);
    expect(lstatSync(join(project.dir, ".rnix/data")).mode & 0o777).toBe(0o700);
    expect(lstatSync(join(project.dir, ".rnix")).mode & 0o777).toBe(0o700);
    expect(readdirSync(join(project.dir, ".rnix"))).toEqual(["data"]);
    prepareProject(project);
    expect(box.project(project.dir)).toEqual({ ...project, kind: "rnix" });
  });

  test("elsewhere leaves the project alone", () => {
    using box = new Sandbox();
    const dir = box.folder("home/new");
    const env = { RNIX_DATA_DIR: join(box.dir, "data") };
    prepareProject(findProject({ cwd: dir, home: box.home, uid: box.uid, env }));
    expect(lstatSync(join(dir, ".rnix"), { throwIfNoEntry: false })).toBeUndefined();
    expect(lstatSync(env.RNIX_DATA_DIR).isDirectory()).toBe(true);
  });

  test("that cannot be made is an error that names RNIX_DATA_DIR", async () => {
    using box = new Sandbox();
    box.write("home/blocked/data", "a file where the folder should be");
    const env = { RNIX_DATA_DIR: join(box.home, "blocked/data/x") };
    const project = findProject({ cwd: box.projectDir, home: box.home, uid: box.uid, env });
    expect((await failure(() => prepareProject(project))).message).toContain("RNIX_DATA_DIR");
  });
});

describe("the list of known projects", () => {
  const free: Locks = { tryAcquire: () => ({ release: () => undefined }) };

  test("holds each once, and all runs outside projects as one", async () => {
    using box = new Sandbox();
    const projects = new Projects(box.userDataDir, free);
    expect(projects.list()).toEqual([]);
    await projects.remember(box.project());
    await projects.remember(box.project());
    await projects.remember(box.project(box.home));
    await projects.remember(box.project(box.dir));
    const { id, dir, dataDir } = box.project();
    const own = { id: "user", dir: box.userDataDir, data_dir: box.userDataDir };
    expect(projects.list()).toEqual([{ id, dir, data_dir: dataDir }, own]);
    expect(new Projects(box.userDataDir, free).list()).toEqual(projects.list());
  });

  test("takes the lock only for new entries, releases it, and sees concurrent writes", async () => {
    using box = new Sandbox();
    const other = new Projects(box.userDataDir, free);
    const second = box.project(box.folder("home/second"));
    let held = 0;
    let taken = 0;
    const locks: Locks = {
      tryAcquire: () => {
        if (taken++ === 0) return null;
        held++;
        return { release: () => void held-- };
      },
    };
    await other.remember(second);
    const projects = new Projects(box.userDataDir, locks);
    await projects.remember(box.project());
    await projects.remember(box.project());
    expect(projects.list().map(({ dir }) => dir)).toEqual([second.dir, box.projectDir]);
    expect({ taken, held }).toEqual({ taken: 2, held: 0 });
  });

  test("replaces what a killed writer has left", async () => {
    using box = new Sandbox();
    mkdirSync(box.userDataDir, { recursive: true });
    writeFileSync(join(box.userDataDir, "~projects.json.tmp"), "half of");
    await new Projects(box.userDataDir, free).remember(box.project());
    expect(readdirSync(box.userDataDir)).toEqual(["projects.json"]);
  });

  test("is refused when it is newer, with what to do, and is unchanged", async () => {
    using box = new Sandbox();
    const projects = new Projects(box.userDataDir, free);
    mkdirSync(box.userDataDir, { recursive: true });
    box.write(LIST, '{"v":2,"projects":[]}');
    expect(await failure(() => projects.list())).toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining("newer rnix"),
    });
    expect((await failure(() => projects.remember(box.project()))).code).toBe("UNAVAILABLE");
    expect(readdirSync(box.userDataDir)).toEqual(["projects.json"]);
  });

  describe("that is damaged is set aside, and its readable part is used:", () => {
    const DAMAGE: Record<string, { damage(text: string): string; left: number }> = {
      empty: { damage: () => "", left: 0 },
      zeros: { damage: (text) => "\0".repeat(text.length), left: 0 },
      "cut off in its last entry": { damage: (text) => text.slice(0, -10), left: 2 },
      "one entry without its folder": { damage: (text) => text.replace('"dir"', '"dri"'), left: 2 },
      "another document": { damage: () => "[]", left: 0 },
    };
    test.each(Object.entries(DAMAGE))("%s", async (_, { damage, left }) => {
      using box = new Sandbox();
      const logged: string[] = [];
      const projects = new Projects(box.userDataDir, free, (text) => void logged.push(text));
      for (const name of ["a", "b", "c"]) await projects.remember(box.project(box.folder(`home/${name}`)));
      const damaged = damage(readFileSync(join(box.userDataDir, "projects.json"), "utf8"));
      box.write(LIST, damaged);

      expect(projects.list()).toHaveLength(left);
      expect(projects.list()).toHaveLength(left);
      expect(logged).toEqual([expect.stringContaining("projects.json.damaged")]);
      expect(readFileSync(join(box.userDataDir, "projects.json.damaged"), "utf8")).toBe(damaged);
      await projects.remember(box.project(box.folder("home/d")));
      expect(new Projects(box.userDataDir, free).list()).toHaveLength(left + 1);
    });

    test("no file at all", async () => {
      using box = new Sandbox();
      box.folder(LIST);
      const projects = new Projects(box.userDataDir, free);
      expect(projects.list()).toEqual([]);
      await projects.remember(box.project());
      expect(projects.list()).toHaveLength(1);
    });

    test("not while another holds the lock", () => {
      using box = new Sandbox();
      mkdirSync(box.userDataDir, { recursive: true });
      box.write(LIST, "");
      expect(new Projects(box.userDataDir, { tryAcquire: () => null }).list()).toEqual([]);
      expect(readdirSync(box.userDataDir)).toEqual(["projects.json"]);
    });
  });

  test("stays within bounds: first those go that are not there any more, then the oldest", async () => {
    using box = new Sandbox();
    mkdirSync(box.userDataDir, { recursive: true });
    const there = box.folder("home/there");
    const entry = (n: number, data_dir: string) => ({
      id: `${n}`,
      dir: `/gone/${"x".repeat(200)}`,
      data_dir,
    });
    const fill = (of: (n: number) => string): void => {
      const all = Array.from({ length: 2_500 }, (_, n) => entry(n, of(n)));
      box.write(LIST, JSON.stringify({ v: 1, projects: all }));
    };
    const projects = new Projects(box.userDataDir, free);
    fill((n) => (n === 7 ? there : `/gone/${n}`));
    await projects.remember(box.project());
    expect(projects.list().map(({ id }) => id)).toEqual(["7", box.project().id]);
    fill(() => there);
    await projects.remember(box.project());
    const ids = projects.list().map(({ id }) => id);
    expect(ids.slice(-2)).toEqual(["2499", box.project().id]);
    expect(ids.length).toBeGreaterThan(1_000);
    expect(statSync(join(box.userDataDir, "projects.json")).size).toBeLessThan(512 * 1024);
  });
});

describe("the user's paths", () => {
  const system = { uid: 1000, home: "/home/u", canWrite: () => true };

  test("follow XDG, and an XDG variable that is relative does not count", () => {
    expect(userPaths({}, system)).toEqual({
      home: "/home/u",
      configDir: "/home/u/.config/rnix",
      dataDir: "/home/u/.local/share/rnix",
      socket: "/tmp/rnix-1000/rnix.sock",
      pidFile: "/tmp/rnix-1000/rnix.pid",
      lockFile: "/tmp/rnix-1000/rnix.lock",
    });
    const env = {
      HOME: "/h",
      XDG_CONFIG_HOME: "/c",
      XDG_DATA_HOME: "data",
      XDG_RUNTIME_DIR: "/run/user/1000",
    };
    expect(userPaths(env, system)).toEqual({
      home: "/h",
      configDir: "/c/rnix",
      dataDir: "/h/.local/share/rnix",
      socket: "/run/user/1000/rnix/rnix.sock",
      pidFile: "/run/user/1000/rnix/rnix.pid",
      lockFile: "/run/user/1000/rnix/rnix.lock",
    });
  });

  test("without a writable HOME have the data in a folder of the temporary one, for this user alone", async () => {
    using box = new Sandbox();
    const uid = process.getuid?.() ?? 0;
    const temp = box.home;
    const none = { uid, home: "/home/u", canWrite: () => false };
    const data = join(temp, `rnix-data-${uid}`);
    for (const _ of ["made", "found"])
      expect(userPaths({ TMPDIR: temp, XDG_RUNTIME_DIR: "/run/user/1" }, none)).toMatchObject({
        dataDir: data,
        unwritableDataDir: "/home/u/.local/share/rnix",
        socket: `/tmp/rnix-${uid}/rnix.sock`,
      });
    expect(statSync(data).mode & 0o777).toBe(0o700);
    expect(userPaths({ XDG_DATA_HOME: "/d" }, none)).not.toHaveProperty("unwritableDataDir");
    chmodSync(data, 0o750);
    expect((await failure(() => userPaths({ TMPDIR: temp }, none))).code).toBe("PERMISSION");
    rmdirSync(data);
    symlinkSync("/etc", data);
    expect((await failure(() => userPaths({ TMPDIR: temp }, none))).code).toBe("PERMISSION");
    const gone = { TMPDIR: join(temp, "gone") };
    expect((await failure(() => userPaths(gone, none))).code).toBe("UNAVAILABLE");
  });

  test("put the server's files next to the socket that RNIX_SOCKET names", () => {
    const { socket, pidFile, lockFile } = userPaths(
      { RNIX_SOCKET: "/s/a.sock", XDG_RUNTIME_DIR: "/run" },
      system,
    );
    expect([socket, pidFile, lockFile]).toEqual(["/s/a.sock", "/s/a.pid", "/s/a.lock"]);
  });

  test("refuse a socket that is relative, or longer than the system takes", async () => {
    expect((await failure(() => userPaths({ RNIX_SOCKET: "a.sock" }, system))).code).toBe("INVALID");
    const long = { XDG_RUNTIME_DIR: `/${"x".repeat(120)}` };
    expect((await failure(() => userPaths(long, system))).message).toContain("RNIX_SOCKET");
  });
});
