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
	"strings"
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
	Gen     uint64 `json:"gen"` // counts the writes of the head
	Seq     uint64 `json:"seq"`
	Hash    string `json:"hash"`
	Segment string `json:"segment"`
	Size    int64  `json:"size"`
	Synced  uint64 `json:"synced"` // entries up to this one are on the disk
	Boot    string `json:"boot"`   // boot id of the machine
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
	h := &head{mapping: m, now: position{Hash: string(genesis[:])}}
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
	if err := h.write(h.now); err != nil {
		return err
	}
	return errors.Join(h.mapping.file.Sync(), syncDir(filepath.Dir(h.mapping.file.Name())))
}

// advance says that the log now ends at a mark. It must not return an error after part of it took effect: the slot that
// was not written still holds the position before.
func (h *head) advance(to mark, segment string, size int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := h.now
	next.Seq, next.Hash, next.Segment, next.Size = to.seq, string(to.hash[:]), segment, size
	return h.write(next)
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
	return h.write(next)
}

func (h *head) write(next position) error {
	next.Gen = h.now.Gen + 1
	appendSlot(h.slot[:0], &next)
	if err := h.mapping.write(h.slot[:], int(next.Gen%2)*slotSize); err != nil {
		return fmt.Errorf("writing the audit head: %w", err)
	}
	h.now = next
	return nil
}

// appendSlot fills a slot. All its values are of bounded length and need no escapes.
func appendSlot(b []byte, p *position) []byte {
	b = append(b, `{"v":1`...)
	b = strconv.AppendUint(append(b, `,"gen":`...), p.Gen, 10)
	b = strconv.AppendUint(append(b, `,"seq":`...), p.Seq, 10)
	b = append(append(b, `,"hash":"`...), p.Hash...)
	b = append(append(b, `","segment":"`...), p.Segment...)
	b = strconv.AppendInt(append(b, `","size":`...), p.Size, 10)
	b = strconv.AppendUint(append(b, `,"synced":`...), p.Synced, 10)
	b = append(append(b, `,"boot":"`...), p.Boot...)
	b = append(b, '"')
	sealed := b
	b = appendCRC(append(b, crcKey...), sealed)
	b = append(b, lineEnd...)
	return append(b, padding[len(b):]...)
}

// appendCRC appends the CRC-32C of a slot before its crc, in hex.
func appendCRC(b, sealed []byte) []byte {
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.Checksum(sealed, crcTable))
	return hex.AppendEncode(b, sum[:])
}

// padding is an empty slot.
var padding = strings.Repeat(" ", slotSize-1) + "\n"

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
	text := bytes.TrimRight(slot, " \n")
	i := bytes.LastIndex(text, []byte(crcKey))
	if i < 0 || string(text[i+len(crcKey):]) != string(appendCRC(nil, text[:i]))+lineEnd {
		return nil, false
	}
	var p position
	if json.Unmarshal(text, &p) != nil || len(p.Hash) != hexSize {
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
