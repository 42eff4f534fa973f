package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

const (
	checkpointed    = "log.checkpoint" // an event: seq, hash, signed, key, signature
	checkpointsName = "checkpoints.jsonl"
	signatureKey    = `,"signature":"`
)

// Checkpoint is a signed statement that a node's log had an entry with a number and a hash. Whoever holds one can tell
// later if that entry, or any before it, is missing or is another one.
//
// As text it is one line of JSON with its members in the order of this type. The signature is Ed25519, over the bytes
// before ,"signature":" and in hex.
type Checkpoint struct {
	Version   int    `json:"v"`
	Node      string `json:"node"`
	Seq       uint64 `json:"seq"`
	Hash      string `json:"hash"`
	Time      string `json:"time"` // RFC 3339, when it was signed
	Key       string `json:"key"`  // KeyName of the public key
	Signature string `json:"signature"`
}

// KeyName is how a public key is named: the first eight bytes of its SHA-256, in hex.
func KeyName(key ed25519.PublicKey) string {
	s := sha256.Sum256(key)
	return hex.EncodeToString(s[:8])
}

func signCheckpoint(key ed25519.PrivateKey, c Checkpoint) Checkpoint {
	c.Version, c.Key = 1, KeyName(key.Public().(ed25519.PublicKey))
	c.Signature = hex.EncodeToString(ed25519.Sign(key, c.sealed()))
	return c
}

// sealed is what is signed.
func (c *Checkpoint) sealed() []byte {
	b := append([]byte(`{"v":`), strconv.Itoa(c.Version)...)
	b = appendQuoted(append(b, `,"node":`...), c.Node)
	b = strconv.AppendUint(append(b, `,"seq":`...), c.Seq, 10)
	b = appendQuoted(append(b, `,"hash":`...), c.Hash)
	b = appendQuoted(append(b, `,"time":`...), c.Time)
	return appendQuoted(append(b, `,"key":`...), c.Key)
}

// Line returns the checkpoint as text, with a line feed.
func (c *Checkpoint) Line() []byte {
	b := append(c.sealed(), signatureKey...)
	return append(append(b, c.Signature...), "\"}\n"...)
}

// Valid reports if the checkpoint was signed by a key.
func (c *Checkpoint) Valid(key ed25519.PublicKey) bool {
	sig, err := hex.DecodeString(c.Signature)
	return err == nil && c.Version == 1 && ed25519.Verify(key, c.sealed(), sig)
}

// entryIn finds an entry of the log at the end of a text, behind what a syslog server may have put before it.
func entryIn(text []byte) (*Entry, bool) {
	i := bytes.Index(text, []byte(lineStart))
	if i < 0 {
		return nil, false
	}
	l, err := parseLine(text[i:])
	return &Entry{Seq: l.seq, Type: l.typ, ID: string(l.id), Text: l.text}, err == nil
}

// ReadCheckpoints reads checkpoints from a file with one a line, or from what a sink has kept: the log's entries, of which
// those that carry a checkpoint count.
func ReadCheckpoints(r io.Reader) ([]Checkpoint, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("reading checkpoints: %w", err)
	}
	var all []Checkpoint
	for n, text := range bytes.Split(data, []byte{'\n'}) {
		var c Checkpoint
		if text = bytes.TrimSpace(text); len(text) == 0 || bytes.HasPrefix(text, []byte(`{"again":`)) {
			continue
		}
		if l, ok := entryIn(text); ok {
			if c, ok := l.Checkpoint(); ok {
				all = append(all, c)
			}
			continue
		}
		if err := json.Unmarshal(text, &c); err != nil || c.Seq == 0 || len(c.Hash) != hexSize {
			return nil, fmt.Errorf("reading checkpoints: line %d is no checkpoint", n+1)
		}
		all = append(all, c)
	}
	return all, nil
}

func (c *Checkpoint) attributes() map[string]string {
	return map[string]string{"seq": strconv.FormatUint(c.Seq, 10), "hash": c.Hash, "signed": c.Time, "key": c.Key,
		"node": c.Node, "signature": c.Signature}
}

func checkpointOf(a map[string]string) Checkpoint {
	seq, _ := strconv.ParseUint(a["seq"], 10, 63)
	return Checkpoint{Version: 1, Node: a["node"], Seq: seq, Hash: a["hash"], Time: a["signed"], Key: a["key"], Signature: a["signature"]}
}

// appendCheckpoint keeps a checkpoint beside the head.
func appendCheckpoint(dir string, c *Checkpoint) error {
	f, err := os.OpenFile(filepath.Join(dir, checkpointsName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(c.Line())
	return errors.Join(err, f.Sync(), f.Close())
}

// LoadSigningKey reads the key by which checkpoints are signed, and makes it if there is none. The file is PEM, PKCS #8,
// and must be readable by its owner alone.
func LoadSigningKey(path string) (ed25519.PrivateKey, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeSigningKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the audit signing key: %w", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be accessed by others; make it 0600", path)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s holds no private key", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("%s holds no Ed25519 private key", path)
	}
	return key, nil
}

func makeSigningKey(path string) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the audit signing key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("making the audit signing key: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("making the audit signing key: %w", err)
	}
	err = errors.Join(pem.Encode(f, &pem.Block{Type: "PRIVATE KEY", Bytes: der}), f.Sync(), f.Close())
	if err != nil {
		return nil, fmt.Errorf("making the audit signing key: %w", err)
	}
	return key, nil
}

// PublicKeyPEM is a public key as PEM, for verifiers.
func PublicKeyPEM(key ed25519.PublicKey) []byte {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		panic("audit: an Ed25519 key: " + err.Error())
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// ParsePublicKey reads what PublicKeyPEM returns.
func ParsePublicKey(data []byte) (ed25519.PublicKey, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("there is no public key in the file")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	key, ok := parsed.(ed25519.PublicKey)
	if err != nil || !ok {
		return nil, errors.New("there is no Ed25519 public key in the file")
	}
	return key, nil
}

// SignPrune signs that the entries up to one may be removed, for the attribute "signature" of AuditPruned.
func SignPrune(key ed25519.PrivateKey, to uint64, hash string) string {
	return hex.EncodeToString(ed25519.Sign(key, pruneText(to, hash)))
}

// ValidPrune reports if the signature of an AuditPruned event is good.
func ValidPrune(key ed25519.PublicKey, a map[string]string) bool {
	to, err := strconv.ParseUint(a["to"], 10, 63)
	sig, err2 := hex.DecodeString(a["signature"])
	return err == nil && err2 == nil && ed25519.Verify(key, pruneText(to, a["hash"]), sig)
}

func pruneText(to uint64, hash string) []byte {
	return fmt.Appendf(nil, "interlock audit prune %d %s", to, hash)
}
