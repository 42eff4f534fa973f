package mcp

// Versions are the protocol versions, newest first.
var Versions = versions

// ToolNames are the names under which a tool can be called, former ones included.
func ToolNames() []string {
	var names []string
	for name := range catalogue.tools {
		names = append(names, name)
	}
	return names
}

// Idle waits until no request is being answered.
func (s *Server) Idle() { s.active.wait() }

// Running is the number of calls of an identity that are running.
func (s *Server) Running(identity string) int {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	return s.calls.running[identity]
}

// Cancellable is the number of calls that a notification can cancel.
func (s *Server) Cancellable() int {
	s.cancellable.mu.Lock()
	defer s.cancellable.mu.Unlock()
	return len(s.cancellable.running)
}
