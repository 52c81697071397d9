/** The version and the commit of this build. */

import packageJson from "../package.json";

/** Replaced by build.ts; in source mode the names do not exist. */
declare const RNIX_VERSION: string | undefined;
declare const RNIX_COMMIT: string | undefined;

/** package.json's, unless the binary was built as another. */
export const version: string = typeof RNIX_VERSION === "string" ? RNIX_VERSION : packageJson.version;
/** The git commit the binary was built from; "source" when it runs from a checkout. */
export const commit: string = typeof RNIX_COMMIT === "string" ? RNIX_COMMIT : "source";
