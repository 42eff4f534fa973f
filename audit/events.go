package audit

// The events that a gateway writes. The log's own ("log.") are listed where they are written.
const (
	// SessionOpened is a connection of the PostgreSQL door whose client has proved who it is. One that has not is a
	// request that was refused with kind unauthenticated.
	SessionOpened = "session.opened"
	SessionClosed = "session.closed" // statements, duration_ms

	RulesetApplied  = "ruleset.applied" // number, digest, by
	RulesetBroken   = "ruleset.broken"  // digest, problems, at: the document on disk, which is not in force
	CatalogChanged  = "catalog.changed" // version, before, changes, first: what is different, by name
	SourceAvailable = "source.available"
	SourceLost      = "source.unavailable" // reason
	// FailuresOmitted says how many requests without a valid key were turned away since the last such event without a
	// record of their own, because there were too many.
	FailuresOmitted = "failures.omitted" // count
	// WitnessAlarm says that the server's own description of a result was not what the analyser predicted. Its id is
	// that of the decision, whose result was withheld.
	WitnessAlarm = "witness.alarm"

	// The life of a statement that a policy held: approval, requester, source; by whom. Its claim and how it ended name the
	// run, which is the decision id of its execution.
	ApprovalQueued   = "approval.queued"
	ApprovalVote     = "approval.vote" // vote
	ApprovalApproved = "approval.approved"
	ApprovalRejected = "approval.rejected"
	ApprovalExpired  = "approval.expired"
	ApprovalClaimed  = "approval.claimed"
	ApprovalExecuted = "approval.executed" // rows, run
	ApprovalFailed   = "approval.failed"   // run
	ApprovalVoid     = "approval.void"     // run
	ApprovalUnknown  = "approval.unknown"

	KeyCreated = "key.created" // key, identity, expires
	KeyRevoked = "key.revoked" // key, identity

	SourceSampled = "source.sampled" // source, catalog, rows: values are about to be looked at for proposals, of so many rows a table at most

	AuditExported = "audit.exported" // from, to, sha256
	// AuditPruned says that the entries up to "to", whose hash is "hash", were removed after they had been exported. It
	// is where the rest of the chain is anchored.
	AuditPruned = "audit.pruned"
)
