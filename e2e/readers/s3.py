"""Counts the rows of all Parquet files of a directory on an object store with pyarrow, and prints their number.

Usage: s3.py URL KEY SECRET BUCKET/DIRECTORY
"""

import sys

import pyarrow.dataset
import pyarrow.fs

url, key, secret, directory = sys.argv[1:]
store = pyarrow.fs.S3FileSystem(
    access_key=key, secret_key=secret, endpoint_override=url.removeprefix("http://"), scheme="http", region="us-east-1"
)
found = store.get_file_info(pyarrow.fs.FileSelector(directory, recursive=True))
files = [file.path for file in found if file.path.endswith(".parquet")]
tables = {path.rpartition("/")[0] for path in files}
print(sum(pyarrow.dataset.dataset(table, filesystem=store, format="parquet").count_rows() for table in tables))
