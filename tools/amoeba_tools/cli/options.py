"""Groups of commands: their errors, and the format of options in ``--help``.

A flag takes no value; numbers and files have short names.
"""

from typing import Any

from typer.core import TyperGroup

from amoeba_tools.cli.errors import readable_errors

__all__ = ["Group"]

_SHOWN = {
    "<bool>": "",
    "<int>": "N",
    "<int range>": "N",
    "<float>": "X",
    "<float range>": "X",
    "<path>": "FILE",
    "<str>": "NAME",
    "<list[str]>": "NAME",
}
"""Shown instead of the name of a Python type, for options without a metavar."""


class Group(TyperGroup):
    """Group of commands with such options. A failure of any command is one line, and exit status 1."""

    def main(self, *args: Any, **options: Any) -> Any:
        with readable_errors():
            return super().main(*args, **options)

    def get_params(self, ctx: Any) -> list[Any]:
        return _named(super().get_params(ctx), ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None and not isinstance(command, Group):
            _named(command.get_params(ctx), ctx)
        return command


def _named(params: list[Any], ctx: Any) -> list[Any]:
    for param in params:
        if param.param_type_name == "option" and param.metavar is None:
            param.metavar = _SHOWN.get(param.display_type(ctx))
    return params
