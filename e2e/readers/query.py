"""Runs statements with DuckDB, and prints the rows of the last one, with tabs between the values.

Usage: query.py STATEMENT…
"""

import sys

import duckdb

connection = duckdb.connect()
connection.execute("set timezone = 'UTC'")
for statement in sys.argv[1:]:
    result = connection.execute(statement)
for row in result.fetchall():
    print("\t".join("NULL" if value is None else str(value) for value in row))
