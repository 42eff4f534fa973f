import datetime
import decimal
import threading

import psycopg
from psycopg.types.range import Range

from scenario import BIG, BIG_ROWS, HOST, KEY, MASKED, POINT, PORT, REFUSED, ROOT, SLOW, SOURCE, TYPES, expect, expect_masked, run

conn = psycopg.connect(host=HOST, port=PORT, dbname=SOURCE, user="ana", password=KEY, sslmode="verify-full", sslrootcert=ROOT)
conn.prepare_threshold = 5


def types():
    "reads typed values in text and in binary"
    for binary in (False, True):
        with conn.cursor(binary=binary) as cur:
            n, t, b, j, a, r, z, i, s, yes, d = cur.execute(TYPES).fetchone()
        expect("numeric", n, decimal.Decimal("12345678901234567890.5"))
        expect("timestamptz", t.astimezone(datetime.timezone.utc).isoformat(), "2026-01-02T03:04:05.678000+00:00")
        expect("bytea", bytes(b), b"\x00\xff'")
        expect("json, array, range, NULL", (j, a, r, z), ({"a": [1, 2]}, [1, None, 3], Range(1, 5, "[)"), None))
        expect("int8, text, bool, date", (i, s, yes, d), (9007199254740993, "Zoë", True, datetime.date(2026, 2, 28)))


def masked():
    "reads masked columns of every kind of type, in text and in binary"
    for binary in (False, True):
        with conn.cursor(binary=binary) as cur:
            expect_masked(cur.execute(MASKED).fetchone())
    conn.rollback()


def repeated():
    "runs a statement a hundred times, prepared after the fifth, and in a pipeline"
    for _ in range(100):
        expect("rows", len(conn.execute(POINT.format("%s"), (7,)).fetchall()), 1)
    with conn.pipeline():
        cursors = [conn.execute(POINT.format("%s"), (n,)) for n in range(1, 50)]
    expect("rows of the pipeline", sum(len(c.fetchall()) for c in cursors), 49)
    conn.rollback()


def refused():
    "sees a refusal in a transaction with its SQLSTATE, DETAIL and HINT, and goes on after ROLLBACK"
    conn.rollback()
    conn.execute(POINT.format(1))
    try:
        conn.execute(REFUSED)
        raise AssertionError("not refused")
    except psycopg.errors.InsufficientPrivilege as e:
        expect("fields", (e.sqlstate, bool(e.diag.message_detail), bool(e.diag.message_hint)), ("42501", True, True))
    expect("status", conn.info.transaction_status, psycopg.pq.TransactionStatus.INERROR)
    conn.rollback()
    expect("after", conn.execute("select 1").fetchone(), (1,))
    conn.rollback()


def big():
    "reads a big result in binary"
    with conn.cursor(binary=True) as cur:
        expect("rows", sum(1 for _ in cur.execute(BIG)), BIG_ROWS)
    conn.rollback()


def server_side():
    "reads through a cursor of the server, with a parameter"
    with conn.cursor("big", binary=True) as cur:
        cur.itersize = 500
        cur.execute("select id, name from crm.customers where id <= %s order by id", (1200,))
        expect("columns", [c.name for c in cur.description], ["id", "name"])
        expect("rows", [r[0] for r in cur], list(range(1, 1201)))
    conn.rollback()


def copies():
    "copies a query out in binary"
    with conn.cursor().copy("copy (select id, name from crm.customers order by id limit 3) to stdout (format binary)") as copy:
        copy.set_types(["int4", "text"])
        expect("rows", [r[0] for r in copy.rows()], [1, 2, 3])
    conn.rollback()


def cancels():
    "cancels"
    threading.Timer(0.5, conn.cancel).start()
    try:
        conn.execute(SLOW)
        raise AssertionError("not cancelled")
    except psycopg.errors.QueryCanceled as e:
        expect("SQLSTATE", e.sqlstate, "57014")
    conn.rollback()


run("psycopg", [types, masked, repeated, refused, big, server_side, copies, cancels])
