"""The release: of the package, or of the project that is only on the path."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]


def told(driver):
    """The output of ``--version`` in a Python with the command's packages alone."""
    code = (
        "import sys; from importlib import metadata\n"
        "def absent(name): raise metadata.PackageNotFoundError(name)\n"
        f"metadata.version = absent; sys.path.insert(0, {str(driver)!r})\n"
        "from amoeba.core.release import RELEASE; print(RELEASE)"
    )
    paths = [path for path in sys.path if path and Path(path) != ROOT / "driver"]
    environment = {"PYTHONPATH": ":".join([str(driver), *paths])}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def test_a_tree_that_is_not_installed_has_its_project_s_release():
    assert told(ROOT / "driver") == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_a_driver_without_a_project_has_none(tmp_path):
    place = tmp_path / "a" / "driver"
    place.mkdir(parents=True)
    (place / "amoeba").symlink_to(ROOT / "driver" / "amoeba")
    (tmp_path / "a" / "pyproject.toml").write_text('[project]\nname = "another"\nversion = "9"\n')
    assert told(place) == "0.0.0"
