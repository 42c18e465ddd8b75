"""``tollgate completion``: the script that lets a shell complete commands and options."""

import os
import shlex
import shutil
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Final

import click

from addon.settings.value_types import SHIPPED_CATALOG

# Each asks the program itself, in the protocol of click's shell completion. The function also serves `run.sh`, but only
# the one of this program: other projects have a run.sh, too.
_BASH: Final = """\
_tollgate_completion() {
    local IFS=$'\\n' answer program=%(program)s
    COMPREPLY=()
    if [[ $1 == */* && ! ${1/#\\~/$HOME} -ef $program ]]; then
        compopt -o default 2>/dev/null
        return
    fi
    for answer in $(env COMP_WORDS="tollgate ${COMP_WORDS[*]:1}" COMP_CWORD="$COMP_CWORD" \\
        _TOLLGATE_COMPLETE=bash_complete "$program" 2>/dev/null); do
        case $answer in
            plain,*) COMPREPLY+=("${answer#*,}") ;;
            dir,*) compopt -o dirnames 2>/dev/null ;;
            file,*) compopt -o default 2>/dev/null ;;
        esac
    done
}
complete -o nosort -F _tollgate_completion tollgate run.sh 2>/dev/null ||
    complete -F _tollgate_completion tollgate run.sh
"""
_ZSH: Final = """\
_tollgate_completion() {
    local -a answers names described
    local kind value text program=%(program)s
    if [[ $words[1] == */* && ! ${~words[1]} -ef $program ]]; then
        _default
        return
    fi
    answers=("${(@f)$(env COMP_WORDS="tollgate ${words[2,-1]}" COMP_CWORD=$((CURRENT-1)) \\
        _TOLLGATE_COMPLETE=zsh_complete "$program" 2>/dev/null)}")
    for kind value text in "${answers[@]}"; do
        case $kind in
            plain) if [[ $text == _ ]]; then names+=("$value"); else described+=("${value//:/\\\\:}:$text"); fi ;;
            dir) _path_files -/ ;;
            file) _path_files -f ;;
        esac
    done
    if (( $#described )); then _describe -V tollgate described -U; fi
    if (( $#names )); then compadd -U -V tollgate -a names; fi
}
compdef _tollgate_completion tollgate run.sh
"""
_FISH: Final = """\
function __tollgate_is_program
    set --local word (commandline --tokens-expanded --current-process 2>/dev/null; or commandline -op)[1]
    string match --quiet '*/*' -- $word; or return 0
    test (realpath -- $word 2>/dev/null) = (realpath -- %(program)s)
end
function __tollgate_completion
    for answer in (env _TOLLGATE_COMPLETE=fish_complete COMP_WORDS=(commandline -cp | string collect) \\
        COMP_CWORD=(commandline -t | string collect) %(program)s 2>/dev/null)
        set --local parts (string split --max 1 ',' -- $answer)
        switch $parts[1]
            case dir
                __fish_complete_directories $parts[2]
            case file
                __fish_complete_path $parts[2]
            case plain
                echo $parts[2]
        end
    end
end
complete --no-files --command tollgate --arguments '(__tollgate_completion)'
complete --no-files --command run.sh --condition __tollgate_is_program --arguments '(__tollgate_completion)'
"""
_SCRIPTS: Final = MappingProxyType({"bash": _BASH, "zsh": _ZSH, "fish": _FISH})


@click.command()
@click.argument("shell", type=click.Choice(list(_SCRIPTS)))
def completion(shell: str) -> None:
    """Print the script that completes commands and options in SHELL: bash, zsh or fish."""
    program = str(_find_program())
    quoted = _quote_for_fish(program) if shell == "fish" else shlex.quote(program)
    click.echo(_SCRIPTS[shell] % {"program": quoted}, nl=False)


def _find_program() -> Path:
    """Return the program that runs these commands: ``run.sh`` of a checkout, ``tollgate`` of an image."""
    for name in ("run.sh", "tollgate"):
        if os.access(program := SHIPPED_CATALOG.with_name(name), os.X_OK):
            return program
    return Path(shutil.which("tollgate") or sys.argv[0]).absolute()


def _quote_for_fish(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
