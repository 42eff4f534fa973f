"""Prints all that psqlODBC's catalog functions tell of a database: inspect_odbc.py HOST:PORT DATABASE USER PASSWORD [ROOT]

With a ROOT certificate the connection is verified, without one it is not encrypted.
"""

import sys

import pyodbc

address, database, user, password = sys.argv[1:5]
host, port = address.split(":")
tls = f"SSLmode=verify-full;pqopt={{sslrootcert={sys.argv[5]}}}" if len(sys.argv) > 5 else "SSLmode=disable;ConnSettings=set role gateway"
conn = pyodbc.connect(f"Driver=PostgreSQL Unicode;Server={host};Port={port};Database={database};Uid={user};Pwd={password};{tls}", autocommit=True)


def show(what, rows):
    print("==", what)
    for row in sorted((list(r) for r in rows), key=repr):
        print(row)


cursor = conn.cursor()
show("types", cursor.getTypeInfo().fetchall())
tables = cursor.tables().fetchall()
show("tables", tables)
show("procedures", cursor.procedures().fetchall())
show("arguments", cursor.procedureColumns().fetchall())
show("columns", cursor.columns().fetchall())
for schema, table in sorted({(t.table_schem, t.table_name) for t in tables if t.table_schem not in ("pg_catalog", "information_schema")}):
    show(f"keys of {schema}.{table}", cursor.primaryKeys(table, schema=schema).fetchall())
    show(f"foreign keys of {schema}.{table}", cursor.foreignKeys(foreignTable=table, foreignSchema=schema).fetchall())
    show(f"foreign keys to {schema}.{table}", cursor.foreignKeys(table=table, schema=schema).fetchall())
    show(f"row ids of {schema}.{table}", cursor.rowIdColumns(table, schema=schema).fetchall())
    # The number of rows and pages is an estimate that VACUUM changes.
    show(f"indexes of {schema}.{table}", [list(r)[:10] for r in cursor.statistics(table, schema=schema, unique=False)])
