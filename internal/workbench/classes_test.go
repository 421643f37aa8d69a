package workbench_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/workbench"
)

// Names of classes come as lines or as JSON. A wrong number of them is said, and what is no list of names is refused.
func TestClassNames(t *testing.T) {
	p := planned(t)
	all := make([]string, 32) // as many as the demo tells apart
	for i := range all {
		all[i] = fmt.Sprintf("sign <b>%d</b>", i)
	}
	for name, c := range map[string]struct {
		text  string
		names []string
		note  string
	}{
		"lines": {"\ufeff" + strings.Join(all, "\r\n") + "\r\n", all, ""},
		"list":  {quoted(all), all, ""},
		"numbers": {`{"1": "dog", "0": "cat"}`, []string{"cat", "dog"},
			"names has 2 names, the model 32 classes: those without a name are shown by their number"},
		"id2label": {`{"architectures": ["X"], "id2label": {"0": "cat", "2": "cow"}}`, []string{"cat", "", "cow"}, "has 3 names, the model 32"},
		"too many": {strings.Join(append(all, "more"), "\n"), append(all, "more"),
			"has 33 names, the model 32 classes: the names may be those of another model"},
		"no unicode": {"a\xff\nb", []string{"a\ufffd", "b"}, "has 2 names"},
	} {
		t.Run(name, func(t *testing.T) {
			p.store.Write("names", []byte(c.text))
			var r *workbench.Classes
			p.call("classes", `{"file": "names"}`, &r)
			assert.Equal(t, c.names, r.Names)
			assert.Contains(t, r.Note, c.note)
			assert.Equal(t, c.note == "", r.Note == "")
			var s struct{ Classes *workbench.Classes }
			p.call("state", "{}", &s)
			assert.Equal(t, r, s.Classes)
		})
	}
	for text, why := range map[string]string{
		"":                           "it is empty",
		`{"a": "cat"}`:               `"a" is no number of a class`,
		`{"99999999": "cat"}`:        "is no number of a class",
		`{"-1": "cat"}`:              "is no number of a class",
		`{"0": 1}`:                   "neither a list of names",
		`[1, 2]`:                     "neither a list of names",
		`{}`:                         "it has no names",
		strings.Repeat("x\n", 70000): "70000 names are more than 65536",
		strings.Repeat("x", 5<<20):   "bytes are more than",
	} {
		p.store.Write("bad", []byte(text))
		assert.ErrorContains(t, p.try("classes", `{"file": "bad"}`, nil), why)
	}
	require.Error(t, p.try("classes", `{"file": "nowhere"}`, nil))
	var s struct{ Classes *workbench.Classes }
	p.call("state", "{}", &s)
	require.NotNil(t, s.Classes, "what is refused leaves what was there")
	p.call("classes", "{}", nil)
	var none struct{ Classes *workbench.Classes }
	p.call("state", "{}", &none)
	assert.Nil(t, none.Classes)
}
