import packageJson from "../package.json";

/** Replaced by build.ts; in source mode the name does not exist. */
declare const RNIX_COMMIT: string | undefined;

export const version: string = packageJson.version;
/** The git commit the binary was built from; "source" when it runs from a checkout. */
export const commit: string = typeof RNIX_COMMIT === "string" ? RNIX_COMMIT : "source";
