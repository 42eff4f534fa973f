package config

import (
	"net/url"
	"time"

	"go.yaml.in/yaml/v3"
)

// Approvals are the bounds of statements that wait for people, and who is told of them.
type Approvals struct {
	MaxPending            int           `json:"max_pending"`
	MaxPendingPerIdentity int           `json:"max_pending_per_identity"`
	MaxBytes              int64         `json:"max_bytes"`
	Lease                 time.Duration `json:"lease"`
	Keep                  time.Duration `json:"keep"`
	Webhook               Webhook       `json:"webhook,omitzero"`
}

// Webhook is an endpoint that is told of every change of an approval. Without a URL there is none.
type Webhook struct {
	URL    string `json:"url,omitempty"`
	Secret string `json:"secret,omitempty"` // reference
}

func approvalsShape(a *Approvals) shape {
	return &object{
		about: "Statements that a policy holds for people.",
		fields: []field{
			{"max_pending", integer(&a.MaxPending, "Statements that wait at the same time. More are refused.", bounds{1, 100_000, 1000})},
			{"max_pending_per_identity", integer(&a.MaxPendingPerIdentity, "Statements of one identity that wait at the same time.", bounds{1, 100_000, 50})},
			{"max_bytes", size(&a.MaxBytes, "One statement with its parameters.", bounds{kib, 64 * mib, mib})},
			{"lease", duration(&a.Lease, "A statement that a node has begun to run, and of which nothing is heard for so long, is reported as unknown.", time.Second, time.Hour, 15*time.Second)},
			{"keep", duration(&a.Keep, "For how long one that is decided can be asked for.", time.Hour, 3650*day, 30*day)},
			{"webhook", webhookShape(&a.Webhook)},
		},
	}
}

func webhookShape(w *Webhook) shape {
	return &object{
		about:    "Endpoint that is told of every change of an approval, by a signed POST without any value of the statement.",
		required: []string{"url", "secret"},
		fields: []field{
			{"url", words(&w.URL, "", "URL of the endpoint: https, or http on loopback.")},
			{"secret", text(&w.Secret, "", "Reference to the secret of the signature: env:NAME or file:PATH.", referencePattern, checkReference)},
		},
		done: func(r *reader, node func(string) *yaml.Node) {
			u, err := url.Parse(w.URL)
			if err != nil || u.Host == "" || u.Scheme != "https" && !(u.Scheme == "http" && loopback(joinPort(u.Hostname()))) {
				r.fail(node("url"), "a webhook needs an https URL; http is possible for loopback addresses only")
			}
		},
	}
}
