package analyze

// maxCastText bounds the texts in which CastExtent looks for the beginning of an operand: it reads all that is before.
const maxCastText = 1 << 16

// CastExtent finds what a cast, written x::type or CAST(x AS type), turns into another type. at is the byte of "::" or of
// CAST, or of a parameter that another type is wanted of. name is how x is called where it is a name or a call, as it stands in the text, else "". ok is false for a form in
// which the beginning of x is not certain.
func CastExtent(text string, at int) (operand Extent, name string, ok bool) {
	if at < 0 || at >= len(text) || len(text) > maxCastText {
		return Extent{}, "", false
	}
	lex := lexer{text: text}
	p := primary{text: text}
	for lex.pos < at {
		t := lex.next()
		if t.start >= at {
			lex.pos = t.start
			break
		}
		p.tokens = append(p.tokens, t)
	}
	switch t := lex.next(); {
	case t.start != at:
		return Extent{}, "", false
	case t.class == parameter:
		return Extent{t.start, t.end}, "", true
	case text[t.start:t.end] == "::":
		last := len(p.tokens) - 1
		first, name, ok := p.begins(last)
		if !ok {
			return Extent{}, "", false
		}
		return Extent{p.tokens[first].start, p.tokens[last].end}, name, true
	case lowerASCII(text[t.start:t.end]) == "cast":
		return castArgument(text, lex)
	}
	return Extent{}, "", false
}

// castArgument finds x of CAST(x AS type); lex stands behind CAST.
func castArgument(text string, lex lexer) (Extent, string, bool) {
	p := primary{text: text}
	if t := lex.next(); text[t.start:t.end] != "(" {
		return Extent{}, "", false
	}
	for depth := 1; depth > 0; {
		t := lex.next()
		switch {
		case t.class == endOfText:
			return Extent{}, "", false
		case t.class == word && depth == 1 && lowerASCII(text[t.start:t.end]) == "as":
			last := len(p.tokens) - 1
			if last < 0 {
				return Extent{}, "", false
			}
			first, name, ok := p.begins(last)
			if !ok || first > 0 {
				name = ""
			}
			return Extent{p.tokens[0].start, p.tokens[last].end}, name, true
		}
		depth += p.nests(t)
		p.tokens = append(p.tokens, t)
	}
	return Extent{}, "", false
}

// primary looks backwards through the tokens of a text for where an expression begins that stands before "::".
type primary struct {
	text   string
	tokens []token
}

func (p *primary) mark(i int) string {
	if i < 0 {
		return ""
	}
	return p.text[p.tokens[i].start:p.tokens[i].end]
}

func (p *primary) isName(i int) bool {
	return i >= 0 && (p.tokens[i].class == quotedWord || p.tokens[i].class == word && !endsExpression[lowerASCII(p.mark(i))])
}

// nests is 1 for an opening bracket, -1 for a closing one, else 0.
func (p *primary) nests(t token) int {
	if t.class != punctuation {
		return 0
	}
	switch p.text[t.start:t.end] {
	case "(", "[":
		return 1
	case ")", "]":
		return -1
	}
	return 0
}

// begins returns the index of the first token of the expression that ends with a token, and what it is called.
func (p *primary) begins(last int) (first int, name string, ok bool) {
	switch {
	case last < 0:
		return 0, "", false
	case p.tokens[last].class == parameter:
		first = last
	case p.isName(last):
		first, name = p.chain(last), p.mark(last)
	case p.mark(last) == ")", p.mark(last) == "]":
		if first, name, ok = p.bracketed(last); !ok {
			return 0, "", false
		}
	default:
		return 0, "", false
	}
	switch before := p.mark(first - 1); {
	case before == "::": // what was found is a type
		return p.begins(first - 2)
	case first == 0, before == "(", before == ",", before == "[", before == ";", p.tokens[first-1].class == operator:
		return first, name, true
	default:
		return first, name, p.tokens[first-1].class == word && beforeExpression[lowerASCII(before)]
	}
}

// chain goes back over the parts of a qualified name.
func (p *primary) chain(last int) int {
	for last >= 2 && p.mark(last-1) == "." && p.isName(last-2) {
		last -= 2
	}
	return last
}

// bracketed goes back to where an expression in parentheses, a call or a subscript begins.
func (p *primary) bracketed(last int) (first int, name string, ok bool) {
	depth := 0
	for first = last; first >= 0; first-- {
		if depth -= p.nests(p.tokens[first]); depth == 0 {
			break
		}
	}
	switch {
	case first < 0:
		return 0, "", false
	case p.mark(first) == "[":
		if !p.isName(first-1) && p.mark(first-1) != ")" {
			return 0, "", false
		}
		return p.begins(first - 1)
	case p.isName(first-1) && !(p.tokens[first-1].class == word && beforeExpression[lowerASCII(p.mark(first-1))]):
		return p.chain(first - 1), p.mark(first - 1), true
	}
	return first, p.called(first+1, last-1), true
}

// called is the name of an expression that is nothing but a qualified name.
func (p *primary) called(first, last int) string {
	if last >= first && p.isName(last) && p.chain(last) == first {
		return p.mark(last)
	}
	return ""
}

var (
	// beforeExpression are the words behind which an expression begins.
	beforeExpression = map[string]bool{"select": true, "distinct": true, "where": true, "and": true, "or": true, "not": true, "when": true, "then": true,
		"else": true, "case": true, "by": true, "having": true, "on": true, "in": true, "between": true, "like": true, "ilike": true, "limit": true, "offset": true}
	// endsExpression are the words that end an expression which does not begin with them.
	endsExpression = map[string]bool{"end": true, "null": true, "true": true, "false": true, "isnull": true, "notnull": true}
)
