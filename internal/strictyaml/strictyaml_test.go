package strictyaml_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/strictyaml"
)

var limits = strictyaml.Limits{What: "a test", Bytes: 4 << 20}

func lines(n int, f string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, f, i)
	}
	return b.String()
}

// What would take the parser seconds or gigabytes is refused before it is parsed: each of these is up to 4 MB.
func TestTooMuchIsRefusedAtOnce(t *testing.T) {
	bomb := "a0: &a0 [1, 1]\n"
	for i := 1; i < 40; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [*a%d, *a%d]\n", i, i, i-1, i-1)
	}
	var deep strings.Builder
	for i := range 500 {
		deep.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	for name, c := range map[string]struct{ text, want string }{
		"brackets":         {"- " + strings.Repeat("[", 100_000), "more than 64 lists"},
		"closed brackets":  {strings.Repeat("[", 100) + strings.Repeat("]", 100), "more than 64 lists"},
		"braces":           {strings.Repeat("{a: ", 1000), "more than 64 lists"},
		"mixed":            {strings.Repeat("- ", 40) + strings.Repeat("[", 40), "more than 64 lists"},
		"dashes":           {strings.Repeat("- ", 1000) + "a", "more than 64 lists"},
		"questions":        {strings.Repeat("? ", 1000) + "a", "more than 64 lists"},
		"indentation":      {deep.String(), "more than 64 lists"},
		"keys":             {lines(20_000, "k%d: 1\n"), "more than 1024 keys"},
		"keys of a list":   {"a:\n" + lines(2000, "  k%d: 1\n"), "more than 1024 keys"},
		"keys in a list":   {"- " + lines(2000, "k%d: 1\n  "), "more than 1024 keys"},
		"question keys":    {lines(2000, "? k%d\n: 1\n"), "more than 1024 keys"},
		"documents":        {lines(5000, "---\na%d: 1\n"), "one document"},
		"aliases":          {bomb, "aliases make it larger"},
		"marks":            {strings.Repeat(",", 4<<20), "too many for a test"},
		"bytes":            {strings.Repeat("a", 5<<20), "too many for a test"},
		"an alias of none": {"a: *b", "could not find alias"},
	} {
		var v any
		assert.ErrorContains(t, strictyaml.Decode([]byte(c.text), &v, limits), c.want, name)
	}
}

// What people write is not too much: texts with brackets, many short mappings, lists in the column of their key.
func TestWhatPeopleWrite(t *testing.T) {
	for name, text := range map[string]string{
		"brackets in texts": lines(200, "- \"conv[%d\"\n"),
		"patterns":          lines(200, "- 'a{[%d'\n"),
		"mappings":          lines(3000, "- name: n%d\n  value: 1\n"),
		"keys":              lines(1000, "k%d:\n- 1\n- 2\n"),
		"keys, deeper":      lines(1000, "k%d:\n  a: 1\n  b: [1, 2]\n"),
		"aliases":           "a: &a {x: 1}\nb:\n" + lines(500, "  - {<<: *a, y: %d}\n"),
		"json":              `{"a": [1, {"b": null}], "c": "d"}`,
		"a document":        "---\na: 1\n",
	} {
		var v any
		assert.NoError(t, strictyaml.Decode([]byte(text), &v, limits), name)
	}
	var s struct{ A int }
	err := strictyaml.Decode([]byte("a: 1\nb: 2\n"), &s, limits)
	line, message := strictyaml.Line(err)
	require.Equal(t, 2, line)
	require.Equal(t, `unknown key "b"`, message)
}
