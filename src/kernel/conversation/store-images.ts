/** Stores the images of a conversation beside its record. */

import type { ImageRef } from "../../plugin/index.ts";
import type { RunWriter } from "../../store/runs/run-store.ts";
import type { AttachedImage } from "../types.ts";

/** Stores attached images beside the run's record. One after the other, because they are large. */
export async function storeImages(
  record: RunWriter,
  images: readonly AttachedImage[] = [],
): Promise<ImageRef[]> {
  const stored: ImageRef[] = [];
  for (const { media_type, width, height, data } of images) {
    const name = `image.${media_type.slice("image/".length)}`;
    const { file, sha256, bytes } = await record.storeBlob(name, data);
    stored.push({ media_type, file, sha256, bytes, width, height });
  }
  return stored;
}
