"""Compares the change tables of `bintide export` with the events of `bintide dump --json` of the same logs.

Usage: compare.py DIR EVENTS [DIR EVENTS]…

Each value in DIR, as pyarrow reads it, must equal the value in EVENTS, and DuckDB must read the same values. Prints the
number of row changes of each pair, and fails at the first difference.
"""

import base64
import collections
import datetime
import decimal
import glob
import json
import math
import os
import struct
import sys
import urllib.parse

import duckdb
import pyarrow.parquet as pq

OPERATIONS = {(False, True): "insert", (True, True): "update", (True, False): "delete"}


def fraction(micros, kind):
    digits = int(kind.split("(")[1].rstrip(")")) if "(" in kind else 0
    return "." + f"{micros:06d}"[:digits] if digits else ""


def shown(value, kind):
    """Returns a value of a column of this type of MySQL as `bintide dump --json` shows it."""
    name = kind.split("(")[0].split(" ")[0]
    if value is None:
        return None
    if name == "decimal":
        return format(value, "f")
    if name == "date":
        return value.isoformat()
    if name in ("datetime", "timestamp"):
        text = value.strftime("%H:%M:%S") + fraction(value.microsecond, kind)
        day = f"{value.year:04d}-{value.month:02d}-{value.day:02d}"
        return f"{day}T{text}Z" if name == "timestamp" else f"{day} {text}"
    if name == "time":
        return value.strftime("%H:%M:%S") + fraction(value.microsecond, kind)
    if name == "json":
        return json.loads(value)
    if name == "geometry":
        return {"srid": value["srid"], "wkb": base64.b64encode(value["wkb"]).decode()}
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return value


def exact(text, kind):
    """Returns a text of the column `…_exact` as `bintide dump --json` shows the value."""
    if text.startswith("0x"):
        return {"base64": base64.b64encode(bytes.fromhex(text[2:])).decode()}
    return int(text) if kind == "enum" else text


def equal(found, expected, kind):
    if isinstance(expected, float) or isinstance(found, float):
        if isinstance(expected, str):
            expected = float(expected.replace("Infinity", "inf"))
        if kind.startswith("float"):
            single = lambda number: struct.unpack("f", struct.pack("f", number))[0]
            return single(found) == single(expected)
        return found == expected or math.isnan(found) and math.isnan(expected)
    if isinstance(expected, list) and isinstance(found, list) and kind.startswith("vector"):
        return len(found) == len(expected) and all(equal(a, b, "float") for a, b in zip(found, expected))
    if isinstance(expected, str) and isinstance(found, dict) and "base64" in found:
        # A log without character sets: bytes are unknown.
        return base64.b64decode(found["base64"]) == expected.encode()
    if kind == "enum" and expected == 0 and found == "":
        return True
    if isinstance(expected, dict) and "mariadb_compressed" in expected:
        return found is not None
    return found == expected


def image(row, name, kinds):
    """Returns the values of an image by column, as `bintide dump --json` shows them."""
    if row[name] is None:
        return None
    texts = dict(row[name + "_exact"] or [])
    omitted = row[name + "_omitted"] or []
    found = {}
    for column, value in row[name].items():
        if column in texts:
            found[column] = exact(texts[column], kinds[column])
        elif column not in omitted:
            found[column] = shown(value, kinds[column])
        elif value is not None:
            sys.exit(f"{column} is omitted, but has the value {value!r}")
    return found


def files(directory):
    return sorted(glob.glob(glob.escape(directory) + "/database=*/**/*.parquet", recursive=True))


def kinds_of(table):
    """Returns the types of a table's columns."""
    return {field.name: field.metadata[b"mysql.type"].decode() for field in table.schema.field("after").type}


def parquet_rows(directory):
    """Yields the rows of all files by database and table, in log order, each with the types of its columns."""
    tables = collections.defaultdict(list)
    for path in files(directory):
        parts = dict(part.split("=", 1) for part in os.path.relpath(path, directory).split("/")[:-1])
        name = tuple(urllib.parse.unquote(parts[key].split("@")[0]) for key in ("database", "table"))
        table = pq.ParquetFile(path).read()
        kinds = kinds_of(table)
        for row in table.to_pylist():
            day = row["commit_time"].date().isoformat()
            if day != parts["day"]:
                sys.exit(f"{path} has a change of {day}")
            tables[name].append((row, kinds))
    for rows in tables.values():
        rows.sort(key=lambda item: (item[0]["log_name"], item[0]["log_position"], item[0]["change_number"]))
    return tables


def event_rows(path):
    """Yields the row changes of events by database and table, in log order."""
    tables = collections.defaultdict(list)
    gtid = None
    for line in open(path, encoding="utf-8"):
        event = json.loads(line)
        if "gtid" in event:
            gtid = event["gtid"] if event["gtid"] != "ANONYMOUS" else None
        for row in event.get("rows") or []:
            tables[event["database"], event["table"]].append((row, gtid))
    return tables


def compare_images(name, number, row, kinds, expected):
    operation = OPERATIONS["before" in expected, "after" in expected]
    if row["operation"] != operation:
        sys.exit(f"{name} row {number}: {row['operation']} instead of {operation}")
    for side in ("before", "after"):
        found, right = image(row, side, kinds), expected.get(side)
        if (found is None) != (right is None) or found is not None and set(found) != set(right):
            sys.exit(f"{name} row {number} {side}: columns {found} instead of {right}")
        for column in found or {}:
            if not equal(found[column], right[column], kinds[column]):
                sys.exit(f"{name} row {number} {side}.{column}: {found[column]!r} instead of {right[column]!r}")


def plain(value):
    """Returns a value in a form that is the same for pyarrow and DuckDB."""
    if isinstance(value, dict):
        if set(value) == {"key", "value"} and isinstance(value["key"], list):
            value = dict(zip(value["key"], value["value"]))
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) for item in value):
            return {key: plain(item) for key, item in value}
        return [plain(item) for item in value]
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.timezone.utc)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value


def wide(kinds):
    """Returns the columns that DuckDB reads as approximate numbers: it has decimals of up to 38 digits."""
    digits = lambda kind: int(kind.split("(")[1].split(",")[0])
    return {name for name, kind in kinds.items() if kind.startswith("decimal") and digits(kind) > 38}


def near(approximate, number):
    return math.isclose(approximate, float(number), rel_tol=1e-12)


def compare_duckdb(directory):
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    for path in files(directory):
        table = pq.ParquetFile(path).read()
        approximate = wide(kinds_of(table))
        columns = table.schema.names
        quoted = ", ".join(f'"{column}"' for column in columns)
        found = connection.execute(f"select {quoted} from read_parquet(?, hive_partitioning = false)", [path]).fetchall()
        expected = table.to_pylist()
        if len(found) != len(expected):
            sys.exit(f"{path}: DuckDB has {len(found)} rows, pyarrow {len(expected)}")
        for number, (one, other) in enumerate(zip(found, expected)):
            one = dict(zip(columns, map(plain, one)))
            other = {column: plain(value) for column, value in other.items()}
            for side in ("before", "after"):
                for column in approximate if one[side] and other[side] else ():
                    pair = one[side].pop(column), other[side].pop(column)
                    if (pair[0] is None) != (pair[1] is None) or pair[0] is not None and not near(*pair):
                        sys.exit(f"{path} row {number}: DuckDB has {pair[0]}, pyarrow {pair[1]}")
            if one != other:
                sys.exit(f"{path} row {number}: DuckDB has {one}, pyarrow {other}")


def compare(directory, events):
    found, expected = parquet_rows(directory), event_rows(events)
    if set(found) != set(expected):
        sys.exit(f"{directory}: tables {sorted(found)} instead of {sorted(expected)}")
    for name, rows in found.items():
        if len(rows) != len(expected[name]):
            sys.exit(f"{directory} {name}: {len(rows)} row changes instead of {len(expected[name])}")
        for number, ((row, kinds), (right, gtid)) in enumerate(zip(rows, expected[name])):
            if row["gtid"] != gtid:
                sys.exit(f"{directory} {name} row {number}: GTID {row['gtid']} instead of {gtid}")
            compare_images((directory, *name), number, row, kinds, right)
    compare_duckdb(directory)
    return sum(map(len, found.values()))


def main():
    for directory, events in zip(sys.argv[1::2], sys.argv[2::2]):
        print(compare(directory, events))


main()
