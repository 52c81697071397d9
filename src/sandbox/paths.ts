/** The paths that a sandbox protects, hides or offers. */

/** Of a project: what runs later with the user's rights, or decides the rights of a later run. */
export const PROTECTED = namesIn(`
  .rnix agents skills plugins .mcp.json .claude .agents .codex .gemini .cursor .vscode .idea .envrc .husky
  .github/workflows .github/actions .gitlab-ci.yml .circleci .travis.yml Jenkinsfile azure-pipelines.yml
  bitbucket-pipelines.yml .buildkite .ci
`);

/** Of a git folder: what makes git run programs, or look for them elsewhere. */
export const PROTECTED_IN_GIT = namesIn("hooks config config.worktree commondir gitdir");

/** Of a home: programs and settings of builds, without keys. */
export const NEEDED_IN_HOME = namesIn(`
  .asdf .bun/bin .cargo/bin .cargo/config.toml .cargo/env .config/git/config .config/git/ignore
  .config/mise .config/nvm .deno/bin .fnm .gitconfig .gitignore .local/bin .local/lib .local/share/fnm
  .local/share/mise .local/share/uv .npm-global .nvm .pyenv .rbenv .rustup .sdkman .volta
`);

/** Hidden also where the home itself is the project. */
export const SECRETS_IN_HOME = namesIn(`
  .ssh .gnupg .aws .azure .bash_history .cargo/credentials.toml .claude .claude.json .codex
  .config/BraveSoftware .config/chromium .config/gcloud .config/gh .config/google-chrome .config/rnix
  .docker .gem/credentials .gemini .git-credentials .kube .local/share/keyrings .local/share/rnix .mozilla
  .netrc .npmrc .password-store .pgpass .pypirc .terraform.d .vault-token .zsh_history
`);

/** Readable for root only. */
export const SYSTEM_SECRETS = namesIn(`
  /etc/gshadow /etc/gshadow- /etc/shadow /etc/shadow- /etc/ssh /etc/ssl/private /etc/sudoers /etc/sudoers.d
  /var/lib/containerd /var/lib/docker /var/spool/cron
`);

function namesIn(text: string): string[] {
  return text.trim().split(/\s+/);
}
