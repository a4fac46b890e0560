"""The command ``bitwuzla`` as ``yosys-smtbmc`` starts it: the solver of PyPI's package reads SMT-LIB from stdin.

:mod:`amoeba_sim.formal` runs this file; it imports nothing of the project.
"""

import sys

__all__ = ["main"]


def main(arguments: list[str]) -> None:
    """Answer ``--help``, by which ``yosys-smtbmc`` tells versions apart, or solve until the input ends."""
    if "--help" in arguments:
        print("--lang: the option of version 0.3 and later")
        return
    from bitwuzla import Options, Parser, TermManager

    Parser(TermManager(), Options()).parse("<stdin>", False, True)


if __name__ == "__main__":
    main(sys.argv[1:])
