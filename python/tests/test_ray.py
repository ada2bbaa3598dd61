"""Ray: tasks decode logs."""

import os

import pandas
import pytest
import ray

import bintide

WORKERS = 2
COLUMNS = ["log_name", "log_position", "change_number", "operation"]


@pytest.fixture(scope="module")
def cluster():
    """A cluster on this machine, with two processes for tasks."""
    ray.init(num_cpus=WORKERS, include_dashboard=False, object_store_memory=100 << 20, log_to_driver=False)
    yield
    ray.shutdown()


@ray.remote
def decode(log):
    return os.getpid(), list(bintide.changes(log, columns="numbered"))


def rows(batches) -> list[tuple]:
    """The columns of all changes that identify a change, sorted."""
    frame = pandas.concat(batch.select(COLUMNS).to_pandas() for batch in batches)
    return sorted(frame.itertuples(index=False, name=None))


def test_tasks_decode_logs(cluster, samples):
    logs = sorted(map(str, (samples / "rotation").glob("binlog.0*")))
    parts = [ray.get(task) for task in [decode.remote(log) for log in logs]]
    decoded = rows(batch for _, batches in parts for batch in batches)
    assert len(decoded) > 10
    assert decoded == rows(bintide.changes(logs, columns="numbered"))
    assert os.getpid() not in {process for process, _ in parts}
