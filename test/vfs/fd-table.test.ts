import { expect, test } from "bun:test";
import { O_RDWR, type VFSFile } from "../../src/plugin/index.ts";
import { FdTable } from "../../src/vfs/namespace.ts";

const file: VFSFile = {
  write: async () => {},
  read: async () => "",
  close: async () => {},
  stat: async () => ({ name: "x", size: 0, isDevice: true, devicePath: "/dev/x" }),
};
const open = { file, path: "/dev/x", device: "/dev/x", plugin: "x", flags: O_RDWR } as const;

test("numbers start at 3, only grow and are never used again", () => {
  const table = new FdTable();
  expect([table.add(open), table.add(open)]).toEqual([3, 4]);
  table.take(4);
  expect(table.add(open)).toBe(5);
  expect(table.list().map(({ fd }) => fd)).toEqual([3, 5]);
});

test("two tables count on their own", () => {
  expect(new FdTable().add(open)).toBe(new FdTable().add(open));
});

test("a descriptor is taken once", () => {
  const table = new FdTable();
  const fd = table.add(open);
  expect(table.take(fd).path).toBe("/dev/x");
  expect(() => table.take(fd)).toThrow(/not open/);
  expect(() => table.get(fd)).toThrow(/not open/);
  expect(table.size).toBe(0);
});
