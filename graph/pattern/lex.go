package pattern

import (
	"fmt"
	"strconv"
	"strings"

	"qwb/graph"
)

type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokEnd           // end of line or ";"
	tokName
	tokQuoted
	tokNumber
	tokPunct
)

type token struct {
	kind      tokenKind
	text      string
	line, col int
}

func (t token) String() string {
	switch t.kind {
	case tokEOF:
		return "end of text"
	case tokEnd:
		return "end of line"
	}
	return strconv.Quote(t.text)
}

type lexer struct {
	src  string
	pos  int
	line int
	bol  int // offset of the first byte of the line
}

func (l *lexer) next() (token, error) {
	for l.pos < len(l.src) && strings.IndexByte(" \t\r#", l.src[l.pos]) >= 0 {
		if l.src[l.pos] == '#' {
			for l.pos < len(l.src) && l.src[l.pos] != '\n' {
				l.pos++
			}
			continue
		}
		l.pos++
	}
	t := token{line: l.line, col: l.pos - l.bol + 1}
	if l.pos == len(l.src) {
		return t, nil
	}
	rest := l.src[l.pos:]
	n := 1
	switch c := rest[0]; {
	case c == '\n' || c == ';':
		t.kind = tokEnd
		if c == '\n' {
			l.line, l.bol = l.line+1, l.pos+1
		}
	case c == '"':
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return t, &graph.ParseError{Line: t.line, Col: t.col, Err: fmt.Errorf("string is not closed or has a wrong escape")}
		}
		t.kind, n = tokQuoted, len(quoted)
		t.text, _ = strconv.Unquote(quoted)
	case letter(c):
		for n < len(rest) && (letter(rest[n]) || digit(rest[n]) || rest[n] == '.') {
			n++
		}
		t.kind, t.text = tokName, rest[:n]
	case digit(c) || c == '-' && len(rest) > 1 && digit(rest[1]):
		for n < len(rest) && (letter(rest[n]) || digit(rest[n]) || rest[n] == '.' || rest[n] == '-' && rest[n-1] == 'e') {
			n++
		}
		t.kind, t.text = tokNumber, rest[:n]
	default:
		t.kind = tokPunct
		for _, s := range punctuation {
			if strings.HasPrefix(rest, s) {
				t.text, n = s, len(s)
				break
			}
		}
		if t.text == "" {
			return t, &graph.ParseError{Line: t.line, Col: t.col, Err: fmt.Errorf("unexpected character %q", c)}
		}
	}
	l.pos += n
	return t, nil
}

// punctuation, longer ones first where one is the beginning of another.
var punctuation = []string{"...", "::", "?=", "==", "!=", "<=", ">=", "<", ">", "=", "?", "(", ")", "[", "]", "{", "}", ",", "|"}

func letter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }

func digit(c byte) bool { return c >= '0' && c <= '9' }
