package decode

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// wordRegexp finds the words of a text by a regular expression as tokenizers write them, in linear time. They are written for engines
// that backtrack; Go's engine prefers the same matches and knows all they use but for two things: \s, \S and \d mean all of Unicode
// there, and \s+(?!\S), white space up to and without the character in front of something else, is cut off here after
// the match.
type wordRegexp struct {
	re *regexp.Regexp
	// tail is the group of white space that ends one character early where something follows, 0 for none.
	tail int
}

const (
	unicodeSpace = `\t-\r\x{85}\p{Z}` // White_Space of Unicode
	lookahead    = `\s+(?!\S)`
	maxPattern   = 1 << 14
)

// newWordRegexp translates a regular expression.
func newWordRegexp(pattern string) (*wordRegexp, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("a regular expression of %d bytes", len(pattern))
	}
	w := &wordRegexp{}
	before, after, found := strings.Cut(pattern, lookahead)
	if found && strings.HasPrefix(after, `|\s+`) && !strings.Contains(after[len(`|\s+`):], "|") && !strings.Contains(before, "(?<") {
		w.tail = 1
		pattern = before + `(?P<tail>\s+)` + after
	}
	translated, err := unicodeClasses(pattern)
	if err != nil {
		return nil, fmt.Errorf("the regular expression %q: %w", pattern, err)
	}
	if w.re, err = regexp.Compile(translated); err != nil {
		return nil, fmt.Errorf("the regular expression %q: %w", pattern, err)
	}
	if w.tail > 0 {
		w.tail = w.re.SubexpIndex("tail")
	}
	return w, nil
}

// unicodeClasses writes out \s, \S, \d and \D, inside and outside of brackets.
func unicodeClasses(pattern string) (string, error) {
	var out strings.Builder
	inside := false
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		if c != '\\' || i+1 == len(pattern) {
			inside = inside && c != ']' || !inside && c == '['
			out.WriteByte(c)
			continue
		}
		i++
		class, negated := "", false
		switch pattern[i] {
		case 's':
			class = unicodeSpace
		case 'S':
			class, negated = unicodeSpace, true
		case 'd':
			class = `\p{Nd}`
		case 'D':
			class, negated = `\p{Nd}`, true
		case 'w', 'W', 'b', 'B':
			return "", fmt.Errorf(`\%c is not supported`, pattern[i])
		default:
			out.WriteString(pattern[i-1 : i+1])
			continue
		}
		switch {
		case inside && negated:
			return "", errors.New(`\S and \D within brackets are not supported`)
		case inside:
			out.WriteString(class)
		case negated:
			out.WriteString("[^" + class + "]")
		default:
			out.WriteString("[" + class + "]")
		}
	}
	return out.String(), nil
}

// each calls word for every match and gap for every part of the text between matches, in order. Empty matches are left out.
func (w *wordRegexp) each(text string, word, gap func(part string)) {
	for len(text) > 0 {
		m := w.re.FindStringSubmatchIndex(text)
		if m == nil {
			gap(text)
			return
		}
		from, to := m[0], m[1]
		if from > 0 {
			gap(text[:from])
		}
		if from == to { // of nothing: go on behind the next character
			_, n := utf8.DecodeRuneInString(text[to:])
			if n > 0 {
				gap(text[to : to+n])
			}
			text = text[to+n:]
			continue
		}
		if w.tail > 0 && m[2*w.tail] >= 0 && to < len(text) {
			if next, _ := utf8.DecodeRuneInString(text[to:]); !unicode.IsSpace(next) {
				if _, n := utf8.DecodeLastRuneInString(text[from:to]); to-n > from {
					to -= n
				}
			}
		}
		word(text[from:to])
		text = text[to:]
	}
}
