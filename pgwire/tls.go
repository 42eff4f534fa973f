package pgwire

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
)

const (
	alpn      = "postgresql"
	tlsRecord = 0x16 // first byte of a TLS handshake
)

// errHandshake is a client with which there is no TLS. TLS has its own way to say so.
var errHandshake = errors.New("TLS handshake failed")

// startTLS takes the connection into TLS. In direct mode the client began without asking, and so must prove by ALPN that it means
// this protocol and not, say, HTTP. After an SSLRequest ALPN may be absent, as from libpq before 17.
func (c *conn) startTLS(ctx context.Context, direct bool) error {
	var served *tls.Certificate
	inner := tls.Server(&replay{Conn: c.net, in: c.in}, sessionTLS(c.srv.TLS, &served))
	if err := inner.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("%w: %w", errHandshake, err)
	}
	if direct && inner.ConnectionState().NegotiatedProtocol != alpn {
		return fmt.Errorf("%w: direct TLS without ALPN %s", errHandshake, alpn)
	}
	c.net, c.encrypted = inner, true
	c.in, c.out = newReader(inner), &writer{dst: inner}
	c.binding = endPoint(served)
	return nil
}

// replay hands out what was read ahead before it reads on: in direct mode the first TLS record.
type replay struct {
	net.Conn
	in *reader
}

func (p *replay) Read(b []byte) (int, error) {
	if n := p.in.buffered(); n > 0 {
		n = copy(b, p.in.buf[p.in.r:p.in.w])
		p.in.r += n
		return n, nil
	}
	return p.Conn.Read(b)
}

// CloseWrite closes the sending side of the socket, if it has one.
func (p *replay) CloseWrite() error { return closeWrite(p.Conn) }

// sessionTLS is the configuration for one connection, which notes the certificate that it serves. Sessions are not resumed, since a
// resumed one serves none.
func sessionTLS(base *tls.Config, served **tls.Certificate) *tls.Config {
	cfg := base.Clone()
	cfg.NextProtos = []string{alpn}
	cfg.SessionTicketsDisabled = true
	choose := cfg.GetCertificate
	cfg.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		cert, err := chooseCertificate(choose, base.Certificates, hello)
		*served = cert
		return cert, err
	}
	cfg.Certificates = nil
	return cfg
}

// chooseCertificate does what crypto/tls does: the function first, then the first certificate that suits the client.
func chooseCertificate(choose func(*tls.ClientHelloInfo) (*tls.Certificate, error), list []tls.Certificate, hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if choose != nil {
		if cert, err := choose(hello); cert != nil || err != nil {
			return cert, err
		}
	}
	for i := range list {
		if hello.SupportsCertificate(&list[i]) == nil {
			return &list[i], nil
		}
	}
	if len(list) == 0 {
		return nil, errors.New("no certificate")
	}
	return &list[0], nil
}

// endPoint is the tls-server-end-point channel binding of a certificate (RFC 5929, section 4.1): its hash by the function of its
// signature, SHA-256 in place of MD5 and SHA-1. It is nil where the RFC defines none.
func endPoint(served *tls.Certificate) []byte {
	if served == nil || len(served.Certificate) == 0 {
		return nil
	}
	cert, err := x509.ParseCertificate(served.Certificate[0])
	if err != nil {
		return nil
	}
	hash := signatureHash(cert.SignatureAlgorithm)
	if !hash.Available() {
		return nil
	}
	h := hash.New()
	h.Write(cert.Raw)
	return h.Sum(nil)
}

func signatureHash(a x509.SignatureAlgorithm) crypto.Hash {
	switch a {
	case x509.SHA256WithRSA, x509.SHA256WithRSAPSS, x509.ECDSAWithSHA256, x509.DSAWithSHA256,
		x509.MD5WithRSA, x509.SHA1WithRSA, x509.ECDSAWithSHA1, x509.DSAWithSHA1:
		return crypto.SHA256
	case x509.SHA384WithRSA, x509.SHA384WithRSAPSS, x509.ECDSAWithSHA384:
		return crypto.SHA384
	case x509.SHA512WithRSA, x509.SHA512WithRSAPSS, x509.ECDSAWithSHA512:
		return crypto.SHA512
	}
	return 0
}

// closeWrite tells the peer that nothing more comes, where the connection can say so.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
