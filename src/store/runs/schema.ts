/**
 * The schemas of the files in a run's folder, `.rnix/data/steps/<uuid>/`. Every file has a version `v`; a newer version
 * is rejected. Unknown keys are ignored, so that a later version may add keys.
 */

export * from "./inbox-schema.ts";
export { Usage } from "./message.ts";
export * from "./process-schema.ts";
export * from "./step-schema.ts";
