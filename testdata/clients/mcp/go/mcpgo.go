package main

import (
	"context"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// goSession is a session of mcp-go.
type goSession struct {
	*client.Client
	result *mcp.InitializeResult
}

func openMCPGo(ctx context.Context, c connection) (session, error) {
	over, err := transport.NewStreamableHTTP(endpoint, transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + c.key}))
	if err != nil {
		return nil, err
	}
	s := client.NewClient(over, client.WithProtocolVersion(c.version))
	s.OnNotification(func(n mcp.JSONRPCNotification) {
		if n.Method == "notifications/progress" {
			c.hear()
		}
	})
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	request := mcp.InitializeRequest{}
	request.Params.ProtocolVersion = c.version
	request.Params.ClientInfo = mcp.Implementation{Name: "mcp-go", Version: "1"}
	result, err := s.Initialize(ctx, request)
	if err != nil {
		return nil, err
	}
	return goSession{s, result}, nil
}

func (s goSession) server() (name, instructions string) {
	return s.result.ServerInfo.Name, s.result.Instructions
}

func (s goSession) tools(ctx context.Context) (int, error) {
	r, err := s.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return 0, err
	}
	return len(r.Tools), nil
}

func (s goSession) call(ctx context.Context, sql string) (reply, error) {
	request := mcp.CallToolRequest{}
	request.Params.Name = "interlock_query"
	request.Params.Arguments = map[string]any{"source_id": "shop", "sql": sql}
	request.Params.Meta = &mcp.Meta{ProgressToken: "p"}
	r, err := s.CallTool(ctx, request)
	if err != nil {
		return reply{}, err
	}
	got := reply{isError: r.IsError}
	if t, ok := r.Content[0].(mcp.TextContent); ok {
		got.text = t.Text
	}
	if m, ok := r.StructuredContent.(map[string]any); ok {
		got.status, _ = m["status"].(string)
	}
	return got, nil
}

func (s goSession) close() { _ = s.Close() }
