"""Reads binary logs of MySQL and MariaDB: row changes as Arrow record batches, transactions, statistics, GTID sets."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from os import PathLike
from typing import Any, Literal, TypeAlias, final

import pyarrow

__all__ = ["Changes", "GtidSet", "LogError", "Transactions", "__version__", "changes", "stats", "transactions"]

__version__: str

_Logs: TypeAlias = str | PathLike[str] | Iterable[str | PathLike[str]]
"""File, directory, index or archive, or several of them."""

_Names: TypeAlias = str | Iterable[str]
"""One name, or several."""

def changes(
    logs: _Logs,
    *,
    tables: _Names | None = None,
    database: str | None = None,
    gtid: str | GtidSet | None = None,
    exclude_gtids: str | GtidSet | None = None,
    start_datetime: datetime | None = None,
    stop_datetime: datetime | None = None,
    columns: Literal["named", "numbered"] = "named",
    schema: Literal["ddl"] | None = None,
    skip_statements: bool = False,
    keyring: str | PathLike[str] | None = None,
) -> Changes:
    """Returns the row changes of logs as Arrow record batches, each of one table and day."""

def transactions(
    logs: _Logs,
    *,
    tables: _Names | None = None,
    database: str | None = None,
    gtid: str | GtidSet | None = None,
    exclude_gtids: str | GtidSet | None = None,
    keyring: str | PathLike[str] | None = None,
) -> Transactions:
    """Returns an iterator of the transactions in logs: a dict for each."""

def stats(
    logs: _Logs,
    *,
    by: _Names | None = None,
    top: int = 10,
    tables: _Names | None = None,
    database: str | None = None,
    gtid: str | GtidSet | None = None,
    exclude_gtids: str | GtidSet | None = None,
    start_datetime: datetime | None = None,
    stop_datetime: datetime | None = None,
    keyring: str | PathLike[str] | None = None,
) -> dict[str, Any]:
    """Returns statistics of logs: a dict with the fields of `bintide stats --json`."""

class LogError(Exception):
    """A log cannot be found, read or decoded."""

@final
class Changes:
    """Iterator of record batches, and an Arrow stream. It can be read once."""

    def __iter__(self) -> Iterator[pyarrow.RecordBatch]: ...
    def __next__(self) -> pyarrow.RecordBatch: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class Transactions:
    """Iterator of transactions."""

    def __iter__(self) -> Iterator[dict[str, Any]]: ...
    def __next__(self) -> dict[str, Any]: ...

@final
class GtidSet:
    """Immutable set of GTIDs of MySQL."""

    def __new__(cls, text: str = "") -> GtidSet: ...
    def __or__(self, other: GtidSet, /) -> GtidSet: ...
    def __and__(self, other: GtidSet, /) -> GtidSet: ...
    def __sub__(self, other: GtidSet, /) -> GtidSet: ...
    def __ror__(self, value: GtidSet, /) -> GtidSet: ...
    def __rand__(self, value: GtidSet, /) -> GtidSet: ...
    def __rsub__(self, value: GtidSet, /) -> GtidSet: ...
    def __le__(self, other: GtidSet, /) -> bool: ...
    def __lt__(self, other: GtidSet, /) -> bool: ...
    def __ge__(self, other: GtidSet, /) -> bool: ...
    def __gt__(self, other: GtidSet, /) -> bool: ...
    def __contains__(self, gtid: str, /) -> bool: ...
    def __bool__(self) -> bool: ...
    def __getnewargs__(self) -> tuple[str]: ...
    def count(self) -> int:
        """Returns the number of transactions. A set can have more than `len()` is able to return."""

    def intersects(self, other: GtidSet) -> bool:
        """Returns whether the sets have a common transaction."""
