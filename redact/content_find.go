package redact

import "bytes"

// class says what could begin, or in the case of "@" and ":" be in, content at a byte.
type class byte

const (
	nothing class = iota
	atSign
	digit
	plus // or an opening parenthesis
	colon
	dashes
	letter // with which a token, an IBAN or a national number can begin
)

var classes = func() (all [256]class) {
	for c := '0'; c <= '9'; c++ {
		all[c] = digit
	}
	for c := 'A'; c <= 'Z'; c++ {
		all[c] = letter
	}
	for _, p := range tokenPrefixes {
		all[p.text[0]] = letter
	}
	all['e'], all['@'], all['+'], all['('], all[':'], all['-'] = letter, atSign, plus, plus, colon, dashes
	return all
}()

const (
	kindEmail = iota
	kindPhone
	kindSSN
	kindNational
	kindIBAN
	kindCard
	kindIP
	kindJWT
	kindKey
	kindToken
)

// next finds the first content in text from a place on; kind is -1 if there is none. It takes a time that is proportional
// to the text: what is looked at from one place is bounded, or is not looked at again.
func (d *finding) next(text []byte, from int) (start, end, kind int) {
	noToken := from // up to here no token of the web can begin
	for i := from; i < len(text); i++ {
		c := classes[text[i]]
		if c == nothing {
			continue
		}
		start, end, kind = i, 0, -1
		switch c {
		case atSign:
			start, end = emailAt(text, from, i)
			kind = kindEmail
		case digit:
			if begins(text, i) {
				end, kind = d.number(text, i)
			}
		case plus:
			end, kind = phone(text, i), kindPhone
		case colon:
			start, end = ipv6(text, from, i)
			kind = kindIP
		case dashes:
			if d.kinds[kindKey] { // it may look far ahead, and then must have found something
				end, kind = privateKey(text, i), kindKey
			}
		case letter:
			if begins(text, i) {
				end, kind = d.word(text, i, &noToken)
			}
		}
		if end > 0 && d.kinds[kind] {
			return start, end, kind
		}
	}
	return 0, 0, -1
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }

func isAlnum(c byte) bool { return isDigit(c) || isUpper(c) || c >= 'a' && c <= 'z' }

// begins and ends report if a word does at a place.
func begins(text []byte, i int) bool { return i == 0 || !isAlnum(text[i-1]) && text[i-1] != '_' }

func ends(text []byte, i int) bool { return i == len(text) || !isAlnum(text[i]) && text[i] != '_' }

// emailAt is an address around an "@": at most 64 bytes before, a domain of at least two labels behind.
func emailAt(text []byte, from, at int) (start, end int) {
	for start = at; start > from && at-start < 64 && isLocal(text[start-1]); {
		start--
	}
	for start < at && text[start] == '.' {
		start++
	}
	label, dots := 0, 0
	for end = at + 1; end < len(text) && end-at <= 254; end++ {
		switch c := text[end]; {
		case isAlnum(c) || c >= 0x80 || c == '-' && label > 0:
			label++
			continue
		case c == '.' && label > 0 && end+1 < len(text) && (isAlnum(text[end+1]) || text[end+1] >= 0x80):
			dots++
			label = 0
			continue
		}
		break
	}
	if start == at || dots == 0 || label < 2 {
		return 0, 0
	}
	return start, end
}

func isLocal(c byte) bool {
	return isAlnum(c) || c >= 0x80 || bytes.IndexByte([]byte(".!#$%&'*+/=?^_`{|}~-"), c) >= 0
}

// number finds what begins with a digit.
func (d *finding) number(text []byte, at int) (end, kind int) {
	if !enough(text, at) {
		return 0, -1
	}
	n := readDigits(text, at)
	if end := n.ipv4(); end > 0 && d.kinds[kindIP] {
		return end, kindIP
	}
	if n.count < 8 {
		return 0, -1
	}
	if end := n.ssn(); end > 0 && d.kinds[kindSSN] {
		return end, kindSSN
	}
	if end := max(n.cpf(), n.nir(), n.dni()); end > 0 && d.kinds[kindNational] {
		return end, kindNational
	}
	if end := n.card(); end > 0 && d.kinds[kindCard] {
		return end, kindCard
	}
	if end := n.phone(); end > 0 && d.kinds[kindPhone] {
		return end, kindPhone
	}
	return 0, -1
}

// tokenPrefixes are what tokens of well-known services begin with, and how many letters, digits, "_", "-" and "." follow at
// least.
var tokenPrefixes = [...]struct {
	text string
	more int
}{{"ghp_", 36}, {"gho_", 36}, {"ghu_", 36}, {"ghs_", 36}, {"ghr_", 36}, {"github_pat_", 22}, {"glpat-", 20}, {"AKIA", 16}, {"ASIA", 16}, {"AIza", 35},
	{"xoxb-", 10}, {"xoxp-", 10}, {"xoxa-", 10}, {"xoxr-", 10}, {"xoxs-", 10}, {"sk_live_", 16}, {"sk_test_", 16}, {"rk_live_", 16}, {"sk-", 20}, {"npm_", 36},
	{"SG.", 20}, {"hf_", 30}, {"pypi-", 40}, {"dop_v1_", 64}}

// word finds what begins with a letter.
func (d *finding) word(text []byte, at int, noToken *int) (end, kind int) {
	rest := text[at:]
	if at >= *noToken && bytes.HasPrefix(rest, []byte("eyJ")) {
		if n := webToken(rest, at, noToken); n > 0 {
			return at + n, kindJWT
		}
	}
	for i := range tokenPrefixes {
		p := &tokenPrefixes[i]
		if rest[0] != p.text[0] || len(rest) < len(p.text)+p.more || string(rest[:len(p.text)]) != p.text {
			continue
		}
		n := len(p.text)
		for n < len(rest) && isToken(rest[n]) {
			n++
		}
		if n >= len(p.text)+p.more {
			return at + n, kindToken
		}
	}
	if len(rest) < 9 || !isUpper(rest[0]) {
		return 0, -1
	}
	if n := nie(rest); n > 0 && d.kinds[kindNational] {
		return at + n, kindNational
	}
	if n := iban(rest); n > 0 {
		return at + n, kindIBAN
	}
	return 0, -1
}

func isToken(c byte) bool { return isAlnum(c) || c == '_' || c == '-' || c == '.' }

func isBase64URL(c byte) bool { return isAlnum(c) || c == '_' || c == '-' }

// webToken is header.payload.signature, each in base64url; an encrypted one has two more parts.
func webToken(rest []byte, at int, noToken *int) int {
	n, parts := 0, 0
	for {
		start := n
		for n < len(rest) && isBase64URL(rest[n]) {
			n++
		}
		if parts++; n-start < 10 && parts < 3 {
			break
		}
		if n == len(rest) || rest[n] != '.' || parts == 5 {
			break
		}
		n++
	}
	if parts < 3 {
		*noToken = at + n // what begins before would end there as well
		return 0
	}
	return n
}

// privateKey is a block in PEM, or what there is of it.
func privateKey(text []byte, at int) int {
	rest := text[at:]
	if !bytes.HasPrefix(rest, []byte("-----BEGIN ")) {
		return 0
	}
	line := rest[:min(len(rest), 80)]
	head := bytes.Index(line, []byte("PRIVATE KEY"))
	if head < 0 {
		return 0
	}
	if end := bytes.Index(rest, []byte("-----END ")); end >= 0 {
		if last := bytes.Index(rest[end+9:], []byte("-----")); last >= 0 && last < 80 {
			return at + end + 9 + last + 5
		}
	}
	return len(text)
}

// ipv6 is an address around a colon that begins at its first group: with "::" or in eight groups.
func ipv6(text []byte, from, at int) (start, end int) {
	for start = at; start > from && at-start < 4 && isHex(text[start-1]); {
		start--
	}
	if start > 0 && (isAlnum(text[start-1]) || text[start-1] == ':' || text[start-1] == '.') {
		return 0, 0
	}
	groups, digits, short := 0, 0, false
	for end = start; end < len(text) && end-start < 46; {
		size := 0
		for end < len(text) && size < 5 && isHex(text[end]) {
			size++
			end++
		}
		if digits += size; size > 4 {
			return 0, 0
		}
		if size > 0 {
			groups++
		}
		if end+1 < len(text) && text[end] == ':' && text[end+1] == ':' && !short {
			short = true
			end += 2
		} else if end+1 < len(text) && text[end] == ':' && isHex(text[end+1]) {
			end++
		} else {
			break
		}
	}
	if !ends(text, end) || end < len(text) && text[end] == ':' || groups > 8 || !short && groups != 8 || groups < 2 || digits < 4 {
		return 0, 0
	}
	return start, end
}

func isHex(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }
