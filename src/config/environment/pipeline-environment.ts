/** Keeps the secrets of a pipeline from the programs of a run: only variables of a list reach them (`--base`). */

import { secretsIn } from "../../plugin/index.ts";

const words = (...lines: string[]): string[] => lines.flatMap((line) => line.split(" "));

/** Variables of the machine, the user's session and the network. */
const MACHINE = words(
  "PATH HOME USER LOGNAME SHELL HOSTNAME PWD OLDPWD _ SHLVL TZ LANG LANGUAGE TMPDIR TEMP TMP TERM COLORTERM COLUMNS",
  "LINES NO_COLOR FORCE_COLOR CLICOLOR EDITOR PAGER DISPLAY UMASK DEBUG VERBOSE DEBIAN_FRONTEND OLLAMA_HOST",
  "GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_SSL_CAINFO",
  "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy",
  "SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE REQUESTS_CA_BUNDLE",
);
/** Variables of languages and their tools that PREFIXES and ENDS do not cover. */
const TOOLCHAINS = words(
  "CC CXX CPP LD AR CFLAGS CXXFLAGS CPPFLAGS LDFLAGS MAKEFLAGS MAKELEVEL RUSTFLAGS RUST_BACKTRACE RUST_LOG",
  "GOFLAGS GOOS GOARCH GOPATH GOROOT GOCACHE GOMODCACHE GOPROXY GOPRIVATE GONOPROXY GONOSUMDB GOSUMDB GOTOOLCHAIN",
  "VIRTUAL_ENV JAVA_OPTS JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS RAILS_ENV RACK_ENV MIX_ENV",
  "BUNDLE_GEMFILE BUNDLE_WITHOUT BUNDLE_JOBS BUNDLE_DEPLOYMENT BUNDLE_FROZEN",
);
/** What CI services say about the job. Not GITHUB_ENV, GITHUB_PATH and the like: what is written there rules later steps. */
const SERVICES = [
  ...words(
    "CI CONTINUOUS_INTEGRATION GITLAB_CI CIRCLECI TRAVIS BUILDKITE TF_BUILD JENKINS_URL TEAMCITY_VERSION DRONE",
    "FORGEJO_ACTIONS GITEA_ACTIONS ImageOS ImageVersion TRACEPARENT",
  ),
  ...words(
    "ACTIONS ACTOR ACTOR_ID TRIGGERING_ACTOR API_URL GRAPHQL_URL SERVER_URL BASE_REF HEAD_REF REF REF_NAME REF_TYPE",
    "REF_PROTECTED SHA EVENT_NAME EVENT_PATH JOB REPOSITORY REPOSITORY_ID REPOSITORY_OWNER REPOSITORY_OWNER_ID",
    "RETENTION_DAYS RUN_ID RUN_NUMBER RUN_ATTEMPT WORKFLOW WORKFLOW_REF WORKFLOW_SHA WORKSPACE ACTION",
  ).map((name) => `GITHUB_${name}`),
];
const LISTED: ReadonlySet<string> = new Set([...MACHINE, ...TOOLCHAINS, ...SERVICES]);
const PREFIXES =
  /^PYTHON|^(?:LC|XDG|RNIX|RUNNER|CI|NODE|NPM_CONFIG|npm_config|npm_package|npm_lifecycle|NVM|PNPM|YARN|COREPACK|DENO|VITE|TS_NODE|PIP|PIPX|UV|POETRY|PYENV|CONDA|MAMBA|TOX|PYTEST|GEM|RUBY|RBENV|BUNDLER|JAVA|JDK|MAVEN|M2|GRADLE|SBT|KOTLIN|ANDROID|CARGO|RUSTUP|CGO|GO|GOROOT|DOTNET|NUGET|COMPOSER|PHP|PERL|PERL5|SWIFT|FLUTTER|CMAKE|CTEST|CCACHE|SCCACHE|MISE|ASDF|HOMEBREW|PLAYWRIGHT|CYPRESS|PUPPETEER|CHROME|MSBUILD|VCPKG)_/;
/** Endings of variables that name a folder, a version or the address of a model's server. */
const ENDS =
  /_(?:HOME|ROOT|DIR|PATH|PREFIX|VERSION|BASE_URL|CA_BUNDLE|CA_CERTS|CA_CERTS_FILE|CERT_FILE|CERT_DIR)$/;
/** Rules above say nothing about these. */
const STRICT =
  /^(?:GITHUB|ACTIONS|AWS|AZURE|GOOGLE|GCP|GCLOUD|CLOUDSDK|VAULT|KUBE|DOCKER|SSH|GPG|GIT|GH|GITLAB)_/;
const SECRET =
  /TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|PRIVATE|AUTH(?!OR)|JWT|SIGNING|ENCRYPT|(?:^|_)(?:KEY|PWD|PASS|PAT|PIN)(?:_|$)|APIKEY|NETRC|USERCONFIG/i;
/** An address with a user and a password. */
const PASSWORD_IN_URL = /:\/\/[^/\s@]*@/;
/** A shorter value may be a word. */
const MIN_SECRET = 16;
/** What a key can consist of. A word of a path has no "/", and is mostly lower case. */
const WORD = /[A-Za-z0-9+_=-]{12,}/g;
/**
 * Keys of Heroku and npm are UUIDs, those of Twilio, Datadog and GitHub had 32 or 40 hexadecimal digits. Values of these
 * forms are harmless only where the name says so: commits, checksums, ids.
 */
const HEX_KEY =
  /(?<![\w/.@-]|sha\d+:)(?:(?=\d*[a-f])(?=[a-f]*\d)[\da-f]{32,}|[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})(?![\w/.-])/gi;
const HEX_NAME =
  /(?:^|_)(?:SHA\d*|COMMIT|HASH|DIGEST|CHECKSUM|REVISION|TRACE|SPAN|UUID|GUID|GITHEAD)(?:_|$)|_(?:ID|REF|HEAD)$/i;
/** Random letters and digits change their kind at 62 % of the places, words in camel case at 30 %; short ones vary more. */
const RANDOM_CHANGES = 0.38;
const RANDOM_CHANGES_SHORT = 0.5;

interface PipelineEnvironment {
  /** What programs get. */
  env: Record<string, string>;
  /** The names of the others, those that look like secrets first. */
  kept: string[];
  /** Values to redact wherever they appear. */
  secrets: string[];
}

/** Divides an environment. `passed`: names that the user lets through. */
export function pipelineEnvironment(
  env: Readonly<Record<string, string>>,
  passed: Iterable<string> = [],
): PipelineEnvironment {
  const chosen = new Set(passed);
  const entries = Object.entries(env);
  const secrets = entries.flatMap(([name, value]) =>
    secretsOf(name, value).map((secret) => [name, secret] as const),
  );
  const hidden = secrets.filter(([name]) => !chosen.has(name));
  const holds = (value: string): boolean => hidden.some(([, secret]) => value.includes(secret));
  const reaches = ([name, value]: [string, string]): boolean =>
    chosen.has(name) || (isListed(name) && !PASSWORD_IN_URL.test(value) && !holds(value));
  const kept = entries.filter((entry) => !reaches(entry)).map(([name]) => name);
  const bySecret = (name: string): number => (SECRET.test(name) ? 0 : 1);
  return {
    env: Object.fromEntries(entries.filter(reaches)),
    kept: kept.toSorted((a, b) => bySecret(a) - bySecret(b) || (a < b ? -1 : 1)),
    secrets: [...new Set(secrets.flatMap(([, value]) => [value, gitHeader(value)]))],
  };
}

function isListed(name: string): boolean {
  if (LISTED.has(name)) return true;
  return !SECRET.test(name) && !STRICT.test(name) && (PREFIXES.test(name) || ENDS.test(name));
}

/** The secrets in a variable: the whole value by its name, or parts that look like keys, whatever the name is. */
function secretsOf(name: string, value: string): string[] {
  const found = [
    ...secretsIn(value),
    ...(LISTED.has(name) ? [] : (value.match(WORD) ?? [])).filter((word) => isKey(word, value)),
    ...(LISTED.has(name) || HEX_NAME.test(name) ? [] : (value.match(HEX_KEY) ?? [])),
  ];
  return SECRET.test(name) && !LISTED.has(name) && isSecretValue(value) ? [value, ...found] : found;
}

/** A temporary folder has a short random name: in a path only a longer word is one. */
function isKey(word: string, value: string): boolean {
  return (word.length > MIN_SECRET || !value.startsWith("/")) && isRandomWord(word);
}

/** A key is random: its letters and digits change more often than in a name such as "FileCache2". */
function isRandomWord(word: string): boolean {
  const pairs = word.match(/[A-Za-z0-9](?=[A-Za-z0-9])/g)?.length ?? 0;
  const changes = word.match(/[a-z](?=[A-Z0-9])|[A-Z](?=[a-z0-9])|[0-9](?=[A-Za-z])/g)?.length ?? 0;
  const isMixed = /[a-z]/.test(word) && /[A-Z]/.test(word) && /[0-9]/.test(word);
  return isMixed && changes / pairs > (pairs < MIN_SECRET ? RANDOM_CHANGES_SHORT : RANDOM_CHANGES);
}

function isSecretValue(value: string): boolean {
  return value.length >= MIN_SECRET && !/\s/.test(value) && !/^[./~]/.test(value);
}

/** As actions/checkout writes a token into a repository's configuration. */
function gitHeader(token: string): string {
  return Buffer.from(`x-access-token:${token}`).toString("base64");
}

const NAMED = 40;

/** For the user, so that a program that misses a variable is understood. Empty if nothing was kept. */
export function keptNotice(kept: readonly string[]): string[] {
  if (kept.length === 0) return [];
  const more = kept.length > NAMED ? ` and ${kept.length - NAMED} more` : "";
  return [
    `kept from programs, because of --base: ${kept.slice(0, NAMED).join(", ")}${more}. --env NAME lets a variable through.`,
  ];
}
