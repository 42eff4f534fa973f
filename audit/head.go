package audit

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

const (
	headName = "head.jsonl"
	slotSize = 512
	headSize = 2 * slotSize
	crcKey   = `,"crc":"`
)

// position says where a log ends.
type position struct {
	Gen    uint64 `json:"gen"` // counts the writes of the head
	Seq    uint64 `json:"seq"`
	Hash   digest `json:"hash"`
	Synced uint64 `json:"synced"` // entries up to this one are on the disk
	Boot   string `json:"boot"`   // boot id of the machine
}

// head is the open head file. It is safe for concurrent use.
type head struct {
	mu      sync.Mutex // protects the following
	mapping *mapping
	now     position
	slot    [slotSize]byte
}

// openHead opens or creates the head in dir and returns what it said before; nil if there was none that is valid.
func openHead(dir string) (*head, *position, error) {
	if err := privateDir(dir); err != nil {
		return nil, nil, err
	}
	path := filepath.Join(dir, headName)
	old, err := readHead(dir)
	if err != nil && !errors.Is(err, errNoHead) {
		return nil, nil, err
	}
	m, err := openMapping(path, headSize)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the audit head: %w", err)
	}
	if err := lockFile(m.file); err != nil {
		return nil, nil, errors.Join(err, m.close())
	}
	h := &head{mapping: m, now: position{Hash: genesis}}
	if old != nil {
		h.now = *old
	}
	h.now.Boot = bootID()
	return h, old, nil
}

func (h *head) close() error { return h.mapping.close() }

// create writes the head of an empty log and brings it to the disk.
func (h *head) create() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.write(&h.now); err != nil {
		return err
	}
	return errors.Join(h.mapping.file.Sync(), syncDir(filepath.Dir(h.mapping.file.Name())))
}

// advance says that the log now ends at a mark. It must not return an error after part of it took effect: the slot that
// was not written still holds the position before.
func (h *head) advance(to mark) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := h.now
	next.Seq, next.Hash = to.seq, to.hash
	return h.write(&next)
}

// synced says that entries up to seq are on the disk.
func (h *head) synced(seq uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if seq <= h.now.Synced {
		return nil
	}
	next := h.now
	next.Synced = seq
	return h.write(&next)
}

func (h *head) write(next *position) error {
	gen := h.now.Gen + 1
	next.Gen = gen
	if err := h.mapping.write(appendSlot(h.slot[:0], next), int(gen%2)*slotSize); err != nil {
		return fmt.Errorf("writing the audit head: %w", err)
	}
	h.now = *next
	return nil
}

// appendSlot appends what a slot says, up to a line feed; what is left of the slot means nothing. All its values are of bounded
// length and need no escapes.
func appendSlot(b []byte, p *position) []byte {
	b = append(b, `{"v":1,"gen":`...)
	b = strconv.AppendUint(b, p.Gen, 10)
	b = strconv.AppendUint(append(b, `,"seq":`...), p.Seq, 10)
	b = append(append(b, `,"hash":"`...), p.Hash[:]...)
	b = strconv.AppendUint(append(b, `","synced":`...), p.Synced, 10)
	b = append(append(b, `,"boot":"`...), p.Boot...)
	b = append(b, '"')
	sealed := b
	b = appendCRC(append(b, crcKey...), sealed)
	return append(b, lineEnd+"\n"...)
}

// appendCRC appends the CRC-32C of a slot before its crc, in hex.
func appendCRC(b, sealed []byte) []byte {
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.Checksum(sealed, crcTable))
	return hex.AppendEncode(b, sum[:])
}

var crcTable = crc32.MakeTable(crc32.Castagnoli)

var errNoHead = errors.New("there is no valid audit head")

// readHead returns what the head in dir says, or errNoHead.
func readHead(dir string) (*position, error) {
	data, err := os.ReadFile(filepath.Join(dir, headName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoHead
	}
	if err != nil {
		return nil, fmt.Errorf("reading the audit head: %w", err)
	}
	var best *position
	for len(data) >= slotSize {
		if p, ok := parseSlot(data[:slotSize]); ok && (best == nil || p.Gen > best.Gen) {
			best = p
		}
		data = data[slotSize:]
	}
	if best == nil {
		return nil, errNoHead
	}
	return best, nil
}

func parseSlot(slot []byte) (*position, bool) {
	text, _, whole := bytes.Cut(slot, []byte{'\n'})
	i := bytes.LastIndex(text, []byte(crcKey))
	if !whole || i < 0 || string(text[i+len(crcKey):]) != string(appendCRC(nil, text[:i]))+lineEnd {
		return nil, false
	}
	var p position
	if json.Unmarshal(text, &p) != nil {
		return nil, false
	}
	return &p, true
}

// bootID identifies the machine's current boot; "" if the system does not tell.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	id := string(bytes.TrimSpace(b))
	if err != nil || !validID(id) {
		return ""
	}
	return id
}
