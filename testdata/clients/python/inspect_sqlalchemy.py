"""Prints all that SQLAlchemy's inspector tells of a database: inspect_sqlalchemy.py URL"""

import pprint
import re
import sys

import sqlalchemy as sa

engine = sa.create_engine(sys.argv[1])
inspector = sa.inspect(engine)


def show(what, value):
    if isinstance(value, list):
        value = sorted(value, key=repr)
    print("==", what)
    print(re.sub(r" at 0x[0-9a-f]+", "", pprint.pformat(value, width=200)))


show("default schema", inspector.default_schema_name)
show("schemas", inspector.get_schema_names())
for schema in inspector.get_schema_names():
    for what in ("table_names", "view_names", "foreign_table_names", "enums"):
        show(f"{what} of {schema}", getattr(inspector, "get_" + what)(schema))
    if schema == "information_schema":
        continue
    for table in sorted(inspector.get_table_names(schema) + inspector.get_view_names(schema)):
        for what in ("columns", "pk_constraint", "foreign_keys", "indexes", "unique_constraints", "check_constraints", "table_comment", "table_oid"):
            show(f"{what} of {schema}.{table}", getattr(inspector, "get_" + what)(table, schema=schema))
    for view in sorted(inspector.get_view_names(schema)):
        show(f"definition of {schema}.{view}", inspector.get_view_definition(view, schema))
    metadata = sa.MetaData()
    metadata.reflect(engine, schema=schema, views=True)
    show(f"reflection of {schema}", [repr(t) for t in metadata.sorted_tables])
