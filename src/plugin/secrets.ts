/** Finds keys, tokens and passwords of known formats. */

/** Names the kind of the first secret; null when there is none. Examples and placeholders are none. */
export function findSecret(text: string): string | null {
  for (const format of formats())
    for (const match of text.matchAll(format.pattern)) if (isSecret(match, format)) return format.name;
  return null;
}

/** Replaces each secret by its kind in brackets. */
export function redactSecrets(text: string): string {
  return formats().reduce(
    (left, format) =>
      [...left.matchAll(format.pattern)].reduceRight(
        (now, match) =>
          isSecret(match, format)
            ? `${now.slice(0, match.index)}[${format.name}]${now.slice(match.index + match[0].length)}`
            : now,
        left,
      ),
    text,
  );
}

/** Whatever has the form of a secret in the value of a variable, also where a text would be an example. */
export function secretsIn(value: string): string[] {
  return formats().flatMap(({ pattern, inContext, isReal = () => true }) =>
    [...value.matchAll(pattern)]
      .filter((match) => !inContext || isReal(match))
      .map((match) => match.groups?.secret ?? match[0]),
  );
}

function isSecret(match: RegExpMatchArray, { inContext, isReal = () => true }: Format): boolean {
  return (inContext === true || !isPlaceholder(match[0])) && isReal(match);
}

interface Format {
  name: string;
  pattern: RegExp;
  /** Its group `secret` is the secret, and only `isReal` tells it from ordinary text. */
  inContext?: true;
  /** Whether it can be one that works, and is no example. */
  isReal?: (match: RegExpMatchArray) => boolean;
}

const TOKEN_START = "(?<![A-Za-z0-9_-])";

function token(name: string, source: string, isReal?: Format["isReal"]): Format {
  return { name, pattern: new RegExp(`${TOKEN_START}(?:${source})`, "g"), isReal };
}

const isRandomMatch = (match: RegExpMatchArray): boolean => isRandom(match[0].replace(/^[a-z]+[-_]/i, ""), 3);

/** Made for the first text: every command loads this file, and few search for secrets. */
function formats(): readonly Format[] {
  known ??= makeFormats();
  return known;
}

let known: readonly Format[] | undefined;

const makeFormats = (): readonly Format[] => [
  {
    name: "a private key",
    // The armour line alone is documentation.
    pattern:
      /-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----[\s\\nr"'+]*(?:[A-Za-z-]+: [^\n]*\s+)*[A-Za-z0-9+/=\s\\]{40,}/g,
    isReal: ([all]) => isRandom(all.replace(/^-----[^-]*-----/, "").replace(/[\s\\]/g, ""), 3.5),
  },
  { name: "a PuTTY key", pattern: /PuTTY-User-Key-File-\d: [\s\S]{1,400}Private-Lines: \d/g },
  token("an age key", "AGE-SECRET-KEY-1[0-9A-Z]{50,}"),
  token("an AWS access key", "(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
  token("a GitHub token", "gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9]{20,}_[A-Za-z0-9]{40,}"),
  token("a GitLab token", "gl(?:pat|ptt|dt|rt|soat|cbt|ft|imt|agent|oas)-[A-Za-z0-9_-]{20,}", isRandomMatch),
  token("a Slack token", "xox[abeoprs]-[A-Za-z0-9-]{20,}|xapp-\\d-[A-Za-z0-9-]{20,}", isRandomMatch),
  {
    name: "the address of a webhook",
    pattern:
      /https:\/\/(?:hooks\.slack\.com\/(?:services|workflows)\/T[A-Z0-9]{6,}\/[A-Z0-9]{6,}\/[A-Za-z0-9]{16,}|(?:ptb\.|canary\.)?discord(?:app)?\.com\/api\/webhooks\/\d{15,}\/[\w-]{40,})/g,
  },
  token("a Stripe key", "(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/]{24,}", isRandomMatch),
  token(
    "an API key of a model provider",
    "sk-(?:ant|or|proj|svcacct|admin|lf)-[A-Za-z0-9_-]{20,}",
    isRandomMatch,
  ),
  token("an API key of a model provider", "sk-[A-Za-z0-9]{32,}(?![A-Za-z0-9-])", isRandomMatch),
  token("an API key of a model provider", "(?:gsk_|xai-|pplx-|r8_|fw_|csk-)[A-Za-z0-9]{32,}", isRandomMatch),
  token("a Hugging Face token", "hf_[A-Za-z]{30,}", isRandomMatch),
  token("a Google key", "AIza[0-9A-Za-z_-]{35}|ya29\\.[\\w-]{20,}|GOCSPX-[\\w-]{24,}", isRandomMatch),
  token("an npm token", "npm_[A-Za-z0-9]{36}", isRandomMatch),
  token("a PyPI token", "pypi-AgE[\\w-]{50,}"),
  token("a RubyGems token", "rubygems_[0-9a-f]{48}"),
  token("a Docker token", "dckr_(?:pat|oat)_[\\w-]{20,}", isRandomMatch),
  token("a DigitalOcean token", "do[opr]_v1_[a-f0-9]{64}"),
  token("a Databricks token", "dapi[a-f0-9]{32}"),
  token("a Vault token", "hv[sbr]\\.[\\w-]{24,}", isRandomMatch),
  token("a Terraform token", "[A-Za-z0-9]{14}\\.atlasv1\\.[\\w-]{60,}"),
  token("a Shopify token", "shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
  token("a SendGrid key", "SG\\.[\\w-]{22}\\.[\\w-]{43}"),
  token("a Mailgun key", "key-[0-9a-f]{32}"),
  token("a Twilio key", "SK[0-9a-f]{32}(?![0-9a-f])"),
  token("a Telegram token", "\\d{8,10}:AA[\\w-]{33}(?![\\w-])"),
  token("a Discord token", "[MNO][A-Za-z\\d_-]{23,27}\\.[\\w-]{6}\\.[\\w-]{27,38}(?![\\w-])", isRandomMatch),
  token("a Notion token", "(?:ntn_|secret_)[A-Za-z0-9]{40,}", isRandomMatch),
  token("an Atlassian token", "ATATT3[\\w=-]{60,}|ATCTT3[\\w=-]{60,}"),
  token("a Linear key", "lin_(?:api|oauth)_[A-Za-z0-9]{32,}", isRandomMatch),
  token("a Grafana token", "glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}|glc_[A-Za-z0-9+/=]{40,}"),
  token("a New Relic key", "NRAK-[A-Z0-9]{27}|NRJS-[a-f0-9]{19}"),
  token("a Sentry token", "sntrys_[A-Za-z0-9+/=_]{40,}|sntryu_[a-f0-9]{64}"),
  token("a Supabase token", "sbp_[a-f0-9]{40}"),
  token("a PlanetScale token", "pscale_(?:tkn|pw|oauth)_[\\w.-]{32,}"),
  token("a Tailscale key", "tskey-[a-z]+-[A-Za-z0-9]{10,}-[A-Za-z0-9]{20,}"),
  token("a Postman key", "PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
  token("a Doppler token", "dp\\.(?:pt|st|ct|sa|scim|audit)\\.[A-Za-z0-9_.]{40,}"),
  token("a Square token", "EAAA[\\w-]{60}|sq0(?:atp|csp)-[\\w-]{22,43}"),
  token("a Mapbox token", "sk\\.eyJ[\\w-]{40,}\\.[\\w-]{20,}"),
  {
    name: "an Azure storage key",
    pattern: /(?:AccountKey|SharedAccessKey)=[A-Za-z0-9+/]{40,}={0,2}/g,
  },
  {
    name: "a JSON Web Token",
    pattern: /(?<![A-Za-z0-9_-])eyJ[\w-]{8,}\.(eyJ[\w-]{8,})\.[\w-]{20,}/g,
    isReal: ([, claims = ""]) => isClaims(claims),
  },
  {
    name: "an authorization header",
    pattern:
      /\bauthorization["']?\s*[:=]\s*["']?(?:bearer|basic|token)\s+(?<secret>[A-Za-z0-9+/_.~-]{16,}=*)/gi,
    inContext: true,
    isReal: (match) => isRandom(match[1] ?? "", 3.5) && !isPlaceholder(match[0]) && !isOfExample(match),
  },
  {
    name: "an address with a password",
    pattern:
      /\b[a-z][a-z0-9+.-]{1,20}:\/\/([^\s/:@'"`<>]{0,80}):(?<secret>[^\s/@'"`<>]{4,120})@[^\s'"`<>?#]/gi,
    inContext: true,
    isReal: ([, user = "", password = ""]) => password !== user && isPassword(password),
  },
  {
    name: "an address with a password",
    pattern:
      /:\/\/[^\s'"`<>]{1,300}[?&;](?:password|passwd|pwd|passphrase)=(?<secret>[^\s&;#'"`<>]{4,120})/gi,
    inContext: true,
    isReal: ([, password = ""]) => isPassword(password),
  },
  {
    name: "the value of a variable for secrets",
    pattern:
      /\b[A-Z0-9_]{0,60}(?:SECRET|TOKEN|PASSWORD|PASSWD|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY)(?:_(?:KEY|VALUE|BASE|ID))?["']?\s{0,3}[:=]\s{0,3}["']?(?<secret>[A-Za-z0-9+/_-]{20,200}={0,2})(?![\w./({[-])/gi,
    inContext: true,
    isReal: (match) => {
      const [all, value = ""] = match;
      if (isPlaceholder(all)) return false;
      const isMixed = /[a-z]/.test(value) && /[A-Z]/.test(value) && /\d.*\d/.test(value);
      return isMixed && isRandom(value, 3.9) && !isOfExample(match);
    },
  },
];

/** Words of examples, and values that a program fills in. */
const PLACEHOLDER =
  /example|sample|placeholder|your[-_]|dummy|fake|redacted|changeme|x{5,}|\*{3,}|\.{3,}|<[^>]*>|\$\{?\w|0{8,}/i;

function isPlaceholder(text: string): boolean {
  return PLACEHOLDER.test(text);
}

/** Shannon's entropy per character, in bits. Words have less than random letters. */
function isRandom(text: string, bits: number): boolean {
  if (text.length === 0) return false;
  const counts = new Map<string, number>();
  for (const char of text) counts.set(char, (counts.get(char) ?? 0) + 1);
  let entropy = 0;
  for (const count of counts.values()) entropy -= (count / text.length) * Math.log2(count / text.length);
  return entropy >= bits && !/^[a-z]+(?:[-_][a-z]+)*$/.test(text);
}

/** Whether these are the claims of a real token, not those of an example in documentation. */
function isClaims(claims: string): boolean {
  if (claims.length % 4 === 1) return false;
  const text = atob(claims.replaceAll("-", "+").replaceAll("_", "/"));
  return (
    /"(?:exp|iat|sub|iss|aud|jti|nbf|role|scope)"/.test(text) && !/1234567890|John Doe|example/i.test(text)
  );
}

/** In the requests and answers of a specification. */
function isOfExample({ index = 0, input = "" }: RegExpMatchArray): boolean {
  return /\bexample\.(?:com|org|net)\b|"example"/.test(input.slice(Math.max(0, index - 400), index + 400));
}

/** Whether the text may be a password, not a placeholder as documentation writes it. */
function isPassword(text: string): boolean {
  const isWord = /^[a-z_-]*(?:pass|pw|secret|token|key|admin|root|guest|test|user|demo)[a-z_-]*$/i.test(text);
  return !isWord && !isPlaceholder(text) && !/^[$%{[]/.test(text);
}
