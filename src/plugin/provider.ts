/** What is known of a model driver and its models without a call: key, address, limits and prices. */

/** What Rnix knows of a model driver without calling it. An entry of providers.yaml changes it for one provider. */
export interface DriverFacts {
  /** The variables that hold its key. The first one that is set counts. No tool gets them, and their values are redacted. */
  keyEnvs?: readonly string[];
  /** A run without a key fails at its start. */
  needsKey?: boolean;
  /** The variable of its address, which is a URL. */
  baseUrlEnv?: string;
  /** The address if no other is set. Absent: the driver has its own. */
  baseUrl?: string;
  /** There is no default address: the user has to give one. */
  needsBaseUrl?: boolean;
  /** The origin of the service that it calls if no address is set. The known prices of this service count. */
  service?: string;
  /** Facts of the models at its default address, by the model's name. */
  models?: Readonly<Record<string, DriverModel>>;
  /** Its device answers a `ModelListRequest`, which costs nothing. */
  listsModels?: boolean;
  /** Maximum concurrent requests with one key. */
  concurrency?: number;
  /** It runs a program that must be on the PATH. The program has its own names for models, and its own context window. */
  isProgram?: boolean;
  /** Its program uses its own tools, outside the process's rights. The user has to allow it. */
  unconfined?: boolean;
  /** It plays a recording, which costs nothing. Children of its run use it too, and it has no fallback. */
  plays?: boolean;
}

export interface DriverModel {
  /** Tokens of a request and its answer together. */
  contextWindow?: number;
  /** Tokens of the longest answer. */
  maxOutput?: number;
  price?: ModelPrice;
}

/** Prices in USD per million tokens. */
export interface TokenPrice {
  input: number;
  /** Input that is read from the provider's cache. */
  cached: number;
  /** Input that is written to the provider's cache. Absent: as `input`. */
  cacheWrite?: number;
  output: number;
}

export interface ModelPrice extends TokenPrice {
  /** The prices of a request with more than `above` input tokens: they apply to all its tokens. */
  long?: TokenPrice & { above: number };
}

/** A model that a service offers, with what the service says of it. */
export interface ListedModel extends DriverModel {
  id: string;
}

/** What is written to a model device to ask for the service's models, if the driver `listsModels`. */
export interface ModelListRequest {
  op: "models";
}

/** The answer to it, as one JSON document. */
export interface ModelList {
  models: ListedModel[];
}
