/**
 * The completion scripts of bash, zsh and fish. They ask the program that is being completed, so that they offer what it
 * can do, and the runs, agents and models of the project. What it answers is data: no shell expands it.
 */

/** Bash splits words at "=" and ":", and completes files where nothing is offered, unless that is switched off. */
export const bash = `# bash completion for rnix. Written by: rnix completions bash
_rnix() {
  local line word files="" prefix="" current="\${COMP_WORDS[COMP_CWORD]}"
  if [ "$current" = "=" ]; then current=""
  elif [ "$current" = ":" ]; then prefix="\${COMP_WORDS[COMP_CWORD-1]}:" current=""
  elif [ "\${COMP_WORDS[COMP_CWORD-1]}" = ":" ]; then prefix="\${COMP_WORDS[COMP_CWORD-2]}:"
  fi
  COMPREPLY=()
  while IFS= read -r line; do
    if [ "$line" = ":files" ]; then files=1; continue; fi
    word="\${line%%$'\\t'*}"
    word="\${word#"$prefix"}"
    if [[ "$word" == "$current"* ]]; then COMPREPLY+=("$(printf '%q' "$word")"); fi
  done < <(command "\${COMP_WORDS[0]}" __complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null </dev/null)
  [ -z "$files" ] && compopt +o default +o bashdefault 2>/dev/null
  return 0
}
complete -o bashdefault -o default -F _rnix rnix
`;

export const zsh = `#compdef rnix
# zsh completion for rnix. Written by: rnix completions zsh
_rnix() {
  local line files
  local -a offered
  while IFS= read -r line; do
    if [[ "$line" == ":files" ]]; then files=1; continue; fi
    offered+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done < <(command "\${(Q)words[1]}" __complete "\${(@Q)words[2,CURRENT]}" 2>/dev/null </dev/null)
  (( $#offered )) && _describe -V 'rnix' offered
  [[ -n "$files" ]] && _files
}
# Found in fpath this file is the first call of the function; sourced it only registers it.
if [ "$funcstack[1]" = "_rnix" ]; then _rnix "$@"; else compdef _rnix rnix; fi
`;

export const fish = `# fish completion for rnix. Written by: rnix completions fish
function __rnix_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  for line in (command $words[1] __complete $words[2..-1] "$current" 2>/dev/null </dev/null)
    if test "$line" = ":files"
      __fish_complete_path "$current"
    else
      echo $line
    end
  end
end
complete -c rnix -f -k -a '(__rnix_complete)'
`;
