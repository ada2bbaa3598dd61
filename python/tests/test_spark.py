"""Apache Spark: executors decode logs, and Spark reads change tables."""

import os
import shutil
import sys
from pathlib import Path

import pyarrow
import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

import bintide

WORKERS = 2


@pytest.fixture(scope="module")
def spark():
    """A session with a local cluster of two workers, each with an executor in a process of its own."""
    home = Path(pyspark.__file__).parent
    os.environ["SPARK_HOME"] = str(home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master(f"local-cluster[{WORKERS},1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "1")
        .getOrCreate()
    )
    yield session
    session.stop()
    shutil.rmtree(home / "work", ignore_errors=True)


def without_dictionaries(kind: pyarrow.DataType) -> pyarrow.DataType:
    """The same type with texts in place of dictionaries, which Spark does not read."""
    if pyarrow.types.is_dictionary(kind):
        return kind.value_type
    if pyarrow.types.is_struct(kind):
        return pyarrow.struct([field.with_type(without_dictionaries(field.type)) for field in kind])
    return kind


def table_and_schema(logs) -> tuple:
    """The table with the most changes that Spark's types can hold, and the schema of its changes for Spark."""
    counts, schemas = {}, {}
    for batch in bintide.changes(logs, columns="numbered"):
        metadata = batch.schema.metadata
        table = f"{metadata[b'mysql.database'].decode()}.{metadata[b'mysql.table'].decode()}"
        if not any(kind in str(batch.schema) for kind in ("time64", "decimal256", "uint")):
            counts[table] = counts.get(table, 0) + batch.num_rows
            schemas.setdefault(table, batch.schema)
    table = max(counts, key=counts.get)
    fields = [field.with_type(without_dictionaries(field.type)) for field in schemas[table]]
    return table, pyarrow.schema(fields)


def test_executors_decode_logs(spark, samples):
    logs = sorted(map(str, (samples / "rotation").glob("binlog.0*")))
    table, schema = table_and_schema(logs)

    def decode(batches):
        for batch in batches:
            for log in batch.column("log").to_pylist():
                for changes in bintide.changes(log, tables=table, columns="numbered"):
                    yield changes.cast(schema)

    paths = spark.createDataFrame([(log,) for log in logs], "log string").repartition(len(logs), "log")
    columns = ["log_name", "log_position", "change_number", "operation", "thread_id"]
    decoded = paths.mapInArrow(decode, from_arrow_schema(schema)).select(columns)
    expected = []
    for batch in bintide.changes(logs, tables=table, columns="numbered"):
        chosen = batch.select(columns)
        expected += [tuple(row.values()) for row in chosen.to_pylist()]
    assert len(expected) > 10
    assert sorted(map(tuple, decoded.collect())) == sorted(expected)


def test_every_worker_takes_part(spark):
    def process(batches):
        for batch in batches:
            # Python's workers are child processes of their executor's daemon.
            yield pyarrow.RecordBatch.from_pydict({"process": [str(os.getppid())] * batch.num_rows})

    rows = spark.createDataFrame([(str(number),) for number in range(64)], "process string").repartition(64)
    assert len({row[0] for row in rows.mapInArrow(process, "process string").collect()}) == WORKERS


def test_exported_changes(spark, samples, command, tmp_path):
    logs = samples / "rotation"
    table, _ = table_and_schema([logs])
    command("export", "--to", tmp_path / "changes", "--columns", "numbered", "--table", table, logs)
    frame = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "changes"))
    counted = {row["operation"]: row["count"] for row in frame.groupBy("operation").count().collect()}
    expected = {}
    for batch in bintide.changes(logs, tables=table, columns="numbered"):
        for operation in batch.column("operation").to_pylist():
            expected[operation] = expected.get(operation, 0) + 1
    assert counted == expected
