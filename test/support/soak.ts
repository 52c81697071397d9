/** How much a long test does: little in `npm test`, all of it in `npm run test:soak`. */

const IS_SOAK = Boolean(process.env.RNIX_SOAK);

/** `few` in each test run, `many` in the soak. */
export const soak = <T>(few: T, many: T): T => (IS_SOAK ? many : few);
