package plain

import (
	"fmt"
	"strings"
)

// Count writes a number of things with the right form of an English word: 1 operator, 2 operators, 3 biases.
func Count(n int, word string) string { return fmt.Sprintf("%d %s", n, Plural(n, word)) }

// Plural is the form of a regular English word for a number of things.
func Plural(n int, word string) string {
	switch {
	case n == 1:
		return word
	case strings.HasSuffix(word, "s"):
		return word + "es"
	}
	return word + "s"
}
