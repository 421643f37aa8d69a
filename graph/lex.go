package graph

import (
	"fmt"
	"strconv"
	"strings"
)

type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokEnd           // end of line or ";"
	tokName
	tokQuoted // text holds the unquoted bytes
	tokNumber // also inf and nan with a sign
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
	case tokQuoted:
		return strconv.Quote(t.text)
	}
	return t.text
}

// ParseError is an error in the text form; Line and Col count from 1, Col in bytes.
type ParseError struct {
	Line, Col int
	Err       error
}

// Error formats as `line 3, column 7: what`.
func (e *ParseError) Error() string {
	return fmt.Sprintf("line %d, column %d: %v", e.Line, e.Col, e.Err)
}

func (e *ParseError) Unwrap() error { return e.Err }

func (t token) errorf(format string, args ...any) error {
	return &ParseError{t.line, t.col, fmt.Errorf(format, args...)}
}

// lexer cuts the text into tokens on demand.
type lexer struct {
	src  string
	pos  int
	line int
	bol  int // offset of the first byte of the line
}

func (l *lexer) next() (token, error) {
	for l.pos < len(l.src) {
		c := l.src[l.pos]
		if c == '#' {
			if nl := strings.IndexByte(l.src[l.pos:], '\n'); nl >= 0 {
				l.pos += nl
			} else {
				l.pos = len(l.src)
			}
			continue
		}
		if c != ' ' && c != '\t' && c != '\r' {
			break
		}
		l.pos++
	}
	t := token{line: l.line, col: l.pos - l.bol + 1}
	if l.pos == len(l.src) {
		return t, nil
	}
	rest := l.src[l.pos:]
	c := rest[0]
	n := 1
	switch {
	case c == '\n' || c == ';':
		t.kind = tokEnd
		if c == '\n' {
			l.line, l.bol = l.line+1, l.pos+1
		}
	case c == '"':
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return t, t.errorf("string is not closed or has a wrong escape")
		}
		t.kind, n = tokQuoted, len(quoted)
		t.text, _ = strconv.Unquote(quoted)
	case nameStart(c):
		for n < len(rest) && namePart(rest[n]) {
			n++
		}
		t.kind, t.text = tokName, rest[:n]
	case c >= '0' && c <= '9' || (c == '-' || c == '+') && len(rest) > 1:
		for n < len(rest) && (namePart(rest[n]) && rest[n] != '-' && rest[n] != '/' ||
			(rest[n] == '-' || rest[n] == '+') && (rest[n-1]|0x20) == 'e' && !strings.HasPrefix(rest, "0x")) {
			n++
		}
		t.kind, t.text = tokNumber, rest[:n]
	case strings.HasPrefix(rest, "..."):
		t.kind, t.text, n = tokPunct, "...", 3
	case strings.HasPrefix(rest, "::"):
		t.kind, t.text, n = tokPunct, "::", 2
	case strings.IndexByte("()[]{},=:@?", c) >= 0:
		t.kind, t.text = tokPunct, rest[:1]
	default:
		return t, t.errorf("unexpected character %q", c)
	}
	l.pos += n
	return t, nil
}
