import amoeba

with amoeba.open_cluster(["model", "model"]) as fabric:
    assert isinstance(fabric, amoeba.Fabric)
    domain: amoeba.Domain = fabric.domain(1)
    print(len(fabric.nics), domain.query_atomic(amoeba.Datatype.FI_UINT64, amoeba.Op.FI_SUM).size)
# Prints:
# 2 8
