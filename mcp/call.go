package mcp

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"interlock/sqlgov"
)

// call answers tools/call.
func (x *exchange) call() ([]byte, *failure) {
	x.preferStream()
	said, refusal := x.perform()
	if refusal != nil {
		return x.refused(refusal)
	}
	return x.complete(said), nil
}

// perform runs a tool: who asks, is there room, which tool, are its arguments right, run it. Whatever is refused on the
// way is in the audit log before the client hears of it.
func (x *exchange) perform() (content, *sqlgov.Refusal) {
	caller, refusal := x.authenticate()
	if refusal == nil && !x.server.calls.enter(caller.Identity, or(x.server.MaxConcurrent, defaultMaxConcurrent)) {
		refusal = &sqlgov.Refusal{Kind: sqlgov.RateLimited, SQLState: "53400",
			Message: "too many calls of yours are running at the same time",
			Hint:    "Wait until one has finished.", RetryAfter: time.Second}
	} else if refusal == nil {
		defer x.server.calls.leave(caller.Identity)
	}
	args := x.msg.params.get("arguments")
	var t tool
	if refusal == nil {
		t, refusal = x.tool(args)
	}
	if refusal != nil {
		x.server.Core.RecordRefusal(x.r.Context(), caller, args.get("source_id").str, refusal)
		return content{}, refusal
	}
	defer x.beCancellable(caller.KeyID)()
	said, decision, err := x.run(t, caller, args)
	if err != nil {
		return content{}, asRefusal(err)
	}
	if decision != "" {
		x.correlation, said.decision = decision, decision
	}
	return said, nil
}

// tool finds the tool and checks the arguments.
func (x *exchange) tool(args value) (tool, *sqlgov.Refusal) {
	name := x.msg.params.get("name")
	if name.shape != text {
		return tool{}, badArgument("params.name must be the name of a tool")
	}
	t, known := catalogue.tools[name.str]
	if !known {
		return tool{}, badArgument("there is no tool %q; tools/list names those that there are", name.str)
	}
	return t, t.input.check(name.str, args)
}

// authenticate verifies the bearer key. The caller is filled in as far as it is known even if that fails, for the
// audit record.
func (x *exchange) authenticate() (sqlgov.Caller, *sqlgov.Refusal) {
	caller := sqlgov.Caller{
		Door:        sqlgov.MCP,
		ClientAddr:  x.r.RemoteAddr,
		Application: x.application(),
		Session:     x.correlation,
		Trace:       traceparent(x.r.Header),
	}
	token := x.bearer()
	if token == "" {
		return caller, &sqlgov.Refusal{Kind: sqlgov.Unauthenticated, SQLState: "28000",
			Message: "this tool needs an API key",
			Hint:    "Send it as \"Authorization: Bearer <key>\". An operator makes one with: interlock key create <identity>."}
	}
	identity, keyID, err := x.server.Authenticator.Bearer(x.r.Context(), token)
	if err != nil {
		return caller, asRefusal(err)
	}
	caller.Identity, caller.KeyID = identity, keyID
	return caller, nil
}

// bearer is the API key that the request shows; "" if none.
func (x *exchange) bearer() string {
	scheme, token, _ := strings.Cut(joined(x.r.Header, "Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// asRefusal makes a refusal of any error: one that is none is a defect, and denies.
func asRefusal(err error) *sqlgov.Refusal {
	var refusal *sqlgov.Refusal
	if errors.As(err, &refusal) {
		own := *refusal // it is completed on the way, and may be shared
		return &own
	}
	return &sqlgov.Refusal{Kind: sqlgov.Internal, Err: err}
}

// maxApplication bounds what a client can write about itself into audit records.
const maxApplication = 200

// application is what the client says it is: name and version in the modern dialect, which carries them with every
// request, and otherwise the User-Agent.
func (x *exchange) application() string {
	name := joined(x.r.Header, "User-Agent")
	if client := x.msg.params.get("_meta").get(metaClient); client.get("name").shape == text {
		name = strings.TrimSpace(client.get("name").str + " " + client.get("version").str)
	}
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r > 0x7f && unseen(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, ""))
	if len(name) > maxApplication {
		name = strings.ToValidUTF8(name[:maxApplication], "")
	}
	return name
}

var _ http.Handler = (*Server)(nil)
