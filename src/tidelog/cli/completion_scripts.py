"""The scripts that shells load: each hands the line to the command that is typed on it, and offers the answer."""

from __future__ import annotations

BASH = """\
_tidelog() {
    local program=${1/#\\~/$HOME} line how=
    type -P -- "$program" >/dev/null || program=tidelog
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ -z $how ]]; then how=$line; else COMPREPLY+=("$line"); fi
    done < <("$program" completion --for bash "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
    case $how in
        files) compopt -o default ;;
        directories) compopt -o dirnames ;;
        nospace) compopt -o nospace ;;
    esac
}
complete -F _tidelog tidelog
"""

ZSH = """\
#compdef tidelog
_tidelog() {
    local program=${~${(Q)words[1]}} how
    local -a before answer
    whence -p -- $program >/dev/null || program=tidelog
    (( CURRENT > 2 )) && before=("${(@Q)words[2,CURRENT-1]}")
    answer=("${(@f)$($program completion --for zsh -- "${(@)before}" "${(Q)PREFIX}" 2>/dev/null)}")
    how=$answer[1]
    shift answer
    case $how in
        files) [[ $PREFIX == -*=* ]] && compset -P '*='; _files ;;
        directories) [[ $PREFIX == -*=* ]] && compset -P '*='; _files -/ ;;
        nospace) (( $#answer )) && _describe tidelog answer -S '' ;;
        values) (( $#answer )) && _describe tidelog answer ;;
    esac
}
if [[ $funcstack[1] == _tidelog ]]; then
    _tidelog "$@"
else
    compdef _tidelog tidelog
fi
"""

FISH = """\
function __tidelog_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    set -e words[1]
    type -q -- $program; or set program tidelog
    set -l answer ($program completion --for fish -- $words "$current" 2>/dev/null)
    set -l how $answer[1]
    set -e answer[1]
    switch "$how"
        case files
            __fish_complete_path "$current"
        case directories
            __fish_complete_directories "$current"
        case '*'
            test (count $answer) -gt 0; and printf '%s\\n' $answer
    end
end
complete -c tidelog -f -a '(__tidelog_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
