package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"interlock/internal/admin"
)

// maxAnswer bounds what is read of a gateway's answer.
const maxAnswer = 256 << 20

// peopleClient talks to the admin listener of a gateway as one identity.
type peopleClient struct {
	url, keyFile, ca string
	http             *http.Client
}

func (p *peopleClient) bind(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&p.url, "url", "", "URL of the admin listener (default $INTERLOCK_ADMIN_URL, else that of the configuration)")
	cmd.PersistentFlags().StringVar(&p.keyFile, "key-file", "", "file with the API key (default: $INTERLOCK_KEY has it)")
	cmd.PersistentFlags().StringVar(&p.ca, "ca", "", "PEM file with the authorities to trust (default: those of the system)")
}

// base is the URL of the admin listener.
func (p *peopleClient) base(cmd *cobra.Command) (string, error) {
	if p.url != "" {
		return strings.TrimSuffix(p.url, "/"), nil
	}
	if url := os.Getenv("INTERLOCK_ADMIN_URL"); url != "" {
		return strings.TrimSuffix(url, "/"), nil
	}
	cfg, err := loadConfig(cmd)
	if err != nil {
		return "", fmt.Errorf("looking for the admin listener, which neither --url nor $INTERLOCK_ADMIN_URL names: %w", err)
	}
	scheme := "http"
	if cfg.Listeners.Admin.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + cfg.Listeners.Admin.Address, nil
}

func (p *peopleClient) key() (string, error) {
	if p.keyFile == "" {
		if key := os.Getenv("INTERLOCK_KEY"); key != "" {
			return key, nil
		}
		return "", usage("whose approvals? Put your API key into $INTERLOCK_KEY, or name a file with --key-file")
	}
	b, err := os.ReadFile(p.keyFile)
	if err != nil {
		return "", fmt.Errorf("reading the API key: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

func (p *peopleClient) client() (*http.Client, error) {
	if p.http != nil {
		return p.http, nil
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if p.ca != "" {
		pem, err := os.ReadFile(p.ca)
		if err != nil {
			return nil, fmt.Errorf("reading the authorities: %w", err)
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", p.ca)
		}
	}
	// The key goes to the gateway that was named, and to no other that this one might point to.
	p.http = &http.Client{Transport: transport, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return p.http, nil
}

// call asks the gateway. What it refuses is an error with all that it says.
func (p *peopleClient) call(cmd *cobra.Command, method, path string, body []byte, into any) error {
	base, err := p.base(cmd)
	if err != nil {
		return err
	}
	key, err := p.key()
	if err != nil {
		return err
	}
	client, err := p.client()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(cmd.Context(), method, base+"/v1/approvals"+path, bytes.NewReader(body))
	if err != nil {
		return usage("%v", err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("asking the gateway: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("asking the gateway: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return answerError(resp.Status, answer)
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("the gateway's answer is not what is expected: %w", err)
	}
	return nil
}

func answerError(status string, answer []byte) error {
	var r admin.Refusal
	if err := json.Unmarshal(answer, &r); err != nil || r.Message == "" {
		return fmt.Errorf("the gateway answers %s", status)
	}
	text := r.Message
	for _, more := range []string{r.Detail, r.Hint} {
		if more != "" {
			text += "\n" + more
		}
	}
	return fmt.Errorf("%s", text)
}
