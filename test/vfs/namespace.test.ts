import { describe, expect, test } from "bun:test";
import { type Device, SyscallError } from "../../src/plugin/index.ts";
import { type DeviceEntry, DeviceRegistry, type Layer, Namespace } from "../../src/vfs/namespace.ts";

function entry(
  path: string,
  match: "exact" | "prefix" = "exact",
  layer: Layer = "stock",
  tools: string[] = [],
): DeviceEntry {
  const device: Device = {
    match,
    tools: tools.map((name) => ({ name, description: "", input: { type: "object" } })),
    factory: () => {
      throw new SyscallError("INTERNAL", "not opened here");
    },
  };
  return { path, device, plugin: `p-${layer}`, layer, needs: [] };
}

function registry(...entries: DeviceEntry[]): DeviceRegistry {
  const made = new DeviceRegistry();
  for (const one of entries) made.register(one);
  return made;
}

describe("a device table", () => {
  const table = registry(
    entry("/dev/fs", "prefix"),
    entry("/dev/fs/special", "prefix"),
    entry("/dev/shell"),
    entry("/proc", "prefix"),
  );

  test.each([
    ["/dev/fs", "/dev/fs", ""],
    ["/dev/fs/src/main.go", "/dev/fs", "/src/main.go"],
    ["/dev/fs/", "/dev/fs", "/"],
    ["/dev/fs/special", "/dev/fs/special", ""],
    ["/dev/fs/special/x", "/dev/fs/special", "/x"],
    ["/dev/fs/specialx", "/dev/fs", "/specialx"],
    ["/dev/shell", "/dev/shell", ""],
    ["/proc/1/status", "/proc", "/1/status"],
  ])("%s is served by %s with the sub-path %j", (path, device, subpath) => {
    const match = table.match(path);
    expect({ device: match?.entry.path, subpath: match?.subpath }).toEqual({ device, subpath });
  });

  test.each(["/dev/fsx", "/dev/fsx/y", "/dev/shell/sub", "/dev", "/", "", "/deep/dev/fs"])(
    "%j belongs to no device",
    (path) => {
      expect(table.match(path)).toBeUndefined();
    },
  );

  test("a path is in a table once", () => {
    expect(() => table.register(entry("/dev/shell"))).toThrow(/taken by plugin p-stock/);
  });

  test.each(["dev/x", "/dev/x/", "/dev/../x", "/dev/./x", "//x", "/dev/x y", ""])(
    "%j is refused as a device path",
    (path) => {
      expect(() => new DeviceRegistry().register(entry(path))).toThrow(/expected an absolute path/);
    },
  );

  test("an unregistered path is free again", () => {
    const own = registry(entry("/mnt/a"));
    expect(own.unregister("/mnt/a")).toBe(true);
    expect(own.match("/mnt/a")).toBeUndefined();
    own.register(entry("/mnt/a"));
  });
});

describe("a namespace", () => {
  test("the longest match wins over all layers, the nearer layer between equals", () => {
    const near = registry(entry("/dev/fs", "prefix", "project"), entry("/dev/llm", "prefix", "project"));
    const far = registry(entry("/dev/fs", "prefix", "stock"), entry("/dev/llm/openai", "exact", "stock"));
    const namespace = new Namespace([near, far]);
    expect(namespace.resolve("/dev/fs/a").entry.layer).toBe("project");
    expect(namespace.resolve("/dev/llm/openai").entry.layer).toBe("stock");
    expect(namespace.resolve("/dev/llm/other").entry.layer).toBe("project");
  });

  test("what one project brings, another does not see", () => {
    const stock = registry(entry("/dev/fs", "prefix"));
    const one = new Namespace([registry(entry("/dev/jira", "exact", "project")), stock]);
    const other = new Namespace([registry(), stock]);
    expect(one.resolve("/dev/jira").entry.layer).toBe("project");
    expect(() => other.resolve("/dev/jira")).toThrow(SyscallError);
  });

  test("a nearer tool hides a farther one of the same name, and the order is stable", () => {
    const namespace = new Namespace([
      registry(entry("/dev/mine", "exact", "project", ["Read"])),
      registry(
        entry("/dev/fs", "prefix", "stock", ["Write", "Read"]),
        entry("/dev/shell", "exact", "stock", ["Bash"]),
      ),
    ]);
    expect(namespace.tools().map(({ tool, entry: from }) => `${tool.name} ${from.path}`)).toEqual([
      "Bash /dev/shell",
      "Read /dev/mine",
      "Write /dev/fs",
    ]);
  });

  test("a device hidden by a nearer one brings no tools", () => {
    const namespace = new Namespace([
      registry(entry("/dev/fs", "prefix", "project", ["MyRead"])),
      registry(entry("/dev/fs", "prefix", "stock", ["Read"])),
    ]);
    expect(namespace.tools().map(({ tool }) => tool.name)).toEqual(["MyRead"]);
  });

  test("nothing found is NOT_FOUND and names the path", () => {
    const missing = () => new Namespace([registry()]).resolve("/dev/none");
    expect(missing).toThrow(/\/dev\/none/);
  });
});
