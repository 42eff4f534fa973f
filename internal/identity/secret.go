package identity

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// SecretFile is the name of the server's secret in the data directory. Whoever has it and the control store still
// has no key; without it no key is valid.
const SecretFile = "secret.key"

const secretSize = 32

// LoadSecret returns the server's secret from a data directory, which must exist. The first call makes it; of several
// processes that do so at once, one wins. A file that others can access is refused.
func LoadSecret(dir string) ([]byte, error) {
	path := filepath.Join(dir, SecretFile)
	secret, err := readSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeSecret(path); err == nil {
			secret, err = readSecret(path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the server's secret: %w", err)
	}
	return secret, nil
}

func readSecret(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%s can be accessed by others (mode %04o); make it 0600", path, mode)
	}
	secret := make([]byte, secretSize+1)
	if n, _ := f.ReadAt(secret, 0); n != secretSize {
		return nil, fmt.Errorf("%s does not hold %d bytes", path, secretSize)
	}
	return secret[:secretSize], nil
}

// makeSecret writes a new secret under another name and then gives it the right one, which fails if somebody else was
// quicker; so the file is never seen half-written.
func makeSecret(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), SecretFile+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	secret := make([]byte, secretSize)
	_, _ = rand.Read(secret) // never fails
	_, err = f.Write(secret)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a new name in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
