from amoeba_tools import conformance

with conformance.open_pair(["model", "model"]) as pair:
    assert isinstance(pair, conformance.Pair)
    checks: list[conformance.Check] = conformance.select("fi_rma")[:3]
    report: conformance.Report = conformance.run(pair, checks)
    print(len(report.outcomes), report.failures)
# Prints:
# 3 ()
