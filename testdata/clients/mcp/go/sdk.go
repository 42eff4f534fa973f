package main

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sdkSession is a session of the official Go SDK.
type sdkSession struct{ *mcp.ClientSession }

// bearer adds the key to every request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func openSDK(ctx context.Context, c connection) (session, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { c.hear() },
	})
	transport := &mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: &http.Client{Transport: bearer(c.key)}}
	s, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: c.version})
	if err != nil {
		return nil, err
	}
	return sdkSession{s}, nil
}

func (s sdkSession) server() (name, instructions string) {
	r := s.InitializeResult()
	return r.ServerInfo.Name, r.Instructions
}

func (s sdkSession) tools(ctx context.Context) (int, error) {
	r, err := s.ListTools(ctx, nil)
	if err != nil {
		return 0, err
	}
	return len(r.Tools), nil
}

func (s sdkSession) call(ctx context.Context, sql string) (reply, error) {
	params := &mcp.CallToolParams{Name: "interlock_query", Arguments: map[string]any{"source_id": "shop", "sql": sql}}
	params.SetProgressToken("p")
	r, err := s.CallTool(ctx, params)
	if err != nil {
		return reply{}, err
	}
	got := reply{isError: r.IsError}
	if t, ok := r.Content[0].(*mcp.TextContent); ok {
		got.text = t.Text
	}
	if m, ok := r.StructuredContent.(map[string]any); ok {
		got.status, _ = m["status"].(string)
	}
	return got, nil
}

func (s sdkSession) close() { _ = s.Close() }
