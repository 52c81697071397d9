import { expect, test } from "bun:test";
import { mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { PluginStore, pluginFolders } from "../../../src/store/plugin-store.ts";
import { codeOf, temporaryFolder } from "../support.ts";

const project = { id: "5eed", dataDir: "/p/.rnix/data" };

test("stock plugins have a folder of their own beside the records, others below plugins/", () => {
  const folders = { run: "/p/.rnix/data/steps/u", project, user: "/home/u/rnix" };
  expect(pluginFolders(true, folders)).toEqual({
    run: "/p/.rnix/data/steps/u/plugins",
    project: "/p/.rnix/data",
    user: "/home/u/rnix",
  });
  expect(pluginFolders(false, folders)).toEqual({
    run: "/p/.rnix/data/steps/u/plugins",
    project: "/p/.rnix/data/plugins",
    user: "/home/u/rnix/plugins",
  });
});

test("the data of a process tree is in a folder of the root run that no plugin's name has", async () => {
  const root = temporaryFolder();
  const folders = pluginFolders(true, { tree: root, project, user: root });
  expect(folders.tree).toBe(join(root, "plugins/.tree"));
  const ofTree = new PluginStore({ plugin: "tasks", ...folders });
  await ofTree.replace("tree", "list", "text", null);
  expect(readFileSync(join(root, "plugins/.tree/tasks/list"), "utf8")).toBe("text");
  const reader = new PluginStore({ plugin: "tasks", ...folders, isTreeReadOnly: true });
  expect((await reader.read("tree", "list"))?.text).toBe("text");
  expect(await codeOf(() => reader.replace("tree", "list", "more", null))).toBe("PERMISSION");
  expect(await codeOf(() => reader.append("tree", "log", {}))).toBe("PERMISSION");
  const elsewhere = new PluginStore({ plugin: "tasks", ...pluginFolders(true, { project, user: root }) });
  expect(await codeOf(() => elsewhere.read("tree", "list"))).toBe("UNAVAILABLE");
});

test("projects that share a data folder do not share the documents of stock plugins", () => {
  const shared = { project: { id: "5eed", dataDir: "/records" }, user: "/home/u/rnix" };
  expect(pluginFolders(true, shared).project).toBe("/records/projects/5eed");
});

test("the first document of a project makes its data folder with a .gitignore", async () => {
  const dataDir = join(temporaryFolder(), ".rnix/data");
  for (const isStock of [true, false]) {
    const folders = pluginFolders(isStock, { project: { id: "5eed", dataDir }, user: dataDir });
    const store = new PluginStore({ plugin: "memory", ...folders });
    await store.replace("project", "NOTES.md", "text", null);
    expect(readFileSync(join(dataDir, ".gitignore"), "utf8")).toBe("*\n");
  }
});

test("a link that a repository has brought is not followed", async () => {
  const dir = temporaryFolder();
  const dataDir = join(dir, ".rnix/data");
  mkdirSync(dataDir, { recursive: true });
  mkdirSync(join(dir, "elsewhere"));
  symlinkSync(join(dir, "elsewhere"), join(dataDir, "memory"));
  const folders = pluginFolders(true, { project: { id: "5eed", dataDir }, user: dir });
  const store = new PluginStore({ plugin: "memory", ...folders });
  expect(await codeOf(() => store.read("project", "NOTES.md"))).toBe("INVALID");
  expect(await codeOf(() => store.replace("project", "NOTES.md", "x", null))).toBe("INVALID");
});
