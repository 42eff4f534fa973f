package catalog

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

// maxDecoded bounds what Decode inflates, in bytes of JSON: a database of a million columns needs about a third of it.
const maxDecoded = 1 << 30

// ContentVersion returns the hex SHA-256 of what the snapshot says about the database. Two scans of an unchanged database
// have the same: the name of the source, the time and the row estimates are left out. A field that is added to these types
// must be omitted from JSON when it is zero, or snapshots that were stored before it lose their version.
func (s *Snapshot) ContentVersion() (string, error) {
	content := *s
	content.Source, content.Version, content.ScannedAt = "", "", time.Time{}
	content.Relations = slices.Clone(s.Relations)
	for i := range content.Relations {
		content.Relations[i].RowEstimate = 0
	}
	sum := sha256.New()
	if err := json.NewEncoder(sum).Encode(&content); err != nil {
		return "", fmt.Errorf("hashing the catalog: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Encode returns the snapshot as gzipped JSON, a tenth of its size, for keeping many.
func (s *Snapshot) Encode() ([]byte, error) {
	var buf bytes.Buffer
	zip, err := gzip.NewWriterLevel(&buf, gzip.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("encoding the catalog: %w", err)
	}
	if err := json.NewEncoder(zip).Encode(s); err != nil {
		return nil, fmt.Errorf("encoding the catalog: %w", err)
	}
	if err := zip.Close(); err != nil {
		return nil, fmt.Errorf("encoding the catalog: %w", err)
	}
	return buf.Bytes(), nil
}

// Decode reads what Encode wrote. It fails when the content is not what Version says, so a snapshot that was changed
// in the store is not used.
func Decode(data []byte) (*Snapshot, error) {
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("decoding the catalog: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(zip, maxDecoded+1))
	if err != nil {
		return nil, fmt.Errorf("decoding the catalog: %w", err)
	}
	if len(text) > maxDecoded {
		return nil, fmt.Errorf("decoding the catalog: more than %d bytes", maxDecoded)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	s := &Snapshot{}
	if err := dec.Decode(s); err != nil {
		return nil, fmt.Errorf("decoding the catalog: %w", err)
	}
	version, err := s.ContentVersion()
	if err != nil {
		return nil, err
	}
	if version != s.Version {
		return nil, fmt.Errorf("decoding the catalog: its content has version %s, but it says %s", version, s.Version)
	}
	return s, nil
}
