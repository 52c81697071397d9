import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { realClock } from "../../../src/lib/clock.ts";
import { readAttachments, readImage } from "../../../src/server/plan/attachments.ts";
import { gif, jpeg, png, webp } from "../../support/images.ts";

const dir = mkdtempSync(join(tmpdir(), "rnix-attachments-"));
afterAll(() => rmSync(dir, { recursive: true }));

function file(name: string, content: string | Uint8Array): string {
  const path = join(dir, name);
  writeFileSync(path, content);
  return path;
}

function refused(paths: string[]): Promise<unknown> {
  return readAttachments(realClock, paths).then(
    () => "taken",
    (error: unknown) => error,
  );
}

describe("an image", () => {
  test.each([
    ["image/png", png(640, 480)],
    ["image/jpeg", jpeg(640, 480)],
    ["image/gif", gif(640, 480)],
    ["image/webp", webp("VP8 ", 640, 480)],
    ["image/webp", webp("VP8L", 640, 480)],
    ["image/webp", webp("VP8X", 640, 480)],
  ] as const)("is known by its content, whatever its name: %s", async (media_type, data) => {
    const path = file("notes.txt", data);
    expect(await readAttachments(realClock, [path])).toEqual({
      folders: [],
      images: [{ media_type, width: 640, height: 480, data: Buffer.from(data) }],
      text: `<image path=${JSON.stringify(path)} />`,
    });
  });

  test.each([
    ["PNG", png(9, 9)],
    ["JPEG", jpeg(9, 9)],
    ["GIF", gif(9, 9)],
    ["WebP", webp("VP8L", 9, 9)],
    ["extended WebP", webp("VP8X", 9, 9)],
  ])("that is truncated anywhere is refused or has its size: %s", (_, whole) => {
    for (let length = 0; length < whole.length; length++) {
      const image = readImage(whole.subarray(0, length));
      if (image !== null) expect(image).toMatchObject({ width: 9, height: 9 });
    }
  });

  test("that is truncated before its size is refused", async () => {
    const path = file("cut.png", png(9, 9).subarray(0, 18));
    expect(await refused([path])).toMatchObject({
      code: "INVALID",
      message: expect.stringContaining("cut off"),
    });
  });

  test("that is too large is refused, and the error names the limit", async () => {
    const large = new Uint8Array(4 * 1024 * 1024);
    large.set(png(9, 9));
    expect(await refused([file("large.png", large)])).toMatchObject({
      code: "INVALID",
      message: expect.stringMatching(/4194304 bytes.*3932160/),
    });
  });

  test("too many images are refused", async () => {
    const path = file("small.png", png(9, 9));
    const many = (count: number) => Array.from({ length: count }, () => path);
    expect((await readAttachments(realClock, many(20))).images).toHaveLength(20);
    expect(await refused(many(21))).toMatchObject({
      code: "INVALID",
      message: expect.stringContaining("20 images"),
    });
    const middling = new Uint8Array(3_900_000);
    middling.set(png(9, 9));
    const five = Array.from({ length: 5 }, () => file("middling.png", middling));
    expect(await refused(five)).toMatchObject({ code: "INVALID", message: expect.stringContaining("bytes") });
  });

  test("is attached in the given order, between texts and folders", async () => {
    mkdirSync(join(dir, "folder"), { recursive: true });
    symlinkSync(join(dir, "b.png"), join(dir, "linked"));
    const paths = [
      file("a.txt", "first"),
      file("b.png", png(3, 3)),
      join(dir, "folder"),
      file("c.txt", "last"),
      join(dir, "linked"),
    ];
    const { text, images, folders } = await readAttachments(realClock, paths, "from stdin");
    expect(text?.split("\n\n").map((part) => part.split("\n")[0])).toEqual([
      "from stdin",
      `<file path="${dir}/a.txt">`,
      `<image path="${dir}/b.png" />`,
      `<file path="${dir}/c.txt">`,
      `<image path="${dir}/linked" />`,
    ]);
    expect(images).toHaveLength(2);
    expect(folders).toEqual([join(dir, "folder")]);
  });
});

describe("another file", () => {
  test.each([
    ["of zeros", new Uint8Array(64)],
    ["of bytes that are no UTF-8", new Uint8Array([0x61, 0xff, 0xfe, 0x62])],
    ["that is nearly a PNG", Buffer.from("\x89PNG\r\n", "latin1")],
  ])("%s is neither text nor an image", async (_, bytes) => {
    expect(await refused([file("binary", bytes)])).toMatchObject({
      code: "INVALID",
      message: expect.stringContaining("neither a text file nor an image"),
    });
  });

  test("that is empty is an empty text", async () => {
    expect((await readAttachments(realClock, [file("empty", "")])).text).toContain("<file path=");
  });
});
