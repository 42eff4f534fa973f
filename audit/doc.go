// Package audit records who did what under which decision; append-only, chained, searchable, verifiable.
//
// # Entries
//
// A log is a directory of segments, audit-000000000001.jsonl and so on, named by the sequence number of their first
// entry. A segment is a text file with one JSON object a line. Every line has this layout, without any white space
// between its tokens:
//
//	{"v":1,"seq":7,"time":"2026-01-02T03:04:05.678901Z","type":"intent","id":"01K...", ... ,"prev":"<64 hex>","hash":"<64 hex>"}
//
// type is one of:
//
//   - intent: a request that was allowed, written before it runs (a Record)
//   - outcome: how that request ended; it carries the id of the intent and an Outcome under "outcome"
//   - request: a request that was turned down before it ran: Record and Outcome in one entry
//   - event: anything else (an Event under "event"), among them the log's own acts, whose names begin with "log."
//
// # Chain
//
// The bytes of a line before ,"hash":" are what its hash covers: hash is their SHA-256 in lower-case hex. prev is the
// hash of the entry before, also across segments, and 64 zeros in the first entry. Sequence numbers have no gaps. This
// is all that an outsider needs:
//
//	prev = "0" * 64
//	for line in lines:
//	    sealed, _, rest = line.rstrip("\n").rpartition(',"hash":"')
//	    entry = json.loads(line)
//	    assert hashlib.sha256(sealed.encode()).hexdigest() == entry["hash"] and entry["prev"] == prev
//	    prev = entry["hash"]
//
// # Journal
//
// An entry is first put into the journal, audit.journal beside the segments: a file of a fixed size that is written by way
// of memory, so that an append waits for no disk and costs no system call, and outlives the process all the same. It holds
// the end of the newest segment: two halves of its bytes and a header that says which, in two slots that are written in
// turn. At most SyncInterval later a half is written to the segment and brought to the disk, while the other is filled.
// Readers, Verify among them, take segment and journal as one. Open brings what a killed process left there to the segment. The
// journal goes on where the segment's file ends and never makes up for one that was cut.
//
// # Head
//
// A chain alone still verifies after its tail is cut. The head, head.jsonl in a directory of its own, says where the
// log ends. It has two slots of 512 bytes, each a JSON object and a line feed, written in turn so that a torn write leaves the
// other; the valid slot with the higher "gen" counts. It names the last entry (seq, hash), and up to which entry everything
// is known to be on the disk (synced). It is written after an entry and before that is released, so:
//
//   - log ahead of head: the process was killed between the two writes. Whole valid entries behind the head are kept
//     and noted. Nothing was released for them.
//   - log behind head: entries are missing. Verify fails and names the first. Only if the machine was started again
//     since (another boot id) and every missing entry is newer than the head's "synced" is it the loss that a power
//     cut may cause; then it is noted as lost.
//
// Open never hides such a finding by going on: it writes an alarm ("log.tail_missing", "log.damaged", "log.head_missing",
// "log.head_mismatch") as its first entry, leaves the segments as they are, and never reuses the numbers of missing
// entries, so Verify fails for good. A loss by power cut is written as "log.tail_lost".
//
// The head and the chain hold no secret. Who can write to both directories can forge both consistently; keep
// copies of the head elsewhere if that is a threat.
//
// # What is lost when
//
// An append returns when its entry is in the journal and in the head, so a killed process loses nothing that it
// released. Entries reach the disk at most SyncInterval (20 ms) later: a power cut loses at most the reads of that time.
// An intent that writes (Judgement.Write) is released only when it is on the disk. With SyncAlways every append waits for
// that, and a power cut loses nothing that was released. With SyncRelaxed none does, and the interval is RelaxedWindow (2 s):
// a power cut loses what was done in that time, writes among it. A torn last line is cut at the last whole entry when the log
// is opened, and noted. Concurrent appends share writes and fsyncs.
//
// When the disk does not take what is in the journal, appends of intents return ErrUnavailable; outcomes of what runs are
// taken as long as the journal has room. Nothing that was appended is given up: it is tried again until it is on the disk, and
// then the log notes that it was broken. Waiting is bounded by Config.Timeout, what waits by Config.JournalBytes.
package audit
