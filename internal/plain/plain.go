// Package plain shows text that comes from files as what it is: names of tensors and files may hold characters that command a terminal,
// or that turn the direction of what stands beside them around.
package plain

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns s with everything that Hidden reports, and bytes that are not UTF-8, written as an escape of Go: \x1b, \u202e, \xff.
// Text without any is returned as it is.
func Text(s string) string {
	clean := strings.IndexFunc(s, func(r rune) bool { return r == utf8.RuneError || Hidden(r) }) < 0
	if clean {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case !Hidden(r):
			b.WriteString(s[:n])
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		s = s[n:]
	}
	return b.String()
}

// Hidden reports whether a character acts instead of being shown: control characters but for tab and line end, and what changes the
// direction of writing or ends a line in the eyes of some programs.
func Hidden(r rune) bool {
	switch {
	case r == '\t' || r == '\n':
		return false
	case unicode.IsControl(r):
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}

// Writer writes Text of what it is given to w. A character may come in several pieces; the last one has to be complete, or Flush to
// follow. It is for one goroutine at a time.
type Writer struct {
	w    io.Writer
	rest []byte // the start of a character
}

// NewWriter returns a writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Unwrap returns what the text is written to.
func (p *Writer) Unwrap() io.Writer { return p.w }

// Write takes all of b or returns an error.
func (p *Writer) Write(b []byte) (int, error) {
	all := append(p.rest, b...)
	whole := len(all)
	for back := 1; back < utf8.UTFMax && back <= len(all); back++ {
		if at := len(all) - back; utf8.RuneStart(all[at]) {
			if !utf8.FullRune(all[at:]) {
				whole = at
			}
			break
		}
	}
	text := Text(string(all[:whole]))
	p.rest = append([]byte(nil), all[whole:]...)
	if text == "" {
		return len(b), nil
	}
	if _, err := io.WriteString(p.w, text); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Flush writes what is left of a character that never became complete.
func (p *Writer) Flush() error {
	rest := Text(string(p.rest))
	p.rest = nil
	if rest == "" {
		return nil
	}
	_, err := io.WriteString(p.w, rest)
	return err
}
