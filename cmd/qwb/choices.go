package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// meant returns what may have been meant by a wrong command, flag or value of a failed command line: "; did you mean ...?", or nothing.
func (e *env) meant(c *cobra.Command, err error) string {
	if c == nil {
		return ""
	}
	var word string
	if _, rest, ok := strings.Cut(err.Error(), "unknown flag: --"); ok {
		var flags []string
		c.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
		c.InheritedFlags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
		if word = nearest(strings.TrimSpace(rest), flags); word != "" {
			return "; did you mean --" + word + "?"
		}
		return ""
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		known, _ := e.values(c, f.Name)
		if known == nil {
			return
		}
		values := []string{f.Value.String()}
		if several, ok := f.Value.(pflag.SliceValue); ok {
			values = several.GetSlice()
		}
		for _, value := range values {
			if list := known(); word == "" && value != "" && !slices.Contains(list, value) && strings.Contains(err.Error(), value) {
				word = nearest(value, list)
			}
		}
	})
	if word == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", word)
}

// nearest returns the name that is most like a word, but for capitals and separators: at most a third of its letters are wrong, or the
// word is an abbreviation. "" if there is none.
func nearest(word string, names []string) string {
	plain := func(s string) string { return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s)) }
	best, least := "", 0
	for _, name := range names {
		d := distance(plain(word), plain(name))
		if len(word) > 2 && abbreviates(plain(word), plain(name)) {
			d = min(d, 1)
		}
		if 3*d <= max(len(word), len(name)) && (best == "" || d < least) {
			best, least = name, d
		}
	}
	return best
}

// abbreviates reports whether a word begins as the name does and is it with letters left out.
func abbreviates(word, name string) bool {
	if word == "" || name == "" || word[0] != name[0] {
		return false
	}
	for i := range len(word) {
		at := strings.IndexByte(name, word[i])
		if at < 0 {
			return false
		}
		name = name[at+1:]
	}
	return true
}

// distance counts the letters to insert, delete, replace or exchange with their neighbour to make b of a.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(x)][len(y)]
}
