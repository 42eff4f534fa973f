import decimal

import sqlalchemy as sa
from sqlalchemy import exc

from scenario import BIG, BIG_ROWS, HOST, KEY, MASKED, POINT, PORT, REFUSED, ROOT, SOURCE, TYPES, expect, expect_masked, run

engine = sa.create_engine(
    sa.engine.URL.create("postgresql+psycopg2", "ana", KEY, HOST, int(PORT), SOURCE, {"sslmode": "verify-full", "sslrootcert": ROOT}),
    pool_size=2, pool_pre_ping=True)


def types():
    "reads typed values"
    with engine.connect() as conn:
        row = conn.execute(sa.text(TYPES.replace(":", "\\:"))).one()
        expect("numeric, NULL, text", (row.n, row.z, row.s), (decimal.Decimal("12345678901234567890.5"), None, "Zoë"))


def masked():
    "reads masked columns of every kind of type"
    with engine.connect() as conn:
        expect_masked(conn.execute(sa.text(MASKED)).one())


def expression():
    "runs a statement of its expression language, a hundred times"
    customers = sa.table("customers", sa.column("id"), sa.column("name"), sa.column("region"), schema="crm")
    query = sa.select(customers.c.region, sa.func.count()).where(customers.c.id < sa.bindparam("n")).group_by(customers.c.region)
    with engine.connect() as conn:
        for _ in range(100):
            expect("regions", len(conn.execute(query, {"n": 500}).all()), 3)


def refused():
    "sees a refusal in a transaction and goes on"
    with engine.connect() as conn:
        try:
            with conn.begin():
                conn.execute(sa.text(POINT.format(1)))
                conn.execute(sa.text(REFUSED))
            raise AssertionError("not refused")
        except exc.ProgrammingError as e:
            expect("fields", (e.orig.pgcode, bool(e.orig.diag.message_detail), bool(e.orig.diag.message_hint)), ("42501", True, True))
        expect("after", conn.execute(sa.text("select 1")).scalar(), 1)


def big():
    "streams a big result"
    with engine.connect() as conn:
        result = conn.execution_options(stream_results=True).execute(sa.text(BIG))
        expect("rows", sum(1 for _ in result), BIG_ROWS)


def inspects():
    "inspects what may be seen, and nothing else"
    inspector = sa.inspect(engine)
    expect("schemas", {"crm", "sales"} <= set(inspector.get_schema_names()), True)
    expect("hidden schema", "hr" in inspector.get_schema_names(), False)
    for table in inspector.get_table_names("crm") + inspector.get_view_names("crm"):
        for of in ("columns", "pk_constraint", "foreign_keys", "indexes", "unique_constraints", "check_constraints", "table_comment"):
            getattr(inspector, "get_" + of)(table, "crm")
    names = {c["name"] for c in inspector.get_columns("customers", "crm")}
    expect("columns", ("name" in names, "ssn" in names), (True, False))


run("SQLAlchemy", [types, masked, expression, refused, big, inspects])
