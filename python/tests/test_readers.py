"""Libraries that read the changes: pandas, Polars and DuckDB, as in the documentation."""

import duckdb
import pandas
import polars
import pyarrow
import pytest

import bintide


@pytest.fixture
def table(types) -> str:
    """The table with the most changes. DuckDB has no decimals of more than 38 digits."""
    rows = {}
    for batch in bintide.changes(types):
        if "decimal256" in str(batch.schema):
            continue
        metadata = batch.schema.metadata
        name = f"{metadata[b'mysql.database'].decode()}.{metadata[b'mysql.table'].decode()}"
        rows[name] = rows.get(name, 0) + batch.num_rows
    return max(rows, key=rows.get)


@pytest.fixture
def expected(types, table) -> list:
    return pyarrow.table(bintide.changes(types, tables=table)).column("operation").to_pylist()


def test_pandas(types, table, expected):
    frame = pandas.concat(batch.to_pandas() for batch in bintide.changes(types, tables=table))
    assert frame["operation"].tolist() == expected and len(expected) > 2
    assert str(frame["commit_time"].dtype).startswith("datetime64[us")


def test_polars(types, table, expected):
    frame = polars.DataFrame(bintide.changes(types, tables=table))
    assert frame["operation"].to_list() == expected
    assert frame.select(polars.col("after").struct.unnest()).width > 0


def test_duckdb(types, table, expected):
    changes = bintide.changes(types, tables=table)
    counted = duckdb.sql("select operation, count(*) from changes group by operation").fetchall()
    assert dict(counted) == {each: expected.count(each) for each in set(expected)}
