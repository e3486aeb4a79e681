"""Prints a script by which a shell completes words: `ps-dqn completion bash`.

It knows the commands, the flags of each as its help has them, and the values that a flag may have.
"""

import contextlib
import importlib
import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from absl import flags as absl_flags

from ps_dqn import commands
from ps_dqn.errors import UsageError
from ps_dqn.flags import command_line, preset

# A flag in a program's help: whether it has a negative, its name, its values.
_FLAG = re.compile(r"^  --(?P<negative>\[no\])?(?P<name>\w+)(?: \[(?P<values>[^]]+)\])? \(", re.M)
INSTALL = {
    "bash": 'eval "$(ps-dqn completion bash)"    # in ~/.bashrc',
    "zsh": 'eval "$(ps-dqn completion zsh)"    # in ~/.zshrc, after compinit',
    "fish": "ps-dqn completion fish > ~/.config/fish/completions/ps-dqn.fish",
}


class Flag(NamedTuple):
    """What follows `--`."""

    name: str
    takes_value: bool
    values: Sequence[str]  # those that are known


# Of each command's word.
Flags = Mapping[str, Sequence[Flag]]


def main(argv: Sequence[str]) -> int:
    """Reads the command line and prints the script; returns the exit code."""
    values = command_line.new_flags()
    if command_line.asks_for_help(argv):
        program = "python -m ps_dqn.completion " + "|".join(SCRIPTS)
        summary = "Prints a script by which a shell completes the words of ps-dqn:"
        ways = "\n".join(f"  {way}" for way in INSTALL.values())
        command_line.print_help(values, program, f"{summary}\n\n{ways}", {})
        return 0
    try:
        words = command_line.parse(values, argv, takes_words=True)
        if len(words) != 1 or words[0] not in SCRIPTS:
            said = " ".join(words) or "nothing"
            raise UsageError(f"say which shell, {', '.join(SCRIPTS)}, and not {said}")
    except (absl_flags.Error, UsageError) as error:
        command_line.refuse(error)
    print(SCRIPTS[words[0]](all_flags()), end="")
    return 0


def all_flags() -> Flags:
    """The flags of every command."""
    return {each.word: _flags_of(each) for each in commands.PROGRAMS}


def _flags_of(program: commands.Program) -> list[Flag]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        importlib.import_module(commands.entry(program.module)).main([program.word, "--helpfull"])
    found = []
    for match in _FLAG.finditer(said.getvalue()):
        name, is_switch = match["name"], match["negative"] is not None
        choices = match["values"].split("|") if match["values"] else []
        found.append(Flag(name, not is_switch, preset.all_names() if name == "preset" else choices))
        if is_switch:
            found.append(Flag(f"no{name}", False, []))
    return found


def _words() -> str:
    return " ".join(each.word for each in commands.PROGRAMS)


def _cases(flags: Flags, offer: Callable[[str], str], offer_values: Callable[[str], str]) -> str:
    """The branches of a shell's `case` on a command's word, and a flag where its value is wanted.

    Args:
        flags: of all commands.
        offer: the statement that offers flags.
        offer_values: the statement that offers values.
    """
    lines, places = [], dict[str, list[str]]()
    for word, known in flags.items():
        names = " ".join(f"--{each.name}" + "=" * each.takes_value for each in known)
        lines.append(f"        {word}) {offer(names)} ;;")
        for each in known:
            if each.values:
                places.setdefault(" ".join(each.values), []).append(f"{word}--{each.name}")
    lines += [f"        {'|'.join(at)}) {offer_values(each)} ;;" for each, at in places.items()]
    return "\n".join(lines)


def _bash(flags: Flags) -> str:
    cases = _cases(flags, lambda names: f'offered="{names}"', lambda all_: f'offered="{all_}"')
    return f"""\
_ps_dqn() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
    local flag="" offered="" list=""
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "{_words()}" -- "$current")
        return
    fi
    # Readline cuts words at =.
    if [[ $current == = ]]; then
        flag=$before current=""
    elif [[ $before == = ]]; then
        flag=${{COMP_WORDS[COMP_CWORD-2]}}
    fi
    [[ $flag && $current == *,* ]] && list="${{current%,*}}," current="${{current##*,}}"
    case "${{COMP_WORDS[1]}}$flag" in
{cases}
    esac
    mapfile -t COMPREPLY < <(compgen -P "$list" -W "$offered" -- "$current")
    if [[ ${{COMPREPLY[0]}} == *= ]]; then compopt -o nospace; fi
}}
complete -o default -F _ps_dqn ps-dqn
"""


def _zsh(flags: Flags) -> str:
    def offer(names: str) -> str:
        return f"compadd -S '' -- {names}; _files"

    def offer_values(all_: str) -> str:
        return f"compset -P '*,'; compadd -- {all_}"

    return f"""\
#compdef ps-dqn
_ps_dqn() {{
    local flag=""
    if (( CURRENT == 2 )); then
        compadd -- {_words()}
        return
    fi
    if [[ $PREFIX == --*=* ]]; then
        flag=${{PREFIX%%=*}}
        compset -P '*='
    fi
    case "${{words[2]}}$flag" in
{_cases(flags, offer, offer_values)}
        *) _files ;;
    esac
}}
compdef _ps_dqn ps-dqn
"""


def _fish(flags: Flags) -> str:
    lines = [
        f'complete -c ps-dqn -f -n __fish_use_subcommand -a {each.word} -d "{each.summary}"'
        for each in commands.PROGRAMS
    ]
    for word, known in flags.items():
        seen = f"complete -c ps-dqn -n '__fish_seen_subcommand_from {word}'"
        for each in known:
            offered = " ".join(each.values)
            if each.name == "preset":  # may be several
                offered = rf'(__fish_complete_list , "printf %s\n {offered}")'
            values = f" -x -a '{offered}'" if each.values else ""
            required = " -r" if each.takes_value and not values else ""
            lines.append(f"{seen} -l {each.name}{required}{values}")
    return "\n".join(lines) + "\n"


SCRIPTS = {"bash": _bash, "zsh": _zsh, "fish": _fish}


if __name__ == "__main__":
    command_line.run_main(main)
