package policy

// How long a session of the PostgreSQL door keeps a connection to its source.
const (
	PoolSession     = "session"     // from its beginning to its end
	PoolTransaction = "transaction" // for a transaction at a time, as far as it leaves nothing behind
)

// PoolModes are the values that pool_mode may have. "" is session.
var PoolModes = []string{PoolSession, PoolTransaction}
