package target

import (
	"fmt"
	"slices"
	"strings"
)

// names are the texts of an enumeration, by its values.
type names []string

func (n names) name(i int) string {
	if i < 0 || i >= len(n) {
		return fmt.Sprintf("?%d", i)
	}
	return n[i]
}

// read sets an enumeration to the value of a text; what names the enumeration in errors.
func read[T ~uint8](n names, to *T, what string, text []byte) error {
	i := slices.Index(n, string(text))
	if i < 0 {
		return fmt.Errorf("unknown %s %q: one of %s", what, text, strings.Join(n, ", "))
	}
	*to = T(i)
	return nil
}
