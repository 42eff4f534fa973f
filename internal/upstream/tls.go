package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path"

	"interlock/sqlgov/policy"
)

// sslRequest asks a server for TLS (PostgreSQL manual, "Message Formats": SSLRequest).
var sslRequest = binary.BigEndian.AppendUint32([]byte{0, 0, 0, 8}, 80877103)

// tlsConfig returns what a source demands of TLS; nil is plaintext, which is for loopback and Unix sockets only.
func tlsConfig(spec *policy.UpstreamSpec, secret func(string) (string, error)) (*tls.Config, error) {
	mode := spec.TLS
	if path.IsAbs(spec.Host) {
		if mode != "" && mode != "disable" {
			return nil, fmt.Errorf("tls mode %q is not possible over a Unix socket", mode)
		}
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: spec.Host}
	if err := addCertificates(cfg, spec, secret); err != nil {
		return nil, err
	}
	switch mode {
	case "disable":
		return nil, nil
	case "", "verify-full":
	case "verify-ca":
		verifyChainOnly(cfg)
	case "require":
		// As with libpq, a given authority is used, not ignored.
		if cfg.RootCAs != nil {
			verifyChainOnly(cfg)
		}
		cfg.InsecureSkipVerify = true
	default:
		return nil, fmt.Errorf("unknown tls mode %q", mode)
	}
	return cfg, nil
}

func addCertificates(cfg *tls.Config, spec *policy.UpstreamSpec, secret func(string) (string, error)) error {
	if spec.CA != "" {
		pem, err := secret("file:" + spec.CA)
		if err != nil {
			return fmt.Errorf("reading the authority's certificate: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM([]byte(pem)) {
			return fmt.Errorf("%s holds no certificate", spec.CA)
		}
	}
	if spec.Cert == "" {
		return nil
	}
	cert, err := secret("file:" + spec.Cert)
	if err != nil {
		return fmt.Errorf("reading the client certificate: %w", err)
	}
	key, err := secret("file:" + spec.Key)
	if err != nil {
		return fmt.Errorf("reading the client key: %w", err)
	}
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		return fmt.Errorf("client certificate and key: %w", err)
	}
	cfg.Certificates = []tls.Certificate{pair}
	return nil
}

// verifyChainOnly makes cfg check that a known authority signed the server's certificate, but not for which name.
func verifyChainOnly(cfg *tls.Config) {
	cfg.InsecureSkipVerify = true
	cfg.VerifyConnection = func(state tls.ConnectionState) error {
		opts := x509.VerifyOptions{Roots: cfg.RootCAs, Intermediates: x509.NewCertPool()}
		for _, c := range state.PeerCertificates[1:] {
			opts.Intermediates.AddCert(c)
		}
		_, err := state.PeerCertificates[0].Verify(opts)
		return err
	}
}

// startTLS turns raw into a TLS connection as cfg demands, within ctx. It reads exactly one byte before the handshake,
// so whatever a meddler puts behind that byte becomes part of the handshake and fails it.
func startTLS(ctx context.Context, raw net.Conn, cfg *tls.Config) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	if _, err := raw.Write(sslRequest); err != nil {
		return nil, fmt.Errorf("asking for TLS: %w", err)
	}
	var answer [1]byte
	if _, err := io.ReadFull(raw, answer[:]); err != nil {
		return nil, fmt.Errorf("asking for TLS: %w", err)
	}
	// The text of an error that comes before TLS could be anyone's, so it is not even read.
	if answer[0] != 'S' {
		return nil, errors.New("the server does not offer TLS")
	}
	secured := tls.Client(raw, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return secured, nil
}
