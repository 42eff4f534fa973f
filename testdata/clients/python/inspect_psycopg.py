"""Prints what psycopg 3 and psycopg2 find out about types: inspect_psycopg.py URL"""

import sys

import psycopg
import psycopg.types
import psycopg2
import psycopg2.extras
from psycopg.types.composite import CompositeInfo
from psycopg.types.enum import EnumInfo
from psycopg.types.multirange import MultirangeInfo
from psycopg.types.range import RangeInfo

TYPES = ["sales.order_status", "crm.customers", "crm.customer_directory", "hr.salaries", "sales.orders", "support.tickets", "int4range", "hstore", "text"]

with psycopg.connect(sys.argv[1], autocommit=True) as conn:
    for info in (psycopg.types.TypeInfo, EnumInfo, CompositeInfo, RangeInfo, MultirangeInfo):
        for i, name in enumerate(TYPES):  # which is asked for is no secret, and not printed
            found = info.fetch(conn, name)
            print(info.__name__, i, found and vars(found))

conn = psycopg2.connect(sys.argv[1])
conn.autocommit = True
print("hstore", psycopg2.extras.HstoreAdapter.get_oids(conn))
for i, name in enumerate(TYPES):
    try:
        caster = psycopg2.extras.register_composite(name, conn)
        print("composite", i, caster.oid, caster.array_oid, caster.attnames, caster.atttypes)
    except psycopg2.ProgrammingError as e:
        print("composite", i, str(e).replace(name, "it"))
