"""Jobs on a dask cluster: a LocalCluster with its workers in processes of their own.

Covers ``spread/cluster.py`` and ``spread/worker.py``.
"""

import importlib.util
import socket
import sys
import time

import pytest
from amoeba import Errno, FabricError
from amoeba_tools.spread import Job, open_engine, spread
from amoeba_tools.spread.cluster import Cluster

from tests.tools import spread_jobs
from tests.tools.test_spread import EVERYTHING, numbered

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="clusters need the extra amoeba-nic[cluster]"
)


def open_cluster(workers, threads):
    import distributed  # a second, which collection does without

    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=threads, processes=True, host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
    )  # fmt: skip


@pytest.fixture(scope="module")
def scheduler():
    """The address of a scheduler with two workers of two threads each."""
    with open_cluster(2, 2) as cluster:
        yield cluster.scheduler_address


def test_results_are_in_order_and_told_as_they_come(scheduler):
    told = []
    with open_engine(scheduler=scheduler) as engine:
        assert engine.workers == 4
        endings = spread(spread_jobs.square, numbered(40), engine, told.append)
    assert [ending.result for ending in endings] == [number * number for number in range(40)]
    assert sorted(told, key=lambda ending: ending.index) == endings


def test_a_job_that_dies_is_an_error_of_its_own_and_the_others_go_on(scheduler):
    with open_engine(scheduler=scheduler) as engine:
        endings = spread(spread_jobs.fragile, numbered(9), engine)
        assert [ending.result for ending in endings] == EVERYTHING
        assert endings[3].failure == "its worker was ended by SIGKILL: about to die"
        assert endings[6].failure == "its worker ended with exit status 7"
        assert [it.result for it in spread(spread_jobs.square, numbered(5), engine)] == [0, 1, 4, 9, 16]


def test_threads_of_a_worker_have_processes_of_their_own(scheduler, tmp_path):
    with open_engine(scheduler=scheduler) as engine:
        together = spread(spread_jobs.meet, [Job("a", tmp_path), Job("b", tmp_path)], engine)
        workers = {ending.result for ending in spread(spread_jobs.whose, numbered(40), engine)}
    assert [ending.result for ending in together] == [True, True]
    assert len(workers) <= 4


def test_whoever_is_interrupted_leaves_the_cluster_to_others(scheduler):
    def told(ending):
        raise KeyboardInterrupt

    with open_engine(scheduler=scheduler) as engine:
        with pytest.raises(KeyboardInterrupt):
            spread(spread_jobs.square, numbered(200), engine, told)
        assert [it.result for it in spread(spread_jobs.square, numbered(3), engine)] == [0, 1, 4]


def test_a_job_whose_host_goes_moves_to_another(scheduler, tmp_path):
    with open_engine(scheduler=scheduler) as engine:
        (ending,) = spread(spread_jobs.take_the_host_down_once, [Job("", str(tmp_path / "been"))], engine)
    assert (ending.result, ending.failure) == ("done", "")


def test_a_cluster_without_workers_gives_jobs_up_and_says_so():
    with open_cluster(1, 1) as cluster:
        engine = Cluster(cluster.scheduler_address, patience=1)
        try:
            cluster.scale(0)
            deadline = time.monotonic() + 60
            while cluster.scheduler.workers:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            endings = spread(spread_jobs.square, numbered(30), engine)
        finally:
            engine.close()
    reason = f"the cluster at {cluster.scheduler_address} has had no worker for 1 s"
    assert [ending.failure for ending in endings] == [reason] * 30


def test_a_scheduler_that_goes_is_an_error_of_the_jobs_that_are_left(tmp_path):
    cluster = open_cluster(1, 1)
    engine = Cluster(cluster.scheduler_address, patience=1)
    try:
        endings = spread(spread_jobs.square, numbered(60), engine, lambda ending: cluster.close())
    finally:
        engine.close()
    done = [ending for ending in endings if not ending.failure]
    assert 1 <= len(done) < 60
    assert all(ending.result == ending.index**2 for ending in done)
    assert endings[-1].failure == f"the scheduler at {cluster.scheduler_address} does not answer any more"


def test_a_scheduler_that_is_not_there_is_told_at_once():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(FabricError, match=f"no scheduler at {address}") as caught, open_engine(scheduler=address):
        pass
    assert caught.value.fi_errno == Errno.FI_ECONNREFUSED


def test_what_is_no_address_is_told():
    with pytest.raises(FabricError, match="no scheduler at nowhere: "), open_engine(scheduler="nowhere"):
        pass


def test_a_cluster_and_processes_at_once_are_refused():
    with pytest.raises(FabricError, match="expected no jobs, got 2"), open_engine(2, "tcp://127.0.0.1:1"):
        pass


def test_workers_with_another_release_are_refused(scheduler, monkeypatch):
    monkeypatch.setattr("amoeba_tools.spread.cluster.RELEASE", "another")
    with pytest.raises(FabricError, match="expected Amoeba another on the cluster's workers"):
        open_engine(scheduler=scheduler).__enter__()


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(FabricError, match=r"in a checkout of Amoeba, run pip install '\.\[cluster\]'") as caught:
        open_engine(scheduler="tcp://127.0.0.1:1").__enter__()
    assert caught.value.fi_errno == Errno.FI_ENOSYS
