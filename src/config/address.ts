/** What a model's address may not hold: it is shown and recorded, and a path is put behind it. undefined: nothing. */
export function addressProblem(address: string): string | undefined {
  const url = URL.parse(address);
  if (url === null) return undefined;
  if (url.username + url.password !== "") return "a name and password: the key comes by api_key_env";
  if (url.search + url.hash !== "") return "a query: a key comes by api_key_env, and all else by extra";
  return undefined;
}
