import { describe, expect, test } from "bun:test";
import { keptNotice, pipelineEnvironment } from "../../src/config/environment/pipeline-environment.ts";

const TOKEN = "ghs_0123456789abcdefghij";
const some = (...names: string[]): Record<string, string> =>
  Object.fromEntries(names.map((name) => [name, `value of ${name}`]));

describe("the environment of programs in a pipeline that does not trust its checkout", () => {
  const usual = [
    ...[
      "PATH",
      "HOME",
      "LANG",
      "LC_ALL",
      "TERM",
      "TMPDIR",
      "CI",
      "TZ",
      "USER",
      "XDG_CACHE_HOME",
      "HTTPS_PROXY",
    ],
    ...[
      "GITHUB_SHA",
      "TRACEPARENT",
      "GITHUB_REF",
      "GITHUB_HEAD_REF",
      "GITHUB_WORKSPACE",
      "GITHUB_REPOSITORY",
      "GITHUB_EVENT_NAME",
    ],
    ...[
      "GITHUB_RUN_ID",
      "RUNNER_OS",
      "RUNNER_TEMP",
      "RUNNER_TOOL_CACHE",
      "CI_COMMIT_SHA",
      "CI_PROJECT_DIR",
      "GITLAB_CI",
    ],
    ...["NODE_ENV", "NODE_OPTIONS", "NVM_DIR", "JAVA_HOME_17_X64", "GOROOT_1_22_X64", "GOPATH", "CARGO_HOME"],
    ...[
      "PYTHONUNBUFFERED",
      "NIX_SSL_CERT_FILE",
      "NODE_EXTRA_CA_CERTS",
      "HTTPLIB2_CA_CERTS",
      "VIRTUAL_ENV",
      "ANDROID_SDK_ROOT",
      "PIPX_BIN_DIR",
      "GIT_AUTHOR_NAME",
      "RNIX_SOCKET",
    ],
  ];
  const secret = [
    ...["GITHUB_TOKEN", "GH_TOKEN", "ACTIONS_RUNTIME_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL", "CI_JOB_TOKEN"],
    ...[
      "CI_REGISTRY_PASSWORD",
      "CI_DEPLOY_PASSWORD",
      "CI_JOB_JWT",
      "NPM_TOKEN",
      "NODE_AUTH_TOKEN",
      "CARGO_REGISTRY_TOKEN",
    ],
    ...[
      "AWS_ACCESS_KEY_ID",
      "AWS_SESSION_TOKEN",
      "GOOGLE_APPLICATION_CREDENTIALS",
      "KUBECONFIG",
      "SSH_AUTH_SOCK",
    ],
    ...[
      "DATABASE_URL",
      "STRIPE_KEY",
      "COMPOSER_AUTH",
      "DENO_AUTH_TOKENS",
      "BUNDLE_GEMS__EXAMPLE__COM",
      "DOCKER_HOST",
    ],
    ...[
      "NPM_CONFIG__AUTH",
      "npm_config_//registry.npmjs.org/:_authToken",
      "POETRY_HTTP_BASIC_X_PASSWORD",
      "ANYTHING",
    ],
    // What a program writes there rules later steps of the job.
    ...["GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"],
  ];

  test.each(usual)("%s reaches them", (name) => {
    expect(pipelineEnvironment(some(name))).toMatchObject({ env: some(name), kept: [] });
  });

  test.each(secret)("%s does not, unless the user lets it through", (name) => {
    expect(pipelineEnvironment(some(name))).toMatchObject({ env: {}, kept: [name] });
    expect(pipelineEnvironment(some(name), [name])).toMatchObject({ env: some(name), kept: [] });
  });

  test("an address with a password and a copy of a token do not either, whatever their name", () => {
    const env = {
      GITHUB_TOKEN: TOKEN,
      CI_REPOSITORY_URL: "https://gitlab-ci-token:abc@gitlab.example/x.git",
      HTTPS_PROXY: "http://user:pass@proxy:3128",
      XDG_NOTE: `bearer ${TOKEN}`,
      NODE_ENV: "test",
    };
    const { env: left, kept } = pipelineEnvironment(env);
    expect(left).toEqual({ NODE_ENV: "test" });
    expect(kept).toEqual(["GITHUB_TOKEN", "CI_REPOSITORY_URL", "HTTPS_PROXY", "XDG_NOTE"]);
  });

  test("a token is redacted, also as git's header and where it is let through; words and paths are not", () => {
    const header = Buffer.from(`x-access-token:${TOKEN}`).toString("base64");
    const env = { A_TOKEN: TOKEN, B_TOKEN: "short", C_KEY: "/home/runner/.ssh/id_ed25519" };
    expect(pipelineEnvironment(env, ["A_TOKEN"]).secrets).toEqual([TOKEN, header]);
  });
});

describe("a value that looks like a key reaches no program and is redacted, whatever its variable is named", () => {
  const word = "k8Qw2Zr7Tn5Lx9Vb3Hd6Js1Pf4Mc0Yg8Ua2Ei7Ro5Wq9";
  const KEYS: Record<string, string> = {
    GitHub: `ghp_${word.slice(0, 36)}`,
    "GitHub, fine-grained": `github_pat_${word.slice(0, 22)}_${word}${word}`.slice(0, 93),
    GitLab: `glpat-${word.slice(0, 20)}`,
    Slack: `xoxb-123456789012-${word.slice(0, 24)}`,
    AWS: "AKIAQ3EGRTWXZ4NB7KLM",
    "AWS, secret": word.slice(0, 40),
    Stripe: `sk_live_${word.slice(0, 24)}`,
    OpenAI: `sk-proj-${word}`,
    Anthropic: `sk-ant-api03-${word}`,
    Google: `AIza${word.slice(0, 35)}`,
    npm: `npm_${word.slice(0, 36)}`,
    "a JSON Web Token": `eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.${word}`,
    "a private key": `-----BEGIN PRIVATE KEY-----\n${word}\n-----END PRIVATE KEY-----`,
  };
  test.each(Object.entries(KEYS))("%s", (_what, key) => {
    for (const name of ["CI_X", "NODE_X", "APP_DIR", "XDG_X", "PATH"]) {
      if (name === "PATH" && key === KEYS["AWS, secret"]) continue;
      const { env, kept, secrets } = pipelineEnvironment({ [name]: `--with ${key}` });
      expect([env, kept]).toEqual([{}, [name]]);
      expect(secrets.some((secret) => key.includes(secret) && secret.length > 15)).toBe(true);
    }
  });

  test("hexadecimal digits", () => {
    const hex = "8f2a4c6e0b1d3f5a7c9e8f2a4c6e0b1d";
    const commit = "1b2c3d4e5f60718293a4b5c6d7e8f9011b2c3d4e5f60718293a4b5c6d7e8f901";
    const env = { CI_X: hex, NODE_X: hex + hex, APP_DIR: hex.toUpperCase(), CI_COMMIT_SHA: commit };
    const { secrets, ...found } = pipelineEnvironment(env);
    expect(found).toEqual({
      env: { CI_COMMIT_SHA: commit },
      kept: ["APP_DIR", "CI_X", "NODE_X"],
    });
    for (const key of [hex, hex + hex, env.APP_DIR]) expect(secrets).toContain(key);
  });

  test.each([
    ["Heroku, npm of old", "0f8fad5b-d9cb-469f-a165-70867728950e"],
    ["Twilio, Datadog", "8f2a4c6e0b1d3f5a7c9e8f2a4c6e0b1d"],
    ["GitHub of old", "8f2a4c6e0b1d3f5a7c9e8f2a4c6e0b1d3f5a7c9e"],
    ["a short one", "k8Qw2Zr7Tn5L"],
  ])("%s, unless its variable is named as one for commits, checksums and ids", (_of, key) => {
    for (const value of [key, `--key=${key}`, `https://x.example/?key=${key}&a=b`])
      for (const name of ["CI_X", "NODE_SHARED", "APP_DIR", "GO_HEADER"]) {
        const { env, kept, secrets } = pipelineEnvironment({ [name]: value });
        expect([env, kept]).toEqual([{}, [name]]);
        expect(secrets.some((secret) => secret.endsWith(key))).toBe(true);
      }
    if (key.length < 32) return;
    for (const name of [
      "CI_COMMIT_SHA",
      "CI_COMMIT_BEFORE_SHA",
      "GITHUB_SHA",
      "RUNNER_TRACKING_ID",
      "npm_package_gitHead",
    ])
      expect(pipelineEnvironment({ [name]: key })).toEqual({ env: { [name]: key }, kept: [], secrets: [] });
  });

  test("a password in an address is redacted", () => {
    const { secrets } = pipelineEnvironment({ CI_DB: "postgres://app:tr0ub4dor@db.acme.io/shop" });
    expect(secrets).toContain("tr0ub4dor");
  });

  test.each([
    "feature/JIRA-1234-AddThingToCloudFormationStack2",
    "/builds/8f2a4c6e0b1d3f5a7c9e8f2a4c6e0b1d3f5a7c9e/x",
    "/cache/0f8fad5b-d9cb-469f-a165-70867728950e",
    "node@sha256:1b2c3d4e5f60718293a4b5c6d7e8f9011b2c3d4e5f60718293a4b5c6d7e8f901",
    "ubuntu-24.04 20241124.1.0 linux-x64 v20.11.1 MacOSX14Sonoma",
    "/tmp/rnix-e2e-JwXh7C/home:/tmp/tmp.k8Qw2Zr7Tn5L",
    "/opt/hostedtoolcache/Java_Temurin-Hotspot_jdk/17.0.12-7/x64",
    "github_aeb1c3d2-1111-4f5e-8a77-0123456789ab",
    "-Dorg.gradle.jvmargs=-Xmx2048m -XX:MaxMetaspaceSize=512m",
  ])("%s is none", (value) => {
    expect(pipelineEnvironment({ CI_X: value })).toEqual({ env: { CI_X: value }, kept: [], secrets: [] });
  });
});

test("the note names at most 40 variables, those that look like secrets first", () => {
  const env = some(...Array.from({ length: 50 }, (_, i) => `A${i}`), "Z_TOKEN");
  const [note = ""] = keptNotice(pipelineEnvironment(env).kept);
  expect(note).toStartWith("kept from programs, because of --base: Z_TOKEN, A0, A1,");
  expect(note).toContain("and 11 more. --env NAME");
  expect(keptNotice([])).toEqual([]);
});
