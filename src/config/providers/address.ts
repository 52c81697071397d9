/** Checks the address of a model. */

/** The part that a model's address must not have; undefined for a valid one. Addresses are shown, recorded and extended. */
export function addressProblem(address: string): string | undefined {
  const url = URL.parse(address);
  if (url === null) return undefined;
  if (url.username + url.password !== "") return "a name and password: the key comes by api_key_env";
  if (url.search + url.hash !== "") return "a query: a key comes by api_key_env, and all else by extra";
  return undefined;
}
