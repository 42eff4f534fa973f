package pgtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Certificate makes an authority and a certificate like those of the server, for a test that serves TLS itself.
func Certificate() (ca, cert, key []byte, err error) { return certificate() }

// certificate makes an authority and a server certificate for 127.0.0.1 and localhost, all as PEM.
func certificate() (ca, cert, key []byte, err error) {
	caKey, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	srvKey, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err1 != nil || err2 != nil {
		return nil, nil, nil, fmt.Errorf("making keys: %w, %w", err1, err2)
	}
	root := template(1, "pgtest authority")
	root.IsCA, root.BasicConstraintsValid, root.KeyUsage = true, true, x509.KeyUsageCertSign
	leaf := template(2, "localhost")
	leaf.DNSNames, leaf.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}

	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, caKey.Public(), caKey)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("making the authority: %w", err)
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, srvKey.Public(), caKey)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("making the certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(srvKey)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("encoding the key: %w", err)
	}
	return encode("CERTIFICATE", rootDER), encode("CERTIFICATE", leafDER), encode("PRIVATE KEY", keyDER), nil
}

func template(serial int64, name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
