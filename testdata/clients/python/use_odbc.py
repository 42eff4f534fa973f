import datetime
import decimal

import pyodbc

from scenario import BIG, BIG_ROWS, HOST, KEY, POINT, PORT, REFUSED, ROOT, SOURCE, expect, run

conn = pyodbc.connect(f"Driver=PostgreSQL Unicode;Server={HOST};Port={PORT};Database={SOURCE};Uid=ana;Pwd={KEY};"
                      f"SSLmode=verify-full;pqopt={{sslrootcert={ROOT}}}", autocommit=True)


def types():
    "reads typed values"
    n, d, b, z, i, s = conn.execute("select 12345678901234567890.5::numeric(25,1), date '2026-02-28', '\\x00ff27'::bytea, null::text, "
                                    "9007199254740993::int8, 'Zoë'::text").fetchone()
    expect("values", (n, d, b, z, i, s), (decimal.Decimal("12345678901234567890.5"), datetime.date(2026, 2, 28), b"\x00\xff'", None,
                                          9007199254740993, "Zoë"))


def masked():
    "reads masked columns"
    t, dom, n, i, f, d, b, ip = conn.execute("select t, dom, n::numeric, i, f, d, b, ip from masked.wide").fetchone()
    expect("values", (t, dom, n, i, f, d, b, ip), ("a***@***", "ad***t", decimal.Decimal("12300.00"), 1200, 1200.0, datetime.date(2026, 8, 1), b"\x00", None))


def repeated():
    "runs a statement with a parameter a hundred times"
    cur = conn.cursor()
    for _ in range(100):
        expect("rows", len(cur.execute(POINT.format("?"), 7).fetchall()), 1)


def refused():
    "sees a refusal with its SQLSTATE"
    try:
        conn.execute(REFUSED)
        raise AssertionError("not refused")
    except pyodbc.Error as e:
        expect("SQLSTATE", e.args[0], "42501")
    expect("after", conn.execute("select 1").fetchone()[0], 1)


def big():
    "reads a big result"
    expect("rows", len(conn.execute(BIG).fetchall()), BIG_ROWS)


run("ODBC", [types, masked, repeated, refused, big])
