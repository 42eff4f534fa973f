package audit

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A bundle is a tar file with whole segments, their checkpoints, the public key, and a signed manifest:
//
//	manifest.json            what is in it
//	manifest.sig             Ed25519 signature of manifest.json, in hex
//	public-key.pem
//	checkpoints.jsonl
//	segments/audit-....jsonl and .jsonl.zst
//
// It can be verified without InterLock: sha256 in the manifest is of each segment uncompressed, and the chain is that of
// the package documentation.
const (
	manifestName  = "manifest.json"
	signatureName = "manifest.sig"
	publicKeyName = "public-key.pem"
	segmentsDir   = "segments/"
)

// Manifest says what is in a bundle.
type Manifest struct {
	Version  int               `json:"v"`
	Node     string            `json:"node"`
	Made     time.Time         `json:"made"`
	Segments []ManifestSegment `json:"segments"`
}

// ManifestSegment is a segment in a bundle.
type ManifestSegment struct {
	Name     string    `json:"name"`
	First    uint64    `json:"first"`
	Last     uint64    `json:"last"`
	LastHash string    `json:"last_hash"`
	LastTime time.Time `json:"last_time"`
	SHA256   string    `json:"sha256"` // uncompressed
}

// WriteBundle writes a bundle of the segments of a log that keep selects, and returns its manifest. cfg.SigningKey signs
// it.
func WriteBundle(w io.Writer, cfg Config, keep func(Segment) bool) (*Manifest, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if cfg.SigningKey == nil {
		return nil, errors.New("audit: a bundle needs a signing key")
	}
	all, err := Segments(cfg.Dir)
	if err != nil {
		return nil, err
	}
	b := &bundleWriter{tar: tar.NewWriter(w), now: cfg.Now()}
	m := &Manifest{Version: 1, Node: cfg.Node, Made: cfg.Now().UTC(), Segments: []ManifestSegment{}}
	for _, s := range all {
		if !keep(s) {
			continue
		}
		sum, err := b.segment(cfg.Dir, s)
		if err != nil {
			return nil, fmt.Errorf("writing an audit bundle: %w", err)
		}
		m.Segments = append(m.Segments, ManifestSegment{s.Name, s.First, s.Last, s.LastHash, s.LastTime.UTC(), sum})
	}
	if err := b.end(m, &cfg); err != nil {
		return nil, fmt.Errorf("writing an audit bundle: %w", err)
	}
	return m, nil
}

type bundleWriter struct {
	tar *tar.Writer
	now time.Time
}

// segment adds a segment up to its last whole line and returns its SHA-256.
func (b *bundleWriter) segment(dir string, s Segment) (string, error) {
	src, err := openSegment(dir, s.Name)
	if err != nil {
		return "", err
	}
	defer src.Close()
	h := sha256.New()
	var size int64
	if err := eachLineBackward(context.Background(), dir, s.Name, -1, func(_ []byte, end int64) bool { size = end; return false }); err != nil {
		return "", err
	}
	if err := b.header(segmentsDir+s.Name, size); err != nil {
		return "", err
	}
	_, err = io.CopyN(io.MultiWriter(b.tar, h), src.reader(0), size)
	return hex.EncodeToString(h.Sum(nil)), err
}

func (b *bundleWriter) header(name string, size int64) error {
	return b.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: b.now})
}

func (b *bundleWriter) file(name string, data []byte) error {
	if err := b.header(name, int64(len(data))); err != nil {
		return err
	}
	_, err := b.tar.Write(data)
	return err
}

func (b *bundleWriter) end(m *Manifest, cfg *Config) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	checkpoints, err := os.ReadFile(filepath.Join(cfg.HeadDir, checkpointsName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(b.file("checkpoints.jsonl", checkpoints),
		b.file(publicKeyName, PublicKeyPEM(cfg.SigningKey.Public().(ed25519.PublicKey))),
		b.file(manifestName, text),
		b.file(signatureName, []byte(hex.EncodeToString(ed25519.Sign(cfg.SigningKey, text)))),
		b.tar.Close())
}

// ReadBundle reads a bundle, checks that its manifest is signed by key and that its segments are those of the manifest,
// and returns the manifest. If dir is not "", the segments are written there.
func ReadBundle(r io.Reader, key ed25519.PublicKey, dir string) (*Manifest, error) {
	sums, files, err := readBundle(r, dir)
	if err != nil {
		return nil, fmt.Errorf("reading an audit bundle: %w", err)
	}
	sig, err := hex.DecodeString(string(files[signatureName]))
	if err != nil || !ed25519.Verify(key, files[manifestName], sig) {
		return nil, errors.New("the audit bundle is not signed by this key")
	}
	var m Manifest
	if err := json.Unmarshal(files[manifestName], &m); err != nil || m.Version != 1 {
		return nil, errors.New("the audit bundle has a manifest that cannot be read")
	}
	for _, s := range m.Segments {
		if sums[s.Name] != s.SHA256 {
			return nil, fmt.Errorf("the audit bundle was altered: %s is not the segment of its manifest", s.Name)
		}
	}
	if len(sums) != len(m.Segments) {
		return nil, errors.New("the audit bundle was altered: it has segments that are not in its manifest")
	}
	return &m, nil
}

func readBundle(r io.Reader, dir string) (sums map[string]string, files map[string][]byte, err error) {
	sums, files = map[string]string{}, map[string][]byte{}
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return sums, files, nil
		}
		if err != nil {
			return nil, nil, err
		}
		name, isSegment := strings.CutPrefix(h.Name, segmentsDir)
		if !isSegment {
			var b bytes.Buffer
			if _, err := io.Copy(&b, io.LimitReader(t, 64<<20)); err != nil {
				return nil, nil, err
			}
			files[h.Name] = b.Bytes()
			continue
		}
		if name != segmentName(SegmentNumber(name)) {
			return nil, nil, fmt.Errorf("%q is no name of a segment", h.Name)
		}
		if sums[name], err = copySum(t, dir, name); err != nil {
			return nil, nil, err
		}
	}
}

// copySum copies a segment into dir, if there is one, and returns its SHA-256.
func copySum(r io.Reader, dir, name string) (string, error) {
	h := sha256.New()
	if dir == "" {
		_, err := io.Copy(h, r)
		return hex.EncodeToString(h.Sum(nil)), err
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(io.MultiWriter(f, h), r)
	return hex.EncodeToString(h.Sum(nil)), errors.Join(err, f.Close())
}

// Prunable returns the oldest segments whose entries are all older than before and which exported has, byte for byte, and
// the last of them. It stops at the first that is not.
func Prunable(dir string, before time.Time, exported map[string]string) ([]Segment, error) {
	all, err := Segments(dir)
	if err != nil {
		return nil, err
	}
	for i, s := range all {
		if !s.Closed || s.LastHash == "" || !s.LastTime.Before(before) {
			return all[:i], nil
		}
		src, err := openSegment(dir, s.Name)
		if err != nil {
			return nil, err
		}
		h := sha256.New()
		_, err = io.Copy(h, src.reader(0))
		if err = errors.Join(err, src.Close()); err != nil {
			return nil, err
		}
		if exported[s.Name] != hex.EncodeToString(h.Sum(nil)) {
			return all[:i], nil
		}
	}
	return all, nil
}

// Remove removes segments of the log in dir. That they may be removed must be on record already.
func Remove(dir string, segs []Segment) error {
	for _, s := range segs {
		if err := os.Remove(s.Path); err != nil {
			return fmt.Errorf("pruning the audit log: %w", err)
		}
	}
	return syncDir(dir)
}
