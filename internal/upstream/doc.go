// Package upstream owns connections to governed databases: dial, pool, pin, cancel, scan.
package upstream
