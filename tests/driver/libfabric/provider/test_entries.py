"""Every function of every table, called with objects and arguments that nobody expects: statuses, and no crash.

Covers ``libfabric/provider/tables.py``.
"""

import re
import subprocess

import pytest
from amoeba.libfabric.provider.tables import TABLES

PLACES = {
    "fi_ops": "ep->fid.ops", "fi_ops_fabric": "fabric->ops", "fi_ops_domain": "domain->ops",
    "fi_ops_mr": "domain->mr",
    "fi_ops_av": "av->ops", "fi_ops_ep": "ep->ops", "fi_ops_cm": "ep->cm", "fi_ops_msg": "ep->msg",
    "fi_ops_rma": "ep->rma", "fi_ops_tagged": "ep->tagged", "fi_ops_atomic": "ep->atomic",
    "fi_ops_collective": "ep->collective", "fi_ops_cq": "cq->ops", "fi_ops_eq": "eq->ops", "fi_ops_cntr": "cntr->ops",
    "fi_ops_wait": "waits->ops", "fi_ops_poll": "polled->ops",
}  # fmt: skip
"""Where a program finds each table."""
STATUSES = ("int", "ssize_t")


def argument(parameter, pointers):
    """The substitutes of a parameter, and the number of pointers among them."""
    kind = parameter.rpartition(" ")[0]
    if "*" in parameter:
        return f"P({pointers})", pointers + 1
    if parameter.endswith(" timeout"):
        return "0", pointers  # nobody waits for ever
    return f"({kind})NUMBER", pointers


def written(table, entry):
    """A function that calls the entry, and its row."""
    pointers, arguments = 0, ["object"]
    for parameter in entry.parameters.split(", ")[1:]:
        made, pointers = argument(parameter, pointers)
        arguments.append(made)
    name = f"call_{table.name}_{entry.name}"
    returns = "STATUS" if entry.returns in STATUSES else "OTHER"
    call = f"((const struct {table.name} *)table)->{entry.name}({', '.join(arguments)})"
    return (
        f"static long {name}(const void *table, void *object, int variant) {{ return (long){call}; }}",
        f'{{ "{table.name}", "{entry.name}", {returns}, {pointers}, {int(bool(entry.call))}, {name} }},',
    )


def header():
    """``entries.h``: what ``entries.c`` walks through."""
    pieces = [written(table, entry) for table in TABLES for entry in table.entries]
    return "\n".join([
        *(function for function, _ in pieces),
        "static const struct entry entries[] = {",
        *(row for _, row in pieces),
        "};",
        "static const void *table_of(const char *name) {",
        *(f'    if (!strcmp(name, "{name}")) return {place};' for name, place in PLACES.items()),
        "    return NULL;",
        "}",
    ])  # fmt: skip


@pytest.fixture(scope="module")
def program(compiled, tmp_path_factory):
    folder = tmp_path_factory.mktemp("entries")
    (folder / "entries.h").write_text(header())
    return compiled("entries", f"-I{folder}")


def test_every_function_of_every_table_bears_anything(program, provider_environment):
    done = subprocess.run(
        [str(program)], env=provider_environment, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout[-200:]}\n{done.stderr[-4000:]}"
    assert "Error" not in done.stderr, done.stderr[-4000:]  # one that nobody expected
    called = set(re.findall(r"^(fi_ops\w*\.\w+) on object", done.stdout, re.M))
    assert called == {f"{table.name}.{entry.name}" for table in TABLES for entry in table.entries}
    assert int(done.stdout.split()[-2]) > 10_000
