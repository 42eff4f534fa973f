package mcp

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"

	"interlock/sqlgov"
)

// toolsFile is the published contract of the tools: what tools/list shows and what arguments are checked against.
//
//go:embed mcp-tools-v1.json
var toolsFile []byte

// tool is one tool: what it takes and what it does.
type tool struct {
	input schema
	run   toolFunc
}

// toolFunc runs a tool whose arguments have been checked against its schema. An error is a *sqlgov.Refusal that is in
// the audit log already, or a defect.
type toolFunc func(s *Server, ctx context.Context, caller sqlgov.Caller, args value) (content, string, error)

// runners are the tools, by name. Each has a file.
var runners = map[string]toolFunc{
	"interlock_describe_access":   (*Server).describeAccess,
	"interlock_describe_source":   (*Server).describeSource,
	"interlock_discover":          (*Server).searchSource,
	"interlock_list_sources":      (*Server).listSources,
	"interlock_query":             (*Server).query,
	"interlock_related_documents": (*Server).relatedDocuments,
	"interlock_show_approval":     (*Server).showApproval,
}

// formerNames are names of the same tools that still work but are no longer listed.
var formerNames = map[string]string{
	"agentgate_describe_source":   "interlock_describe_source",
	"agentgate_discover":          "interlock_discover",
	"agentgate_list_sources":      "interlock_list_sources",
	"agentgate_query":             "interlock_query",
	"agentgate_related_documents": "interlock_related_documents",
}

// catalogue is made once, from the published file.
var catalogue = mustReadTools(toolsFile)

type toolCatalogue struct {
	list  []byte // the JSON array that tools/list returns
	tools map[string]tool
}

// mustReadTools panics if the embedded file and the code disagree; a test would have found it.
func mustReadTools(file []byte) toolCatalogue {
	var published struct {
		Tools json.RawMessage `json:"tools"`
	}
	var entries []struct {
		Name        string `json:"name"`
		InputSchema schema `json:"inputSchema"`
	}
	var list bytes.Buffer
	err := json.Unmarshal(file, &published)
	if err == nil {
		err = json.Unmarshal(published.Tools, &entries)
	}
	if err == nil {
		err = json.Compact(&list, published.Tools)
	}
	if err != nil {
		panic(fmt.Sprintf("mcp-tools-v1.json: %v", err))
	}
	c := toolCatalogue{list: list.Bytes(), tools: make(map[string]tool)}
	for _, e := range entries {
		run, found := runners[e.Name]
		if !found {
			panic("mcp-tools-v1.json: no code for " + e.Name)
		}
		c.tools[e.Name] = tool{input: e.InputSchema, run: run}
	}
	for former, name := range formerNames {
		c.tools[former] = c.tools[name]
	}
	return c
}
