# The step of action.yml: runs the agent and exits with its exit code.
set -uo pipefail

rnix=$INPUT_RNIX
if [ -z "$rnix" ]; then
  source=$(cd "$GITHUB_ACTION_PATH/../../.." && pwd)
  (cd "$source" && npm run --silent build >&2) || exit 69
  rnix=$source/rnix
fi

receipt=$(mktemp "${RUNNER_TEMP:-${TMPDIR:-/tmp}}/rnix-receipt-XXXXXX")
record=$(mkdir -p "$INPUT_RECORD" && cd "$INPUT_RECORD" && pwd) || exit 64

args=(--no-daemon --no-stdin --output json --timeout "$INPUT_TIMEOUT" --record "$record")
[ -z "$INPUT_AGENT" ] || args+=(--agent "$INPUT_AGENT")
[ -z "$INPUT_PROVIDER" ] || args+=(--provider "$INPUT_PROVIDER")
[ -z "$INPUT_MODEL" ] || args+=(--model "$INPUT_MODEL")
[ -z "$INPUT_MAX_COST" ] || args+=(--max-cost "$INPUT_MAX_COST")
[ -z "$INPUT_BASE" ] || args+=(--base "$INPUT_BASE")
if [ -n "$INPUT_UNTRUSTED" ]; then
  untrusted=$(mktemp -d "${RUNNER_TEMP:-${TMPDIR:-/tmp}}/rnix-text-XXXXXX")/pull-request
  printf '%s\n' "$INPUT_UNTRUSTED" > "$untrusted"
  args+=(--untrusted "$untrusted")
fi
while IFS= read -r file; do
  [ -z "$file" ] || args+=(--untrusted "$file")
done <<< "$INPUT_UNTRUSTED_FILES"
while IFS= read -r check; do
  [ -z "$check" ] || args+=(--check "$check")
done <<< "$INPUT_CHECK"
while IFS= read -r arg; do
  [ -z "$arg" ] || args+=("$arg")
done <<< "$INPUT_ARGS"

printf 'receipt=%s\nrecord=%s\n' "$receipt" "$record" >> "$GITHUB_OUTPUT"
exec "$rnix" spawn "${args[@]}" -- "$INPUT_INTENT" > "$receipt"
