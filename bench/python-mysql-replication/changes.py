"""Follows a server with python-mysql-replication, and prints the kind and the first column of each changed row of a
database, up to a row whose first column has the last value.

Usage: changes.py PORT USER PASSWORD DATABASE LAST
"""

import sys

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

KINDS = {WriteRowsEvent: "insert", UpdateRowsEvent: "update", DeleteRowsEvent: "delete"}


def main() -> None:
    port, user, password, database, last = sys.argv[1:]
    events = BinLogStreamReader(
        connection_settings={"host": "127.0.0.1", "port": int(port), "user": user, "passwd": password},
        server_id=9991,
        blocking=True,
        # No transaction has this GTID, so all transactions are read.
        auto_position="00000000-0000-0000-0000-000000000000:1",
        only_events=list(KINDS),
        only_schemas=[database],
    )
    for event in events:
        for row in event.rows:
            key = str(next(iter(row.get("values", row.get("after_values")).values())))
            # The library prints warnings on standard output. This word marks the lines of changes.
            print("changed", KINDS[type(event)], key, flush=True)
            if key == last:
                return


main()
