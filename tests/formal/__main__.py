"""``python -m tests.formal [name ...]``: prove, and print the table of docs/verification.md."""

import sys

from amoeba_sim.formal import ProofError
from rich.console import Console
from rich.progress import track

from tests.formal.catalog import PROOFS


def main(names: list[str]) -> int:
    console = Console()
    unknown = set(names) - {proof.name for proof in PROOFS}
    if unknown:
        console.print(f"no such proof: {', '.join(sorted(unknown))}; there are {', '.join(p.name for p in PROOFS)}")
        return 2
    chosen = [proof for proof in PROOFS if not names or proof.name in names]
    rows, broken = [], []
    for proof in track(chosen, "proving", console=Console(stderr=True)):
        try:
            outcome = proof.run()
        except ProofError as error:
            broken.append(str(error))
            continue
        rows.append((proof, outcome))
    print("| proof | claim | method | seconds |")
    print("|---|---|---|---:|")
    for proof, outcome in rows:
        says = proof.says or "the situations of the proof above occur"
        print(f"| `{proof.name}` | {says} | {_how(proof)} | {outcome.seconds} |")
    for message in broken:
        console.print(message, style="red")
    return 1 if broken else 0


def _how(proof):
    if proof.mode == "prove":
        return f"for all time: induction over {proof.depth} cycles"
    if proof.mode == "combinational":
        return "for all time: no registers"
    if proof.mode == "cover":
        return f"reached within {proof.depth} cycles"
    return f"first {proof.depth} cycles" + (" from any state" if proof.any_power_up else "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
