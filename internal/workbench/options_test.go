package workbench_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/options"
)

// Forms get fields from the tables of options: the lists that they choose from exist, and what they propose is a choice.
func TestFieldsOfForms(t *testing.T) {
	p := planned(t)
	var raw map[string]json.RawMessage
	p.call("state", `{}`, &raw)
	var kinds map[string][]options.Shown
	require.NoError(t, json.Unmarshal(raw["options"], &kinds))
	fields := 0
	for kind, list := range kinds {
		for _, o := range list {
			assert.Contains(t, []string{"flag", "count", "number", "text", "list", "commas", "object"}, o.Type, "%s %s", kind, o.Name)
			f := o.Field
			if f == nil {
				continue
			}
			fields++
			assert.NotEmpty(t, f.Label, "%s %s", kind, o.Name)
			assert.Contains(t, []string{"", "select", "many", "range", "file"}, f.Type, "%s %s", kind, o.Name)
			chooses := f.Type == "select" || f.Type == "many"
			assert.Equal(t, chooses, chooses && (f.List != "" || len(f.Choices) > 0), "%s %s has choices", kind, o.Name)
			if f.List != "" {
				var choices []any
				require.NoError(t, json.Unmarshal(raw[f.List], &choices), "%s %s", kind, f.List)
				assert.NotEmpty(t, choices, "%s %s", kind, f.List)
			}
			if value, ok := f.Value.(string); ok && len(f.Choices) > 0 {
				assert.True(t, slices.ContainsFunc(f.Choices, func(c options.Choice) bool { return c.Name == value }), "%s %s %s", kind, o.Name, value)
			}
		}
	}
	assert.Greater(t, fields, 40)
	assert.Len(t, kinds, 19)
}
