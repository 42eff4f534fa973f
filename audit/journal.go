package audit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const journalName = "audit.journal"

// journal is the end of the newest segment, on its way to the segment's file. Entries are put here first, which costs no
// system call and needs no disk, and outlives the process all the same. It has two halves: while one is filled, the
// other is brought to the segment. Its owner is who holds Log.mu.
//
// The file begins with a header, from which readers learn which bytes of the segment are here, and then come the halves.
// The header has two slots, written in turn, so that the process may be killed at any moment. A half is reused when what
// it holds is on the disk.
type journal struct {
	mapping *mapping
	size    int // of a half
	at      header
	slot    [slotSize]byte
}

// header says where the bytes of a segment are. half i holds those from base on, length bytes of them.
type header struct {
	gen     uint64 // counts the writes of the header
	segment uint64 // number of its first entry; 0 if the journal holds nothing
	written int64  // size of the segment's file
	current int    // the half that is being filled
	halves  [2]half
}

type half struct{ base, length int64 }

func (h half) end() int64 { return h.base + h.length }

const (
	journalMagic = "interlock journal 1\n\x00\x00\x00\x00"
	headerText   = len(journalMagic) + 8*8
)

// append appends the header as it stands in a slot, with a checksum, since a slot may be half written.
func (h *header) append(b []byte) []byte {
	b = append(b, journalMagic...)
	for _, n := range [...]uint64{h.gen, h.segment, uint64(h.written), uint64(h.current),
		uint64(h.halves[0].base), uint64(h.halves[0].length), uint64(h.halves[1].base), uint64(h.halves[1].length)} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crcTable))
}

func decodeHeader(b []byte) (h header, ok bool) {
	if len(b) < headerText+4 || string(b[:len(journalMagic)]) != journalMagic ||
		binary.LittleEndian.Uint32(b[headerText:]) != crc32.Checksum(b[:headerText], crcTable) {
		return h, false
	}
	n := func(i int) uint64 { return binary.LittleEndian.Uint64(b[len(journalMagic)+8*i:]) }
	h = header{n(0), n(1), int64(n(2)), int(n(3) & 1), [2]half{{int64(n(4)), int64(n(5))}, {int64(n(6)), int64(n(7))}}}
	return h, true
}

// openJournal opens or creates the journal of a log. What it holds must have been taken over before; see replay.
func openJournal(dir string, bytes int64) (*journal, error) {
	size := int(bytes / 2)
	m, err := openMapping(filepath.Join(dir, journalName), headSize+2*size)
	if err != nil {
		return nil, fmt.Errorf("opening the audit journal: %w", err)
	}
	j := &journal{mapping: m, size: size}
	if h, ok := bestHeader(m.mem[:headSize]); ok {
		j.at.gen = h.gen
	}
	return j, j.begin(0, 0)
}

func (j *journal) putHeader() error {
	j.at.gen++
	return j.mapping.write(j.at.append(j.slot[:0]), int(j.at.gen%2)*slotSize)
}

// begin starts over for a segment whose file has a size. Number 0 empties the journal.
func (j *journal) begin(segment uint64, size int64) error {
	j.at = header{gen: j.at.gen, segment: segment, written: size, halves: [2]half{{base: size}, {base: size}}}
	return j.putHeader()
}

// end is the size of the segment, with what is still here.
func (j *journal) end() int64 { return j.at.halves[j.at.current].end() }

// fits reports if n bytes can be added to the half that is being filled.
func (j *journal) fits(n int) bool { return int(j.at.halves[j.at.current].length)+n <= j.size }

// half is how much of a half is filled.
func (j *journal) filled() int { return int(j.at.halves[j.at.current].length) }

// add puts bytes behind the others. They count once the header says so.
func (j *journal) add(b []byte) error {
	h := &j.at.halves[j.at.current]
	if err := j.mapping.write(b, headSize+j.at.current*j.size+int(h.length)); err != nil {
		return err
	}
	h.length += int64(len(b))
	if err := j.putHeader(); err != nil {
		h.length -= int64(len(b))
		return err
	}
	return nil
}

// drop takes back the last n bytes.
func (j *journal) drop(n int) error {
	j.at.halves[j.at.current].length -= int64(n)
	return j.putHeader()
}

// swap begins to fill the other half, which must be free, and returns the bytes of this one.
func (j *journal) swap() ([]byte, error) {
	was, next := j.at, &j.at
	next.current = 1 - was.current
	next.halves[next.current] = half{base: was.halves[was.current].end()}
	if err := j.putHeader(); err != nil {
		j.at = was // readers find the same bytes either way
		return nil, err
	}
	return j.other(), nil
}

// other is what the half that is not being filled holds. It is not changed until the next swap.
func (j *journal) other() []byte {
	i := 1 - j.at.current
	from := headSize + i*j.size
	return j.mapping.mem[from : from+int(j.at.halves[i].length)]
}

// wrote notes that the segment's file has a size now.
func (j *journal) wrote(size int64) error {
	j.at.written = size
	return j.putHeader()
}

// extend makes a source, which is a segment's file, go on with what of the segment is in the journal. It works while
// the journal is being written: what was moved meanwhile is looked for again. A file that is smaller than the journal knows
// was cut; nothing makes up for that.
func (s *source) extend(dir string, segment uint64, file *os.File) error {
	j, err := os.Open(filepath.Join(dir, journalName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the audit journal: %w", err)
	}
	defer j.Close()
	for range 100 {
		h, ok := readHeader(j)
		info, err := file.Stat() // behind the header, which knows of no byte of the file that is not there
		if err != nil {
			return err
		}
		s.size = info.Size()
		if !ok || h.segment != segment || s.size < h.written {
			return nil
		}
		rest, err := h.read(j, s.size)
		if err != nil {
			return fmt.Errorf("reading the audit journal: %w", err)
		}
		// A half is filled anew only when the header has said that the file has what it held.
		if now, ok := readHeader(j); ok && now.segment == segment && now.written == h.written {
			s.ReaderAt = &extended{file, s.size, rest}
			s.size += int64(len(rest))
			return nil
		}
	}
	return errors.New("reading the audit journal: it changes too quickly")
}

// extended is a file with bytes behind it.
type extended struct {
	file *os.File
	size int64 // of the file, as far as it counts
	rest []byte
}

// ReadAt implements io.ReaderAt.
func (e *extended) ReadAt(b []byte, off int64) (n int, err error) {
	if off < e.size {
		if n, err = e.file.ReadAt(b[:min(int64(len(b)), e.size-off)], off); err != nil {
			return n, err
		}
	}
	if n < len(b) {
		from := min(off+int64(n)-e.size, int64(len(e.rest)))
		n += copy(b[n:], e.rest[from:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func readHeader(f *os.File) (header, bool) {
	b := make([]byte, headSize)
	for range 100 { // while both slots are being written
		if _, err := f.ReadAt(b, 0); err != nil {
			return header{}, false
		}
		if h, ok := bestHeader(b); ok {
			return h, true
		}
	}
	return header{}, false
}

// bestHeader returns the newest header of two slots.
func bestHeader(slots []byte) (best header, ok bool) {
	for i := range 2 {
		if h, valid := decodeHeader(slots[i*slotSize:]); valid && (!ok || h.gen > best.gen) {
			best, ok = h, true
		}
	}
	return best, ok
}

// read returns the bytes from an offset of the segment on.
func (h *header) read(f *os.File, from int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var all []byte
	for _, i := range [...]int{1 - h.current, h.current} {
		part, size := h.halves[i], (info.Size()-headSize)/2
		if from < part.base || from >= part.end() || part.length > size {
			continue
		}
		b := make([]byte, part.end()-from)
		if _, err := f.ReadAt(b, headSize+int64(i)*size+from-part.base); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		all, from = append(all, b...), part.end()
	}
	return all, nil
}
