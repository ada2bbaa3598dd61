"""A program for the type checker: test_typing.py runs mypy over it."""

from pathlib import Path

import bintide


def rows(log: Path) -> int:
    newest = bintide.GtidSet("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3") | bintide.GtidSet()
    changes = bintide.changes([log], tables="shop.*", exclude_gtids=newest)
    names: set[str] = {each["gtid"] for each in bintide.transactions(log)}
    transactions: int = bintide.stats(log, by="hour")["totals"]["transactions"]
    counted: int = sum(batch.num_rows for batch in changes)
    return counted + len(names) + transactions
