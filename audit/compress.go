package audit

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// A compressed segment is a gzip file of many members, each with one block of the segment, so that any place in it can be
// read without all that comes before. Each member says in an extra field how long it is.
const (
	gzipSuffix = ".gz"
	gzipBlock  = 256 << 10 // bytes of the segment in one member
	// A member begins with ten bytes, the length of the extra field, and the field: "IL", its length (8), and the size.
	gzipSizeAt = 16
	gzipHeader = gzipSizeAt + 8
)

// compressSegment replaces a closed segment by its compressed form. At every moment one of the two is there, whole.
func compressSegment(dir, name string) error {
	path := filepath.Join(dir, name)
	plain, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("compressing an audit segment: %w", err)
	}
	defer plain.Close()
	tmp := path + gzipSuffix + ".tmp"
	size, err := writeCompressed(tmp, plain)
	if err == nil {
		err = checkCompressed(tmp, size)
	}
	if err == nil {
		err = os.Rename(tmp, path+gzipSuffix)
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err == nil {
		err = os.Remove(path)
	} else {
		_ = os.Remove(tmp)
	}
	if err != nil {
		return fmt.Errorf("compressing an audit segment: %w", err)
	}
	return nil
}

// writeCompressed returns how many bytes of the segment it has written.
func writeCompressed(path string, plain io.Reader) (size int64, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	members, err := newMemberWriter()
	if err != nil {
		return 0, err
	}
	for block := make([]byte, gzipBlock); ; {
		n, err := io.ReadFull(plain, block)
		if n > 0 {
			member, err := members.member(block[:n])
			if err != nil {
				return size, err
			}
			if _, err := f.Write(member); err != nil {
				return size, err
			}
			size += int64(n)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return size, err
		}
	}
	return size, f.Sync()
}

// memberWriter compresses blocks, one after the other.
type memberWriter struct {
	out  bytes.Buffer
	z    *gzip.Writer
	back gzipSource // decompresses what was compressed
}

func newMemberWriter() (*memberWriter, error) {
	w := &memberWriter{}
	var err error
	w.z, err = gzip.NewWriterLevel(&w.out, gzip.BestSpeed)
	return w, err
}

// member returns a block as a member, which is good until the next call. It is certain to decompress to the block.
func (w *memberWriter) member(block []byte) ([]byte, error) {
	w.out.Reset()
	w.z.Reset(&w.out)
	w.z.Extra = append([]byte("IL\x08\x00"), make([]byte, 8)...)
	if _, err := w.z.Write(block); err != nil {
		return nil, err
	}
	if err := w.z.Close(); err != nil {
		return nil, err
	}
	member := w.out.Bytes()
	binary.LittleEndian.PutUint64(member[gzipSizeAt:], uint64(len(member)))
	if err := w.back.decompress(bytes.NewReader(member)); err != nil {
		return nil, err
	}
	if !bytes.Equal(w.back.data, block) {
		return nil, errors.New("the compressed form is not equal")
	}
	return member, nil
}

// checkCompressed holds the file against what was written to it: its members, and the size of what they decompress to.
func checkCompressed(path string, size int64) error {
	s, err := openSource(path)
	if err != nil {
		return err
	}
	defer s.Close()
	if s.size != size {
		return errors.New("the compressed form is not whole")
	}
	return nil
}

// source is a segment that is open for reading, compressed or not.
type source struct {
	io.ReaderAt
	io.Closer
	size int64
}

// reader reads from an offset to the end.
func (s *source) reader(from int64) io.Reader {
	return io.NewSectionReader(s.ReaderAt, from, max(s.size-from, 0))
}

// openSegment opens a segment by its name, whichever form it has now.
func openSegment(dir, name string) (*source, error) {
	path := filepath.Join(dir, name)
	s, err := openSource(path)
	if errors.Is(err, fs.ErrNotExist) {
		s, err = openSource(path + gzipSuffix)
	}
	if err != nil {
		return nil, fmt.Errorf("opening an audit segment: %w", err)
	}
	if f, plain := s.ReaderAt.(*os.File); plain {
		if err := s.extend(dir, SegmentNumber(name), f); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

func openSource(path string) (*source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s := &source{f, f, info.Size()}
	magic := make([]byte, 2)
	if n, _ := f.ReadAt(magic, 0); n < 2 || magic[0] != 0x1f || magic[1] != 0x8b {
		return s, nil
	}
	z := &gzipSource{file: f, cached: -1}
	if s.size, err = z.scan(info.Size()); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	s.ReaderAt = z
	return s, nil
}

// gzipSource reads any place of a compressed segment.
type gzipSource struct {
	file    *os.File
	members []gzipPart

	mu     sync.Mutex // protects the following
	cached int        // index of the member in data
	data   []byte
	z      *gzip.Reader // nil before the first use
}

type gzipPart struct {
	at, size int64 // in the file
	from     int64 // offset in the segment
}

var errCompressed = errors.New("the compressed audit segment is damaged")

// scan finds the members and returns the size of the segment.
func (z *gzipSource) scan(size int64) (int64, error) {
	var whole int64
	for at := int64(0); at < size; {
		head := make([]byte, gzipHeader)
		if _, err := z.file.ReadAt(head, at); err != nil || string(head[12:16]) != "IL\x08\x00" {
			return 0, errCompressed
		}
		n := int64(binary.LittleEndian.Uint64(head[gzipSizeAt:]))
		if n < gzipHeader || n > size-at {
			return 0, errCompressed
		}
		tail := make([]byte, 4)
		if _, err := z.file.ReadAt(tail, at+n-4); err != nil {
			return 0, errCompressed
		}
		z.members = append(z.members, gzipPart{at, n, whole})
		whole += int64(binary.LittleEndian.Uint32(tail))
		at += n
	}
	return whole, nil
}

// ReadAt implements io.ReaderAt.
func (z *gzipSource) ReadAt(b []byte, off int64) (n int, err error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	for n < len(b) {
		i := len(z.members) - 1
		for i >= 0 && z.members[i].from > off {
			i--
		}
		if i < 0 {
			return n, io.EOF
		}
		if err := z.load(i); err != nil {
			return n, err
		}
		within := off - z.members[i].from
		if within >= int64(len(z.data)) {
			return n, io.EOF
		}
		c := copy(b[n:], z.data[within:])
		n, off = n+c, off+int64(c)
	}
	return n, nil
}

func (z *gzipSource) load(i int) error {
	if z.cached == i {
		return nil
	}
	m := z.members[i]
	z.cached = -1
	if err := z.decompress(bufio.NewReader(io.NewSectionReader(z.file, m.at, m.size))); err != nil {
		return errors.Join(errCompressed, err)
	}
	z.cached = i
	return nil
}

// decompress reads a member into z.data.
func (z *gzipSource) decompress(member io.Reader) error {
	if z.z == nil {
		z.z, z.data = new(gzip.Reader), make([]byte, 0, gzipBlock+1)
	}
	if err := z.z.Reset(member); err != nil {
		return err
	}
	z.z.Multistream(false)
	for z.data = z.data[:0]; len(z.data) <= gzipBlock; {
		n, err := z.z.Read(z.data[len(z.data):cap(z.data)])
		z.data = z.data[:len(z.data)+n]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return errors.New("a block is longer than any that is written")
}
