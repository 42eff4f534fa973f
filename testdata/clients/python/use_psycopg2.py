import datetime
import decimal
import io
import threading
import time

import psycopg2
import psycopg2.errors

from scenario import BIG, BIG_ROWS, HOST, KEY, MASKED, POINT, PORT, REFUSED, ROOT, SLOW, SOURCE, TYPES, expect, expect_masked, run


def connect():
    return psycopg2.connect(host=HOST, port=PORT, dbname=SOURCE, user="ana", password=KEY, sslmode="verify-full", sslrootcert=ROOT)


conn = connect()


def types():
    "reads typed values"
    with conn.cursor() as cur:
        cur.execute(TYPES)
        n, t, b, j, a, r, z, i, s, yes, d = cur.fetchone()
    expect("numeric", n, decimal.Decimal("12345678901234567890.5"))
    expect("timestamptz", t.astimezone(datetime.timezone.utc).isoformat(), "2026-01-02T03:04:05.678000+00:00")
    expect("bytea", bytes(b), b"\x00\xff'")
    expect("json, array, NULL", (j, a, z), ({"a": [1, 2]}, [1, None, 3], None))
    expect("range", (r.lower, r.upper), (1, 5))
    expect("int8, text, bool, date", (i, s, yes, d), (9007199254740993, "Zoë", True, datetime.date(2026, 2, 28)))


def masked():
    "reads masked columns of every kind of type"
    with conn.cursor() as cur:
        cur.execute(MASKED)
        expect_masked(cur.fetchone())
    conn.rollback()


def repeated():
    "runs a prepared statement a hundred times"
    with conn.cursor() as cur:
        cur.execute("prepare byid(int) as " + POINT.format("$1"))
        for _ in range(100):
            cur.execute("execute byid(%s)", (7,))
            expect("name", len(cur.fetchall()), 1)
        cur.execute("deallocate byid")


def refused():
    "sees a refusal in a transaction with its SQLSTATE, DETAIL and HINT, and goes on after ROLLBACK"
    conn.rollback()
    with conn.cursor() as cur:
        cur.execute(POINT.format(1))
        try:
            cur.execute(REFUSED)
            raise AssertionError("not refused")
        except psycopg2.errors.InsufficientPrivilege as e:
            expect("fields", (e.pgcode, bool(e.diag.message_detail), bool(e.diag.message_hint)), ("42501", True, True))
        try:
            cur.execute("select 1")
            raise AssertionError("the transaction did not fail")
        except psycopg2.errors.InFailedSqlTransaction:
            pass
        conn.rollback()
        cur.execute("select 1")
        expect("after", cur.fetchone(), (1,))
    conn.rollback()


def big():
    "reads a big result, at once and through a named cursor"
    with conn.cursor() as cur:
        cur.execute(BIG)
        expect("rows", len(cur.fetchall()), BIG_ROWS)
    with conn.cursor("named") as cur:
        cur.itersize = 5000
        cur.execute(BIG)
        expect("rows of the cursor", sum(1 for _ in cur), BIG_ROWS)
    conn.rollback()


def copies():
    "copies a query out"
    with conn.cursor() as cur:
        out = io.StringIO()
        cur.copy_expert("copy (select id, name from crm.customers order by id limit 3) to stdout with csv", out)
        expect("lines", len(out.getvalue().splitlines()), 3)
    conn.rollback()


def cancels():
    "cancels"
    timer = threading.Timer(0.5, conn.cancel)
    timer.start()
    begun = time.monotonic()
    with conn.cursor() as cur:
        try:
            cur.execute(SLOW)
            raise AssertionError("not cancelled")
        except psycopg2.errors.QueryCanceled as e:
            expect("SQLSTATE", e.pgcode, "57014")
    expect("in time", time.monotonic() - begun < 30, True)
    conn.rollback()


run("psycopg2", [types, masked, repeated, refused, big, copies, cancels])
