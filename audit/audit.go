// Package audit records who did what under which decision: append-only, chained, searchable, verifiable.
package audit
