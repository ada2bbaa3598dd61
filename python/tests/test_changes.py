"""Row changes: their content, selection, errors and memory."""

import gc
import json
from datetime import datetime, timedelta, timezone

import pyarrow
import pyarrow.parquet
import pytest

import bintide


def table_of(batch) -> str:
    metadata = batch.schema.metadata
    return f"{metadata[b'mysql.database'].decode()}.{metadata[b'mysql.table'].decode()}"


def rows_by_table(batches) -> dict:
    rows = {}
    for batch in batches:
        rows[table_of(batch)] = rows.get(table_of(batch), 0) + batch.num_rows
    return rows


def test_batches_have_the_rows_that_stats_counts(types, command):
    tables = json.loads(command("stats", "--json", types))["tables"]
    counted = {
        f"{table['database']}.{table['table']}": sum(table[kind]["rows"] for kind in ("insert", "update", "delete"))
        for table in tables
    }
    assert rows_by_table(bintide.changes(types)) == counted and len(counted) > 10


def test_values_are_those_of_export(types, command, tmp_path):
    command("export", types, "--to", tmp_path)
    exported = {}
    for file in sorted(tmp_path.rglob("*.parquet")):
        database, table = (part.split("=")[1] for part in file.relative_to(tmp_path).parts[:2])
        rows = pyarrow.parquet.ParquetFile(file).read().to_pylist()
        exported.setdefault(f"{database}.{table}", []).extend(rows)
    found = {}
    for batch in bintide.changes(types):
        found.setdefault(table_of(batch), []).extend(batch.to_pylist())
    assert found == exported and len(found) > 10


def test_tables_are_patterns(types):
    every = rows_by_table(bintide.changes(types))
    name = next(iter(every))
    assert rows_by_table(bintide.changes(types, tables=name)) == {name: every[name]}
    assert rows_by_table(bintide.changes(types, tables=[f"{name[:-1]}?"]))[name] == every[name]
    assert rows_by_table(bintide.changes(types, database="nowhere")) == {}


def test_transactions_are_selected_by_gtid_and_time(types):
    listed = [each for each in bintide.transactions(types) if each["rows"]]
    chosen = listed[len(listed) // 2]
    rows = sum(batch.num_rows for batch in bintide.changes(types, gtid=chosen["gtid"]))
    assert rows == chosen["rows"] > 0
    without = sum(batch.num_rows for batch in bintide.changes(types, exclude_gtids=bintide.GtidSet(chosen["gtid"])))
    assert without + rows == sum(each["rows"] for each in listed)
    start = datetime.fromtimestamp(chosen["immediate_commit_timestamp"] / 1e6, timezone.utc)
    since = sum(batch.num_rows for batch in bintide.changes(types, start_datetime=start))
    before = sum(batch.num_rows for batch in bintide.changes(types, stop_datetime=start))
    assert since + before == rows + without and since >= rows and before > 0
    with pytest.raises(ValueError, match="start_datetime is not before stop_datetime"):
        bintide.changes(types, start_datetime=start, stop_datetime=start - timedelta(hours=1))


def test_several_logs_and_a_directory_are_read_in_order(samples):
    directory = samples / "rotation"
    logs = sorted(directory.glob("*.0*"))
    options = {"columns": "numbered"}
    one_by_one = [batch for log in logs for batch in bintide.changes(log, **options)]
    assert len(logs) > 1 and len(one_by_one) > 1
    assert list(bintide.changes(directory, **options)) == one_by_one
    assert list(bintide.changes(logs, **options)) == one_by_one
    assert list(bintide.changes(map(str, logs), **options)) == one_by_one


def test_encrypted_logs_need_their_keys(samples):
    directory = samples / "encrypted"
    keys = next(path for path in directory.iterdir() if "keyring" in path.name)
    batches = list(bintide.changes(directory, keyring=keys, columns="numbered"))
    assert sum(batch.num_rows for batch in batches) > 0
    with pytest.raises(bintide.LogError, match="keyring"):
        list(bintide.changes(directory, columns="numbered"))


def test_names_come_from_definitions_in_the_log(samples):
    log = samples / "types.binlog"
    with pytest.raises(bintide.LogError, match="column names"):
        list(bintide.changes(log))
    named = next(bintide.changes(log, schema="ddl"))
    numbered = next(bintide.changes(log, columns="numbered"))
    assert numbered.schema.field("after").type.field(0).name == "@1"
    assert named.schema.field("after").type.field(0).name != "@1"


@pytest.mark.parametrize(
    ("log", "options", "message"),
    [
        ("nowhere.binlog", {}, "could not open nowhere.binlog: No such file or directory"),
        ("torn.binlog", {"columns": "numbered"}, "torn.binlog"),
        ("statements.binlog", {"columns": "numbered"}, "statement"),
    ],
)
def test_errors_have_the_tool_s_message(samples, log, options, message):
    path = samples / log
    with pytest.raises(bintide.LogError, match=message):
        list(bintide.changes(path if path.exists() else log, **options))


def test_wrong_arguments_are_refused(types):
    for options in ({"columns": "x"}, {"schema": "x"}, {"gtid": "x"}, {"gtid": ""}):
        with pytest.raises(ValueError):
            bintide.changes(types, **options)
    with pytest.raises(TypeError):
        bintide.changes(types, start_datetime="2026-11-22")
    with pytest.raises(TypeError):
        bintide.changes(3)
    with pytest.raises(ValueError, match="no log is given"):
        bintide.changes([])


def test_batches_are_not_copied(types):
    before = pyarrow.total_allocated_bytes()
    batches = list(bintide.changes(types))
    assert sum(batch.nbytes for batch in batches) > 0
    assert pyarrow.total_allocated_bytes() == before, "pyarrow has allocated memory for the batches"
    first = batches[0]
    kept = first.to_pylist()
    del batches
    gc.collect()
    assert first.to_pylist() == kept


def test_a_stream_has_one_table(types):
    every = rows_by_table(bintide.changes(types))
    name = next(iter(every))
    assert pyarrow.table(bintide.changes(types, tables=name)).num_rows == every[name]
    assert pyarrow.schema(bintide.changes(types, tables=name)).names[0] == "operation"
    with pytest.raises(Exception, match="choose a table with tables="):
        pyarrow.table(bintide.changes(types))
    assert pyarrow.table(bintide.changes(types, database="nowhere")).num_rows == 0


def test_reading_the_schema_loses_no_batch(types):
    changes = bintide.changes(types)
    schema = pyarrow.schema(changes)
    changes.__arrow_c_stream__()
    batches = list(changes)
    assert batches == list(bintide.changes(types))
    assert batches[0].schema.equals(schema, check_metadata=True)
