/** Of every file in a data folder. Apart from the schemas, which a run that only writes has no use for. */
export const SCHEMA_VERSION = 1;
