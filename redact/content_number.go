package redact

import "strings"

// digits are the digits from a place in a text on, with what is between them.
type digits struct {
	text  []byte
	at    int
	value [maxDigits]byte
	end   [maxDigits]int  // behind each
	gap   [maxDigits]byte // what is before each, 0 if nothing
	count int
}

const maxDigits = 20

// readDigits reads digits with at most one separator between two of them.
func readDigits(text []byte, at int) digits {
	n := digits{text: text, at: at}
	gap := byte(0)
	for i := at; i < len(text) && n.count < maxDigits; i++ {
		switch c := text[i]; {
		case isDigit(c):
			n.value[n.count], n.end[n.count], n.gap[n.count] = c-'0', i+1, gap
			n.count++
			gap = 0
		case gap == 0 && (c == ' ' || c == '-' || c == '.' || c == '/' || c == ')'):
			gap = c
		case gap == ')' && c == ' ':
		case gap == ' ' && c == '(':
			gap = c
		default:
			return n
		}
	}
	return n
}

// enough reports if there are eight digits from a place on, or three points between fewer.
func enough(text []byte, at int) bool {
	count, points := 0, 0
	for _, c := range text[at:min(len(text), at+24)] {
		switch {
		case isDigit(c):
			count++
		case c == '.':
			points++
		case c != ' ' && c != '-' && c != '/' && c != ')':
			return count >= 8 || points >= 3
		}
	}
	return count >= 8 || points >= 3
}

// whole reports if a number ends behind count digits, and returns where.
func (n *digits) whole(count int) (end int, ok bool) {
	if count > n.count || count < 1 {
		return 0, false
	}
	end = n.end[count-1]
	return end, ends(n.text, end) && !(end+1 < len(n.text) && (n.text[end] == '.' || n.text[end] == '-') && isDigit(n.text[end+1]))
}

// parts reports if the first digits are in parts of these sizes with these separators in between.
func (n *digits) parts(separators string, sizes ...int) bool {
	place := 0
	for i, size := range sizes {
		for k := range size {
			gap := byte(0)
			if k == 0 && i > 0 {
				gap = separators[i-1]
			}
			if place >= n.count || n.gap[place] != gap {
				return false
			}
			place++
		}
	}
	return true
}

func (n *digits) number(from, to int) int {
	all := 0
	for _, v := range n.value[from:to] {
		all = all*10 + int(v)
	}
	return all
}

// run is how many digits follow without a separator from a place on.
func (n *digits) run(from int) int {
	to := from + 1
	for to < n.count && n.gap[to] == 0 {
		to++
	}
	return to - from
}

func (n *digits) ipv4() int {
	place := 0
	for group := range 4 {
		if place >= n.count || group > 0 && n.gap[place] != '.' {
			return 0
		}
		size := n.run(place)
		if size > 3 || n.number(place, place+size) > 255 {
			return 0
		}
		place += size
	}
	if n.at > 0 && n.text[n.at-1] == '.' {
		return 0
	}
	end, ok := n.whole(place)
	if !ok {
		return 0
	}
	return end
}

// ssn is one of the United States: no area 000, 666 or 9xx, no group 00, no serial number 0000.
func (n *digits) ssn() int {
	if !n.parts("--", 3, 2, 4) {
		return 0
	}
	area := n.number(0, 3)
	if end, ok := n.whole(9); ok && area > 0 && area != 666 && area < 900 && n.number(3, 5) > 0 && n.number(5, 9) > 0 {
		return end
	}
	return 0
}

// cpf is 123.456.789-09 with two check digits.
func (n *digits) cpf() int {
	end, ok := n.whole(11)
	if !ok || !n.parts("..-", 3, 3, 3, 2) {
		return 0
	}
	for check := 9; check <= 10; check++ {
		sum := 0
		for i := range check {
			sum += int(n.value[i]) * (check + 1 - i)
		}
		if sum*10%11%10 != int(n.value[check]) {
			return 0
		}
	}
	return end
}

// card is 13 to 19 digits of a network that issues cards, together or in parts, with the check digit of Luhn.
func (n *digits) card() int {
	if n.count < 13 || n.value[0] < 2 || n.value[0] > 6 {
		return 0
	}
	for count := min(n.count, 19); count >= 13; count-- {
		if end, ok := n.whole(count); ok && n.luhn(count) && n.even(count) {
			return end
		}
	}
	return 0
}

// even reports if all separators are the same, a blank or a hyphen.
func (n *digits) even(count int) bool {
	seen := byte(0)
	for _, gap := range n.gap[:count] {
		if gap == 0 {
			continue
		}
		if gap != ' ' && gap != '-' || seen != 0 && seen != gap {
			return false
		}
		seen = gap
	}
	return true
}

func (n *digits) luhn(count int) bool {
	sum := 0
	for i, v := range n.value[:count] {
		d := int(v)
		if (count-i)%2 == 0 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

// nir is the French number: 13 digits and a key of two, 97 less the rest by 97.
func (n *digits) nir() int {
	if end, ok := n.whole(15); ok && n.even(15) && (n.value[0] == 1 || n.value[0] == 2) && 97-n.number(0, 13)%97 == n.number(13, 15) {
		return end
	}
	return 0
}

// controlLetters are those of Spanish numbers, by the rest by 23.
const controlLetters = "TRWAGMYFPDXBNJZSQVHLCKE"

// dni is eight digits and a letter.
func (n *digits) dni() int {
	if n.count < 8 || n.run(0) != 8 {
		return 0
	}
	end := n.end[7]
	if end < len(n.text) && n.text[end] == controlLetters[n.number(0, 8)%23] && ends(n.text, end+1) {
		return end + 1
	}
	return 0
}

// nie is that of foreigners: X, Y or Z in the place of 0, 1 or 2, seven digits and a letter.
func nie(rest []byte) int {
	first := strings.IndexByte("XYZ", rest[0])
	if first < 0 || len(rest) < 9 || !ends(rest, 9) {
		return 0
	}
	all := first
	for _, c := range rest[1:8] {
		if !isDigit(c) {
			return 0
		}
		all = all*10 + int(c-'0')
	}
	if rest[8] != controlLetters[all%23] {
		return 0
	}
	return 9
}

// phone is a number of North America in its usual parts.
func (n *digits) phone() int {
	if !n.parts("--", 3, 3, 4) && !n.parts("..", 3, 3, 4) && !n.parts("  ", 3, 3, 4) || n.value[0] < 2 || n.value[3] < 2 {
		return 0
	}
	end, ok := n.whole(10)
	if !ok {
		return 0
	}
	return end
}

// phone is a number that begins with "+" and its country, or with an area code in parentheses.
func phone(text []byte, at int) int {
	n := readDigits(text, at+1)
	if n.count == 0 {
		return 0
	}
	if text[at] == '(' {
		if end, ok := n.whole(10); ok && n.run(0) == 3 && n.gap[3] == ')' && n.run(3) == 3 && n.run(6) == 4 {
			return end
		}
		return 0
	}
	if n.value[0] == 0 || at > 0 && isAlnum(text[at-1]) {
		return 0
	}
	for count := min(n.count, 15); count >= 8; count-- {
		if end, ok := n.whole(count); ok {
			return end
		}
	}
	return 0
}

// ibanLengths are the countries with an IBAN and how long it is (ISO 13616).
const ibanLengths = "AD24AE23AL28AT20AZ28BA20BE16BG22BH22BR29BY28CH21CR22CY28CZ24DE22DK18DO28EE20EG29ES24FI18FO18FR27GB22GE22GI23GL18GR27GT28HR21HU28IE22IL23IQ23IS26IT27" +
	"JO30KW30KZ20LB28LC32LI21LT20LU20LV21MC27MD24ME22MK19MR27MT31MU30NL18NO15PK24PL28PS29PT25QA29RO24RS22SA24SC31SE24SI19SK24SM27ST25SV28TL23TN24TR26UA29VA22VG24XK20"

// iban has its country, two check digits and up to 30 letters and digits, in groups or not; the rest by 97 is 1.
func iban(rest []byte) int {
	if !isUpper(rest[1]) || !isDigit(rest[2]) || !isDigit(rest[3]) {
		return 0
	}
	length := 0
	for i := 0; i < len(ibanLengths); i += 4 {
		if ibanLengths[i] == rest[0] && ibanLengths[i+1] == rest[1] {
			length = int(ibanLengths[i+2]-'0')*10 + int(ibanLengths[i+3]-'0')
		}
	}
	var plain [34]byte
	n, count := 0, 0
	for ; count < length && n < len(rest); n++ {
		if c := rest[n]; isUpper(c) || isDigit(c) {
			plain[count] = c
			count++
		} else if c != ' ' && c != '-' || rest[n-1] == c {
			return 0
		}
	}
	if length == 0 || count < length || !ends(rest, n) {
		return 0
	}
	sum := 0
	for i := range length {
		if c := plain[(i+4)%length]; isDigit(c) {
			sum = (sum*10 + int(c-'0')) % 97
		} else {
			sum = (sum*100 + int(c-'A') + 10) % 97
		}
	}
	if sum != 1 {
		return 0
	}
	return n
}
