"""What every client has to manage: the checks are the same for all, a client only says how it does them."""

import datetime
import decimal
import os
import sys
import traceback

HOST, PORT, SOURCE = (os.environ["INTERLOCK_" + n] for n in ("PGHOST", "PGPORT", "SOURCE"))
KEY, ROOT = os.environ["INTERLOCK_KEY_ANA"], os.environ["PGSSLROOTCERT"]

TYPES = ("select 12345678901234567890.5::numeric as n, timestamptz '2026-01-02 03:04:05.678+00' as t, '\\x00ff27'::bytea as b, "
         "'{\"a\": [1, 2]}'::json as j, array[1, null, 3]::int[] as a, int4range(1, 5) as r, null::text as z, "
         "9007199254740993::int8 as i, 'Zoë'::text as s, true as yes, date '2026-02-28' as d")
MASKED = "select t, dom, a, n, i, f, ia, d, tz, j, u, b, yes, ip from masked.wide"
POINT = "select name from crm.customers where id = {}"
BIG = "select id, customer_id, ordered_at, status, amount from sales.orders"
BIG_ROWS = 120000
REFUSED = "select ssn from crm.customers"
SLOW = "select count(*) from sales.orders a, sales.orders b, sales.orders c"


def expect_masked(row, **other):
    """Holds a row of MASKED against what its masks promise, in the driver's own types."""
    utc, zero = datetime.timezone.utc, "00000000-0000-0000-0000-000000000000"
    want = {"t": "a***@***", "dom": "ad***t", "a": ["hidden", None], "n": decimal.Decimal("12300.00"), "i": 1200, "f": 1200.0, "ia": [100, None, -100],
            "d": datetime.date(2026, 8, 1), "tz": datetime.datetime(2026, 8, 1, tzinfo=utc), "j": {"token": None, "n": [1, 2]}, "u": zero, "b": b"\x00",
            "yes": True, "ip": None, **other}
    for got, (column, value) in zip(row, want.items(), strict=True):
        got = str(got) if column == "u" else bytes(got) if column == "b" else got
        expect("masked " + column, got, value)


class Failure(Exception):
    pass


def expect(what, got, want):
    if got != want:
        raise Failure(f"{what}: got {got!r}, want {want!r}")


def run(client, checks):
    """Runs the checks in order and says how each went. The exit status is 1 if any failed."""
    failed = False
    for check in checks:
        try:
            check()
            print(f"ok   {client}: {check.__doc__}")
        except Exception:  # whatever a driver raises is a failed check
            failed = True
            print(f"FAIL {client}: {check.__doc__}\n{traceback.format_exc()}")
    sys.exit(failed)
