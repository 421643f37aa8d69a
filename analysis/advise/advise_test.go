package advise

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The document lists all causes, in their order.
func TestCausesAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/advice.md")
	require.NoError(t, err)
	var listed, all []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(string(b), -1) {
		listed = append(listed, m[1])
	}
	for _, c := range Causes {
		all = append(all, c.Name)
		require.NotEmpty(t, c.Doc)
	}
	require.Equal(t, all, listed)
}
