"""An MPI program on two hosts, which the software NIC joins by bare UET."""

import sys
from pathlib import Path

from tests.support.two_hosts import on_two_hosts

PROGRAM = Path(__file__).with_name("mpi_program.py")
RANKS = """
cat > $1/rank <<'EOF'
#!/bin/sh
export AMOEBA_HOST=10.9.0.$((PMI_RANK + 1))
[ $PMI_RANK = 0 ] || exec nsenter -t $OTHER -n -- "$@"
exec "$@"
EOF
chmod +x $1/rank
"$2" -n 2 $1/rank "$3" "$4"
"""


def test_mpich_does_everything_on_two_hosts(tmp_path, debian_mpich_environment, debian_mpiexec):
    arguments = tmp_path, debian_mpiexec, sys.executable, PROGRAM
    found = on_two_hosts(RANKS, *arguments, environment=debian_mpich_environment)
    output = found.stdout + found.stderr
    assert output.count("every part is right") == 1, output
    assert output.count("counted by") == 2, output
