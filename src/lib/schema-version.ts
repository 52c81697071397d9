/** The schema version of every file in a data folder. Kept apart from the schemas, which a writer does not load. */

export const SCHEMA_VERSION = 1;
