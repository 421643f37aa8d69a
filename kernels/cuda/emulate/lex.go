package emulate

import (
	"fmt"
	"strings"
)

// A token is a word (names, registers, opcodes with their modifiers, directives), a number, a string or one punctuation character.
type token struct {
	kind tokenKind
	text string
	line int
	from int // where it begins in the text
}

type tokenKind uint8

const (
	tokEnd tokenKind = iota
	tokWord
	tokNumber
	tokString
	tokPunct
)

func (t token) is(punct string) bool { return t.kind == tokPunct && t.text == punct }

func (t token) String() string {
	if t.kind == tokEnd {
		return "end of text"
	}
	return fmt.Sprintf("%q", t.text)
}

// lex cuts PTX text, which begins on a line, into tokens. Comments and white space are dropped; a line's number is all that is kept of
// the layout.
func lex(text string, line int) ([]token, error) {
	var out []token
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '\n':
			line++
			i++
		case c == ' ' || c == '\t' || c == '\r' || c == 0 && i == len(text)-1: // drivers want the text to end in a zero byte
			i++
		case strings.HasPrefix(text[i:], "//"):
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case strings.HasPrefix(text[i:], "/*"):
			end := strings.Index(text[i+2:], "*/")
			if end < 0 {
				return nil, fmt.Errorf("line %d: a comment has no end", line)
			}
			line += strings.Count(text[i:i+2+end], "\n")
			i += end + 4
		case c == '"':
			end := strings.IndexAny(text[i+1:], "\"\n")
			if end < 0 || text[i+1+end] != '"' {
				return nil, fmt.Errorf("line %d: a string has no end", line)
			}
			out = append(out, token{tokString, text[i+1 : i+1+end], line, i})
			i += end + 2
		case isDigit(c):
			start := i
			for i < len(text) && (isWordByte(text[i]) && text[i] != '%' && text[i] != '$') {
				i++
			}
			out = append(out, token{tokNumber, text[start:i], line, start})
		case isWordByte(c):
			start := i
			for i++; i < len(text); i++ {
				if strings.HasPrefix(text[i:], "::") {
					i++
				} else if !isWordByte(text[i]) {
					break
				}
			}
			out = append(out, token{tokWord, text[start:i], line, start})
		case strings.IndexByte("{}()[]<>,;:=+-!@|~*/&^?", c) >= 0:
			out = append(out, token{tokPunct, text[i : i+1], line, i})
			i++
		default:
			return nil, fmt.Errorf("line %d: unexpected character %q", line, c)
		}
	}
	return append(out, token{tokEnd, "", line, len(text)}), nil
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDigit(c) || c == '_' || c == '$' || c == '%' || c == '.'
}
