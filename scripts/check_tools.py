"""Names what this machine lacks to build and run Amoeba, with the Debian package that has it."""

import shutil
import sys

TOOLS = {"g++": "g++", "make": "make", "perl": "perl"}


def missing() -> list[str]:
    """List what is missing, a line each; empty if everything is there."""
    lines = []
    if sys.version_info < (3, 11):  # noqa: UP036  this script is what tells people whose Python is too old
        lines.append(f"Python 3.11 or newer (this is {sys.version.split()[0]}): apt-get install python3")
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        lines.append("Python's venv module: apt-get install python3-venv")
    lines += [
        f"{tool}: apt-get install {package}" for tool, package in TOOLS.items() if shutil.which(tool) is None
    ]
    return lines


if __name__ == "__main__":
    if lines := missing():
        sys.exit("Amoeba needs, and this machine lacks:\n  " + "\n  ".join(lines))
