"""Reads encrypted change tables with pyarrow, with DuckDB through pyarrow, and with DuckDB alone.

Usage: encrypted.py KEY DIRECTORY STATEMENT

The statement reads the table `changes`. Prints its rows, and the number of operations that DuckDB alone reads: it
does not decrypt columns in structs.
"""

import base64
import sys

import duckdb
import pyarrow.dataset
import pyarrow.parquet.encryption

key, directory, statement = sys.argv[1:]
properties = pyarrow.parquet.encryption.create_decryption_properties(base64.b64decode(key))
options = pyarrow.dataset.ParquetFragmentScanOptions(decryption_properties=properties)
file_format = pyarrow.dataset.ParquetFileFormat(default_fragment_scan_options=options)
changes = pyarrow.dataset.dataset(directory, format=file_format, partitioning="hive")
connection = duckdb.connect()
for row in connection.execute(statement).fetchall():
    print("\t".join(str(value) for value in row))
connection.execute(f"pragma add_parquet_key('tables', '{key}')")
count = f"select count(operation) from read_parquet('{directory}/**/*.parquet', encryption_config = {{footer_key: 'tables'}})"
print(connection.execute(count).fetchone()[0])
