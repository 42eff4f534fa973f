package policy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Which servers of a source fit, in the words of libpq.
const (
	TargetAny           = "any"
	TargetReadWrite     = "read-write"
	TargetReadOnly      = "read-only"
	TargetPrimary       = "primary"
	TargetStandby       = "standby"
	TargetPreferStandby = "prefer-standby"
)

// Targets are the values that target_session_attrs may have. "" is any.
var Targets = []string{TargetAny, TargetReadWrite, TargetReadOnly, TargetPrimary, TargetStandby, TargetPreferStandby}

// MaxServers bounds the servers of one source.
const MaxServers = 16

// Server is one server of a source.
type Server struct {
	Host string // host name, address or absolute path of a Unix socket directory
	Port int
}

// String is host:port, with a name in lower case.
func (s Server) String() string {
	if strings.HasPrefix(s.Host, "/") {
		return fmt.Sprintf("%s:%d", s.Host, s.Port)
	}
	return fmt.Sprintf("%s:%d", strings.ToLower(s.Host), s.Port)
}

// Servers lists the servers that Host names, in its order. Port is that of each which names none; 0 means 5432.
func (u *UpstreamSpec) Servers() ([]Server, error) {
	var all []Server
	for name := range strings.SplitSeq(u.Host, ",") {
		s, err := parseServer(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		if s.Port == 0 {
			s.Port = u.Port
		}
		if s.Port == 0 {
			s.Port = 5432
		}
		if slices.Contains(all, s) {
			return nil, fmt.Errorf("server %s is named twice", s)
		}
		all = append(all, s)
	}
	if len(all) > MaxServers {
		return nil, fmt.Errorf("%d servers are too many; %d are possible", len(all), MaxServers)
	}
	return all, nil
}

// parseServer reads "host", "host:port", "[address]:port", an IPv6 address or the path of a directory.
func parseServer(text string) (Server, error) {
	host, port := text, ""
	switch {
	case strings.HasPrefix(text, "/"):
	case strings.HasPrefix(text, "["):
		inner, rest, closed := strings.Cut(text[1:], "]")
		if host = inner; !closed || rest != "" && !strings.HasPrefix(rest, ":") {
			return Server{}, fmt.Errorf("%q is not a host and a port", text)
		}
		port = strings.TrimPrefix(rest, ":")
	case strings.Count(text, ":") == 1:
		host, port, _ = strings.Cut(text, ":")
	}
	if host == "" {
		return Server{}, errors.New("a host between two commas is missing")
	}
	if port == "" {
		return Server{Host: host}, nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return Server{}, fmt.Errorf("%q is not a port between 1 and 65535", port)
	}
	return Server{Host: host, Port: int(n)}, nil
}

// Several reports if the source has more than one server.
func (u *UpstreamSpec) Several() bool { return strings.Contains(u.Host, ",") }

// Selective reports if not every server of the source will do.
func (u *UpstreamSpec) Selective() bool { return u.Target != "" && u.Target != TargetAny }

// On returns how to reach one of the servers.
func (u *UpstreamSpec) On(s Server) UpstreamSpec {
	one := *u
	one.Host, one.Port = s.Host, s.Port
	return one
}
