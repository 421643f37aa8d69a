package plain_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/plain"
)

func TestTextShowsWhatActs(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "",
		"Größe 猫\n\tgut":         "Größe 猫\n\tgut",
		"\x1b]0;owned\x07":       `\x1b]0;owned\x07`,
		"a\rb\x7f":               `a\x0db\x7f`,
		"\u009b31m":              `\u009b31m`,
		"name\u202e\u2066 // ok": `name\u202e\u2066 // ok`,
		"inv\xffdir":             `inv\xffdir`,
		"\ufffd":                 "\ufffd",
		"line\u2028end":          `line\u2028end`,
	} {
		assert.Equal(t, want, plain.Text(in))
		var whole, pieces bytes.Buffer
		w := plain.NewWriter(&whole)
		n, err := w.Write([]byte(in))
		require.NoError(t, err)
		assert.Equal(t, len(in), n)
		require.NoError(t, w.Flush())
		p := plain.NewWriter(&pieces)
		for i := range len(in) {
			_, err := p.Write([]byte{in[i]})
			require.NoError(t, err)
		}
		require.NoError(t, p.Flush())
		assert.Equal(t, want, whole.String())
		assert.Equal(t, want, pieces.String(), "byte by byte")
	}
	var cut bytes.Buffer
	w := plain.NewWriter(&cut)
	_, err := w.Write([]byte("猫"[:2]))
	require.NoError(t, err)
	assert.Empty(t, cut.String())
	require.NoError(t, w.Flush())
	assert.Equal(t, `\xe7\x8c`, cut.String())
}
