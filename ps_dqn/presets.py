"""Lists the presets, or shows what some stand for: `python -m ps_dqn.presets rainbow,lunarlander`.

What it shows is a flagfile.
"""

from collections.abc import Sequence

from absl import flags as absl_flags

from ps_dqn.config import Config
from ps_dqn.flags import command_line, naming, preset
from ps_dqn.run import directory


def main(argv: Sequence[str]) -> int:
    """Reads the command line and prints; returns the exit code."""
    values = command_line.new_flags()
    if command_line.asks_for_help(argv):
        command_line.print_help(
            values,
            "python -m ps_dqn.presets [NAME,…]",
            "Lists the presets, or shows the flags that some stand for together.",
            {},
        )
        return 0
    try:
        words = command_line.parse(values, argv, takes_words=True)
        names = preset.complete(words, Config().environment.env_id)
    except absl_flags.Error as error:
        command_line.refuse(error)
    if not names:
        command_line.show(_list())
        return 0
    command_line.show("\n".join([directory.BEGAN_WITH + ",".join(names), *preset.words(names, [])]))
    return 0


def _list() -> str:
    kinds: dict[str, list[str]] = {"Algorithms": [], "Problems": [], "Both": []}
    for name in preset.all_names():
        is_of = "Problems" if preset.is_problem(name) else "Algorithms"
        kinds["Both" if name in preset.WHOLE else is_of].append(name)
    width = max(map(len, preset.all_names()))
    lines = []
    for title, names in kinds.items():
        lines += [title, *(f"  {name:{width}}  {preset.summary(name)}" for name in names), ""]
    train, this = naming.program_named("train"), naming.this_program("python -m ps_dqn.presets")
    lines += [
        f"{train} --preset=rainbow,lunarlander takes an algorithm and a problem; an algorithm "
        f"alone is for CartPole.",
        f"{this} rainbow,lunarlander shows what they say.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    command_line.run_main(main)
