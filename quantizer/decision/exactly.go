package decision

import (
	"regexp"
	"slices"
	"strings"
)

// simple are names that no selector reads as something else, but for the words among them.
var simple = regexp.MustCompile(`^[A-Za-z0-9_./-]*[A-Za-z0-9_.-]$`)

// Exactly is a selector of the operator of a name, whatever that is.
func Exactly(name string) string {
	if simple.MatchString(name) && name[0] != '-' && !slices.Contains([]string{"first", "last", "depthwise"}, name) {
		return name
	}
	return strings.ReplaceAll("/^"+regexp.QuoteMeta(name)+"$/", ",", `\,`)
}
