#!/bin/sh
# Loads the sample business when the database is made. The gateway's login gets its password from the environment.
set -eu
psql -v ON_ERROR_STOP=1 -v gateway_password="$GATEWAY_PASSWORD" -U postgres -d "$POSTGRES_DB" \
	-f /docker-entrypoint-initdb.d/shop.sql.in
