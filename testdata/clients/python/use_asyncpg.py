import asyncio
import datetime
import decimal
import ssl

import asyncpg

from scenario import BIG, BIG_ROWS, HOST, KEY, MASKED, POINT, PORT, REFUSED, ROOT, SLOW, SOURCE, TYPES, expect, expect_masked, run

loop = asyncio.new_event_loop()
tls = ssl.create_default_context(cafile=ROOT)


async def open_connection():
    return await asyncpg.connect(host=HOST, port=int(PORT), database=SOURCE, user="ana", password=KEY, ssl=tls)


conn = loop.run_until_complete(open_connection())


def types():
    "reads typed values in binary"
    async def go():
        n, t, b, j, a, r, z, i, s, yes, d = await conn.fetchrow(TYPES)
        expect("numeric", n, decimal.Decimal("12345678901234567890.5"))
        expect("timestamptz", t.isoformat(), "2026-01-02T03:04:05.678000+00:00")
        expect("bytea, json, array, NULL", (b, j, a, z), (b"\x00\xff'", '{"a": [1, 2]}', [1, None, 3], None))
        expect("range", (r.lower, r.upper), (1, 5))
        expect("int8, text, bool, date", (i, s, yes, d), (9007199254740993, "Zoë", True, datetime.date(2026, 2, 28)))
    loop.run_until_complete(go())


def masked():
    "reads masked columns of every kind of type in binary"
    expect_masked(loop.run_until_complete(conn.fetchrow(MASKED)), j='{"n":[1, 2],"token":null}')


def repeated():
    "runs a prepared statement a hundred times"
    async def go():
        statement = await conn.prepare(POINT.format("$1"))
        for _ in range(100):
            expect("rows", len(await statement.fetch(7)), 1)
    loop.run_until_complete(go())


def refused():
    "sees a refusal in a transaction with its SQLSTATE, DETAIL and HINT, and goes on after ROLLBACK"
    async def go():
        try:
            async with conn.transaction():
                await conn.fetch(POINT.format(1))
                await conn.fetch(REFUSED)
            raise AssertionError("not refused")
        except asyncpg.InsufficientPrivilegeError as e:
            expect("fields", (e.sqlstate, bool(e.detail), bool(e.hint)), ("42501", True, True))
        expect("after", await conn.fetchval("select 1"), 1)
    loop.run_until_complete(go())


def big():
    "reads a big result, at once and by a cursor"
    async def go():
        expect("rows", len(await conn.fetch(BIG)), BIG_ROWS)
        n = 0
        async with conn.transaction():
            async for _ in conn.cursor(BIG, prefetch=5000):
                n += 1
        expect("rows of the cursor", n, BIG_ROWS)
    loop.run_until_complete(go())


def cancels():
    "cancels by a timeout"
    async def go():
        try:
            await conn.fetch(SLOW, timeout=0.5)
            raise AssertionError("not cancelled")
        except asyncio.TimeoutError:
            pass
        expect("after", await conn.fetchval("select 1"), 1)
    loop.run_until_complete(go())


run("asyncpg", [types, masked, repeated, refused, big, cancels])
