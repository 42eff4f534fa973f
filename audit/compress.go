package audit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// A compressed segment is a file of many zstd frames (RFC 8878), each with one block of the segment, so that any place in
// it can be read without all that comes before. Behind them, in a frame that decoders skip, stands how long each one is:
// the seek table of the Zstandard Seekable Format 0.1.0.
const (
	zstdSuffix = ".zst"
	zstdBlock  = 256 << 10 // bytes of the segment in one frame

	skippableMagic = 0x184d2a5e
	seekableMagic  = 0x8f92eab1
	seekHeader     = 4 + 4     // magic, size of what follows
	seekEntry      = 4 + 4     // size of a frame, size of its block
	seekFooter     = 4 + 1 + 4 // frames, descriptor (none of its flags is set), magic
)

// compressSegment replaces a closed segment by its compressed form. At every moment one of the two is there, whole.
func compressSegment(dir, name string) error {
	path := filepath.Join(dir, name)
	plain, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("compressing an audit segment: %w", err)
	}
	defer plain.Close()
	tmp := path + zstdSuffix + ".tmp"
	size, err := writeCompressed(tmp, plain)
	if err == nil {
		err = checkCompressed(tmp, size)
	}
	if err == nil {
		err = os.Rename(tmp, path+zstdSuffix)
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
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(zstdBlock))
	if err != nil {
		return 0, err
	}
	frames := frameWriter{z: z}
	for block := make([]byte, zstdBlock); ; {
		n, err := io.ReadFull(plain, block)
		if n > 0 {
			frame, err := frames.frame(block[:n])
			if err != nil {
				return size, err
			}
			if _, err := f.Write(frame); err != nil {
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
	if _, err := f.Write(frames.seekTable()); err != nil {
		return size, err
	}
	return size, f.Sync()
}

// frameWriter compresses blocks, one after the other.
type frameWriter struct {
	z         *zstd.Encoder
	out, back []byte
	entries   []byte // of the seek table
}

// frame returns a block as a frame, which is good until the next call. It is certain to decompress to the block.
func (w *frameWriter) frame(block []byte) ([]byte, error) {
	w.out = w.z.EncodeAll(block, w.out[:0])
	var err error
	if w.back, err = decompress(w.out, w.back); err != nil {
		return nil, err
	}
	if !bytes.Equal(w.back, block) {
		return nil, errors.New("the compressed form is not equal")
	}
	w.entries = binary.LittleEndian.AppendUint32(w.entries, uint32(len(w.out)))
	w.entries = binary.LittleEndian.AppendUint32(w.entries, uint32(len(block)))
	return w.out, nil
}

func (w *frameWriter) seekTable() []byte {
	b := binary.LittleEndian.AppendUint32(nil, skippableMagic)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(w.entries)+seekFooter))
	b = append(b, w.entries...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(w.entries)/seekEntry))
	return binary.LittleEndian.AppendUint32(append(b, 0), seekableMagic)
}

// decoder is what all segments are decompressed with. It is safe for concurrent use.
var decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(zstdBlock))
})

// decompress returns the block of a frame. It may use the memory of to.
func decompress(frame, to []byte) ([]byte, error) {
	z, err := decoder()
	if err != nil {
		return nil, err
	}
	if to == nil {
		to = make([]byte, 0, zstdBlock)
	}
	return z.DecodeAll(frame, to[:0])
}

// checkCompressed holds the file against what was written to it: its frames, and the size of what they decompress to.
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
		s, err = openSource(path + zstdSuffix)
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
	magic := make([]byte, 4)
	if n, _ := f.ReadAt(magic, 0); n < 4 || binary.LittleEndian.Uint32(magic) != zstdMagic {
		return s, nil
	}
	z := &zstdSource{file: f, cached: -1}
	if s.size, err = z.scan(info.Size()); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	s.ReaderAt = z
	return s, nil
}

const zstdMagic = 0xfd2fb528

// zstdSource reads any place of a compressed segment.
type zstdSource struct {
	file   *os.File
	frames []zstdFrame

	mu         sync.Mutex // protects the following
	cached     int        // index of the frame in data
	data, read []byte
}

type zstdFrame struct {
	at, size int64 // in the file
	from, to int64 // offsets in the segment
}

var errCompressed = errors.New("the compressed audit segment is damaged")

// scan reads the seek table and returns the size of the segment.
func (z *zstdSource) scan(size int64) (int64, error) {
	footer := make([]byte, seekFooter)
	if _, err := z.file.ReadAt(footer, size-seekFooter); err != nil || binary.LittleEndian.Uint32(footer[5:]) != seekableMagic {
		return 0, errCompressed
	}
	n := int64(binary.LittleEndian.Uint32(footer))
	end := size - seekFooter - n*seekEntry - seekHeader // of the frames
	if end < 0 || footer[4] != 0 {
		return 0, errCompressed
	}
	table := make([]byte, n*seekEntry)
	if _, err := z.file.ReadAt(table, end+seekHeader); err != nil {
		return 0, errCompressed
	}
	var last zstdFrame
	for ; len(table) > 0; table = table[seekEntry:] {
		packed, whole := binary.LittleEndian.Uint32(table), binary.LittleEndian.Uint32(table[4:])
		if whole > zstdBlock || packed > 2*zstdBlock {
			return 0, errCompressed
		}
		last = zstdFrame{at: last.at + last.size, size: int64(packed), from: last.to, to: last.to + int64(whole)}
		z.frames = append(z.frames, last)
	}
	if last.at+last.size != end {
		return 0, errCompressed
	}
	return last.to, nil
}

// ReadAt implements io.ReaderAt.
func (z *zstdSource) ReadAt(b []byte, off int64) (n int, err error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	for n < len(b) {
		i := sort.Search(len(z.frames), func(i int) bool { return z.frames[i].to > off })
		if i == len(z.frames) {
			return n, io.EOF
		}
		if err := z.load(i); err != nil {
			return n, err
		}
		c := copy(b[n:], z.data[off-z.frames[i].from:])
		n, off = n+c, off+int64(c)
	}
	return n, nil
}

func (z *zstdSource) load(i int) error {
	if z.cached == i {
		return nil
	}
	f := z.frames[i]
	z.cached, z.read = -1, slices.Grow(z.read[:0], int(f.size))[:f.size]
	_, err := z.file.ReadAt(z.read, f.at)
	if err == nil {
		z.data, err = decompress(z.read, z.data)
	}
	if err == nil && int64(len(z.data)) != f.to-f.from {
		err = errors.New("a block has another length than the seek table says")
	}
	if err != nil {
		return errors.Join(errCompressed, err)
	}
	z.cached = i
	return nil
}
