"""Where the project's packages lie."""

from pathlib import Path

__all__ = ["PACKAGES", "ROOT"]

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "hw": ROOT / "hw" / "amoeba_hw",
    "model": ROOT / "model" / "amoeba_model",
    "driver": ROOT / "driver" / "amoeba",
    "sim": ROOT / "sim" / "amoeba_sim",
    "tools": ROOT / "tools" / "amoeba_tools",
}
"""Folders of packages, by the folder of the project that holds each; the folder in tests/ has the same name."""
