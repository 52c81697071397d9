/**
 * The address of the program that reads pages, for a Worker. In the binary, build.ts replaces this module by a generated
 * one: the program's libraries are embedded compressed and without bytecode, because most runs read no page.
 */

export async function pageProgram(): Promise<string> {
  return new URL("./page-worker.ts", import.meta.url).href;
}
