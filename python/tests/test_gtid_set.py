"""GTID sets."""

import pickle

import pytest

from bintide import GtidSet

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "8f1c3a52-5d0e-11ee-8c99-0242ac120002"


def test_text_is_one_line():
    assert str(GtidSet(f"{A.upper()}:4-7:1-3, {B}:1")) == f"{A}:1-7,{B}:1"
    assert str(GtidSet()) == "" and repr(GtidSet(f"{A}:1")) == f'GtidSet("{A}:1")'
    assert str(GtidSet(f"{A}:1-3:tag:5")) == f"{A}:1-3:tag:5"
    with pytest.raises(ValueError, match="not a GTID set: expected .* at byte 0"):
        GtidSet("x")


def test_algebra():
    few, many = GtidSet(f"{A}:1-3"), GtidSet(f"{A}:2-9,{B}:1")
    assert few | many == GtidSet(f"{A}:1-9,{B}:1")
    assert few & many == GtidSet(f"{A}:2-3")
    assert many - few == GtidSet(f"{A}:4-9,{B}:1")
    assert few - few == GtidSet() and not few - few and few
    assert (few & many) <= few and (few & many) < few and few >= few and not few > few and not few < few
    assert not few <= many and few.intersects(many) and not few.intersects(GtidSet(f"{B}:1-9"))
    assert few != many and few != "x" and len({few, GtidSet(f"{A}:1-2:3"), many}) == 2


def test_membership_and_count():
    gtids = GtidSet(f"{A}:1-3:tag:7")
    assert f"{A}:3" in gtids and f"{A}:4" not in gtids and f"{A}:tag:7" in gtids
    with pytest.raises(ValueError, match="not a GTID"):
        "x" in gtids
    assert gtids.count() == 4
    assert GtidSet(f"{A}:1-{2**63 - 2},{B}:1-{2**63 - 2}").count() == 2 * (2**63 - 2)


def test_pickle():
    gtids = GtidSet(f"{A}:1-3,{B}:1")
    assert pickle.loads(pickle.dumps(gtids)) == gtids
