# InterLock. `make demo` shows it, `make test` proves it; both set up what is missing.

GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
PACKAGES ?= ./...
# Where the servers are that bench-mcp compares with.
MCP_SERVERS ?= $(or $(TMPDIR),/tmp)/interlock-mcp-servers
TOOL      = $(GO) tool -modfile=.ci/tools.mod

.PHONY: help setup build demo test lint bench bench-mcp bench-audit soak clients clients-suites microbench oracle regress conformance clients-mcp vuln fmt clean

help:
	@echo 'make demo    start a throwaway PostgreSQL with sample data and InterLock in front of it'
	@echo 'make test    everything that CI runs'
	@echo 'make build   bin/interlock'
	@echo 'make lint    formatting, go vet, staticcheck, docker compose config'
	@echo 'make bench   InterLock beside PgBouncer, pgpool, gatewayd and a direct connection; BENCH="-rounds 3" sets flags'
	@echo 'make bench-mcp  InterLock beside DBHub and MCP Toolbox (needs the network and Node.js)'
	@echo 'make bench-audit  searches in an audit log of ten million requests (ten minutes, 3 GB)'
	@echo 'make soak    mixed clients, refusals, cancels and kills for SOAK=10m, then what is left of them'
	@echo 'make clients psql, drivers in seven languages and ORMs through the demo; CLIENTS="node java" chooses'
	@echo 'make clients-suites  the test suites of pgx, lib/pq and node-postgres directly and through the gateway; SUITES="pq" chooses'
	@echo 'make microbench  what the parts cost'
	@echo 'make oracle  PostgreSQL judges the analyser, for an hour: 100,000 invented statements, its own regression tests'
	@echo 'make regress PostgreSQL'\''s own regression tests directly and through the gateway, byte for byte; about ten minutes'
	@echo 'make conformance  the official MCP conformance suite (needs the network and Node.js)'
	@echo 'make clients-mcp  MCP clients of other people against the demo (needs the network and Node.js)'
	@echo 'make vuln    known vulnerabilities in dependencies (needs the network)'

setup:
	@.ci/setup

build: setup
	@mkdir -p bin
	$(GO) build -ldflags '-s -w -X main.version=$(VERSION)' -o bin/interlock ./cmd/interlock

demo: build
	@bin/interlock demo

test: build lint
	$(TOOL) gotestsum --format pkgname-and-test-fails --raw-command -- .ci/tests

lint: setup
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "not gofmt-ed: $$unformatted"; exit 1; }
	$(GO) vet $(PACKAGES)
	$(TOOL) staticcheck $(PACKAGES)
	@.ci/compose-config

bench: build
	@.ci/setup pgbouncer
	@command -v pgpool >/dev/null || .ci/setup pgpool2 || echo 'pgpool cannot be installed here'
	@test -x bin/gatewayd || internal/bench/gatewayd-build bin/gatewayd || echo 'gatewayd cannot be built here'
	$(GO) run ./internal/bench $(BENCH)

bench-mcp: build
	@testdata/clients/mcp/install "$(MCP_SERVERS)" internal/bench
	$(GO) run ./internal/bench -mcp "$(MCP_SERVERS)" $(BENCH)

bench-audit: build
	AUDIT_BENCH_RECORDS=10000000 AUDIT_BENCH_PROGRAM=$(CURDIR)/bin/interlock $(GO) test -run '^$$' -bench 'Indexing|Search' -benchtime 3x -timeout 1h ./internal/store

soak: build
	$(GO) run ./internal/bench -scale 1 -soak $(or $(SOAK),10m)

clients: build
	@.ci/setup python3-psycopg2 python3-psycopg python3-asyncpg python3-sqlalchemy python3-pyodbc libdbd-pg-perl ruby-pg \
		odbc-postgresql libpostgresql-jdbc-java default-jdk-headless nodejs npm
	$(GO) build -o bin/bench ./internal/bench
	@bin/interlock demo -- testdata/clients/run $(CLIENTS)

clients-suites: build
	@.ci/setup python3 curl nodejs npm
	@testdata/clients/suites/run $(SUITES)

microbench: setup
	$(GO) test -run '^$$' -bench . -benchmem $(PACKAGES)

oracle: setup
	regress=$$(.ci/postgres-source "$${TMPDIR:-/tmp}/interlock-postgres-source") && \
		ORACLE_GENERATE=100000 ORACLE_CANARIES=100000 ORACLE_REGRESS="$$regress" $(GO) test -timeout 6h -v -run Oracle ./internal/oracle

regress: build
	@.ci/setup postgresql-server-dev-15 python3
	source=$$(.ci/postgres-source "$${TMPDIR:-/tmp}/interlock-postgres-source") && testdata/regress/run "$$source" $(TESTS)

conformance: build
	@testdata/clients/mcp/conformance

clients-mcp: build
	$(GO) build -o bin/bench ./internal/bench
	@testdata/clients/mcp/run

vuln:
	$(TOOL) govulncheck $(PACKAGES)

fmt:
	gofmt -w $$(git ls-files '*.go')

clean:
	rm -rf bin
