package mcp_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"interlock/mcp"
)

const modernVersion = "2026-07-28"

var update = flag.Bool("update", false, "rewrite the expected responses in testdata")

// converse replays the conversations in dir with the server at url, once in each protocol version, with an API key.
//
// A conversation is a txtar file. "request" opens an exchange and "response" says what must come back; either may
// name the versions that it is for: "response modern", "request handshake", "request 2025-06-18". A request is header
// lines, an empty line and a body. The first line may be a method and path. "-Name" takes away a header that the
// version would have sent, "bare" leaves the body without the _meta that the modern dialect wants, and "quoted" says
// that the body is a Go string. A response is a status, headers and a JSON body; "-Name" is a header that must not be
// there. ULIDs are written as ULID, times as TIME.
func converse(t *testing.T, dir, url, key string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations in %s: %v", dir, err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, version := range mcp.Versions {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+version, func(t *testing.T) {
				c := conversation{t: t, url: url, version: version, key: key}
				c.replay(archive)
			})
		}
		if *update {
			if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

type conversation struct {
	t       *testing.T
	url     string
	version string
	key     string
	client  *http.Client // nil: the default one
}

func (c *conversation) replay(archive *txtar.Archive) {
	for i := 0; i < len(archive.Files); i++ {
		if !c.selected(archive.Files[i].Name, "request") {
			continue
		}
		expected := -1
		for j := i + 1; j < len(archive.Files) && strings.HasPrefix(archive.Files[j].Name, "response"); j++ {
			if c.selected(archive.Files[j].Name, "response") {
				expected = j
			}
		}
		if expected < 0 {
			c.t.Fatalf("request %d has no response for %s", i, c.version)
		}
		got := c.exchange(string(archive.Files[i].Data))
		want := &archive.Files[expected]
		if *update {
			want.Data = got.format(string(want.Data))
			continue
		}
		if diff := got.differs(string(want.Data)); diff != "" {
			c.t.Errorf("request:\n%s\n%s", archive.Files[i].Data, diff)
		}
	}
}

// selected tells if a section of the given kind is for this version.
func (c *conversation) selected(name, kind string) bool {
	if name == kind {
		return true
	}
	selector, found := strings.CutPrefix(name, kind+" ")
	if !found {
		return false
	}
	family := "handshake"
	if c.version == modernVersion {
		family = "modern"
	}
	return slices.Contains(strings.Fields(selector), family) || slices.Contains(strings.Fields(selector), c.version)
}

func (c *conversation) exchange(section string) received {
	c.t.Helper()
	head, body, _ := strings.Cut("\n"+section, "\n\n")
	verb, path := http.MethodPost, mcp.Path
	header := c.header(body)
	bare, quoted := c.version != modernVersion, false
	for _, line := range strings.Split(strings.TrimSpace(head), "\n") {
		name, val, isHeader := strings.Cut(line, ": ")
		switch {
		case line == "":
		case line == "bare":
			bare = true
		case line == "quoted":
			quoted = true
		case strings.HasPrefix(line, "-"):
			header.Del(line[1:])
		case isHeader:
			header.Set(name, val)
		default:
			verb, path, _ = strings.Cut(line, " ")
		}
	}
	body = strings.TrimSuffix(body, "\n")
	if quoted {
		var err error
		if body, err = strconv.Unquote(body); err != nil {
			c.t.Fatal(err)
		}
	}
	if !bare {
		body = withMeta(body)
	}
	return c.send(verb, path, header, body)
}

func (c *conversation) send(verb, path string, header http.Header, body string) received {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), verb, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header = header
	if host := header.Get("Host"); host != "" {
		req.Host = host
	}
	client := c.client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if id := resp.Header.Get("X-Correlation-Id"); !ulids.MatchString(id) {
		c.t.Errorf("X-Correlation-Id is %q", id)
	} else if ids := ulids.FindAllString(string(got), -1); len(ids) > 0 && !slices.Contains(ids, id) {
		c.t.Errorf("X-Correlation-Id %s is not among the ids of the reply, %v", id, ids)
	}
	return received{resp.StatusCode, resp.Header, got}
}

// header is what a well-behaved client of the version sends with the body.
func (c *conversation) header(body string) http.Header {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json, text/event-stream")
	h.Set("Authorization", "Bearer "+c.key)
	h.Set("User-Agent", "conversation/1")
	var m struct {
		Method string
		Params struct{ Name string }
	}
	_ = json.Unmarshal([]byte(body), &m) // a broken body has nothing to mirror
	if c.version != "2025-03-26" {
		h.Set("MCP-Protocol-Version", c.version) // 2025-03-26 does not know the header
	}
	if c.version == modernVersion && m.Method != "" {
		h.Set("Mcp-Method", m.Method)
		if m.Params.Name != "" {
			h.Set("Mcp-Name", m.Params.Name)
		}
	}
	return h
}

// withMeta adds the _meta that the modern dialect requires.
func withMeta(body string) string {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"conversation","version":"1"}}`
	if before, after, found := strings.Cut(body, `"params":{}`); found {
		return before + `"params":{` + meta + `}` + after
	}
	if before, after, found := strings.Cut(body, `"params":{`); found {
		return before + `"params":{` + meta + `,` + after
	}
	if !strings.HasSuffix(body, "}") {
		return body
	}
	return strings.TrimSuffix(body, "}") + `,"params":{` + meta + `}}`
}

var (
	ulids = regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{26}\b`)
	times = regexp.MustCompile(`\b20\d\d-\d\d-\d\dT[0-9:.]+Z`)
)

// stable takes out what changes from run to run.
func stable(b []byte) []byte {
	return times.ReplaceAll(ulids.ReplaceAll(b, []byte("ULID")), []byte("TIME"))
}

type received struct {
	status int
	header http.Header
	raw    []byte
}

// newCaller starts server for the length of the test.
func newCaller(t *testing.T, handler http.Handler, version string) caller {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return caller{conversation{t: t, url: server.URL, version: version, key: "ana-key"}}
}

// differs compares with an expected response; "" if it is as expected.
func (r received) differs(section string) string {
	head, body, _ := strings.Cut(section, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	var wrong []string
	if lines[0] != strconv.Itoa(r.status) {
		wrong = append(wrong, fmt.Sprintf("status %d, want %s", r.status, lines[0]))
	}
	for _, line := range lines[1:] {
		name, val, _ := strings.Cut(line, ": ")
		name, unwanted := strings.CutPrefix(name, "-")
		if got := r.header.Get(name); unwanted && got != "" || !unwanted && got != val {
			wrong = append(wrong, fmt.Sprintf("header %s is %q, want %q", name, got, val))
		}
	}
	if want := compact([]byte(body)); want != compact(stable(r.raw)) {
		wrong = append(wrong, fmt.Sprintf("body %s\nwant %s", compact(stable(r.raw)), want))
	}
	return strings.Join(wrong, "\n")
}

// compact takes the white space out of a JSON text and leaves everything else, so that digits and the order of
// members count.
func compact(b []byte) string {
	var buf bytes.Buffer
	if err := json.Compact(&buf, bytes.TrimSpace(b)); err != nil {
		return string(bytes.TrimSpace(b))
	}
	return buf.String()
}

// format writes the response as a section, with the headers that the old section named.
func (r received) format(old string) []byte {
	head, _, _ := strings.Cut(old, "\n\n")
	var b bytes.Buffer
	fmt.Fprintln(&b, r.status)
	named := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(head), "\n")[1:] {
		name, _, _ := strings.Cut(line, ": ")
		if strings.HasPrefix(name, "-") {
			named[name] = name
		} else {
			named[name] = name + ": " + r.header.Get(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		fmt.Fprintln(&b, named[name])
	}
	fmt.Fprintln(&b)
	if json.Indent(&b, stable(r.raw), "", "  ") != nil {
		b.Write(stable(r.raw))
	}
	b.WriteByte('\n')
	return b.Bytes()
}
