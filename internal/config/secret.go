package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxSecret is how many bytes a secret may have; certificates with their chain are read as secrets too.
const maxSecret = 1 << 20

// Resolve turns a reference to a secret into its value: env:NAME is an environment variable, file:PATH the content of
// a file without one line end at its end. An unset variable and an empty value are errors. Errors never hold the value.
func Resolve(ref string) (string, error) {
	scheme, place, _ := strings.Cut(ref, ":")
	var value string
	switch scheme {
	case "env":
		value = os.Getenv(place)
	case "file":
		f, err := os.Open(place)
		if err != nil {
			return "", fmt.Errorf("reading a secret: %w", err)
		}
		defer f.Close()
		data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
		if err != nil {
			return "", fmt.Errorf("reading a secret: %w", err)
		}
		if len(data) > maxSecret {
			return "", fmt.Errorf("the secret in %s is larger than %d bytes", place, maxSecret)
		}
		value = strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	default:
		return "", errors.New("a secret must be a reference, env:NAME or file:PATH")
	}
	if value == "" {
		return "", fmt.Errorf("the secret %s is not set or empty", ref)
	}
	return value, nil
}

const referencePattern = `^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$`

// checkReference reports if a value is a reference to a secret. It does not print the value, which may be a secret
// that was written into the file by mistake.
func checkReference(value string) error {
	if !referenceSyntax.MatchString(value) {
		return errors.New("must be a reference, env:NAME or file:PATH; a secret must not stand in the file itself")
	}
	return nil
}

// cutFile returns the path of a file: reference.
func cutFile(ref string) (path string, ok bool) { return strings.CutPrefix(ref, "file:") }

// fileRef is the reference to a file, "" for none.
func fileRef(path string) string {
	if path == "" {
		return ""
	}
	return "file:" + path
}
