"""Spark on a local cluster of two workers: each executor decodes logs of its own."""

import os
import shutil
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

import bintide

SAMPLES = Path(__file__).parents[2] / "samples"
SCHEMA = "gtid string, commit_time timestamp, operation string, log_name string, worker string"
# Logs to read, and the copies of the sample that they are.
LOGS = 40


@pytest.fixture
def logs(tmp_path) -> list:
    sample = SAMPLES / "types-full-metadata.binlog"
    return [str(shutil.copy(sample, tmp_path / f"binlog.{number:06}")) for number in range(1, LOGS + 1)]


@pytest.fixture
def spark():
    home = Path(pyspark.__file__).parent
    os.environ.setdefault("SPARK_HOME", str(home))
    os.environ["PYSPARK_PYTHON"] = os.sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("bintide")
    for key, value in {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def decode(batches):
    import pyarrow

    import bintide

    for batch in batches:
        for log in batch.column("log").to_pylist():
            for changes in bintide.changes(log):
                chosen = changes.select(["gtid", "commit_time", "operation", "log_name"])
                worker = pyarrow.array([os.environ["SPARK_EXECUTOR_DIRS"]] * chosen.num_rows)
                yield chosen.append_column("worker", worker)


def test_executors_decode_logs(spark, logs):
    names = spark.createDataFrame([(log,) for log in logs], "log string").repartition(len(logs))
    changes = names.mapInArrow(decode, SCHEMA).cache()
    counted = {row["operation"]: row["count"] for row in changes.groupBy("operation").count().collect()}
    wanted = bintide.stats(logs)["totals"]
    assert counted == {kind: wanted[kind]["rows"] for kind in ("insert", "update", "delete")}
    assert counted["insert"] > 1000
    assert changes.select("log_name").distinct().count() == LOGS
    assert changes.select("worker").distinct().count() == 2, "only one worker has decoded logs"
    first = changes.where("operation = 'delete'").orderBy("log_name", "commit_time").first()
    assert first["log_name"] == "binlog.000001" and first["gtid"]
