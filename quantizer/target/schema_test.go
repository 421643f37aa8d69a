package target_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/schematest"
	"qwb/quantizer/target"
)

// plain is a value as JSON has it.
func plain(t *testing.T, v any) (out map[string]any) {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &out))
	return out
}

// The schema takes every built-in target as it is printed, and what is left of it without a key that Parse does not need. Of what it takes
// Parse refuses nothing for a key that it does not know.
func TestSchema(t *testing.T) {
	schema := plain(t, target.Schema())
	for i, built := range target.Builtin().All {
		doc := plain(t, built)
		require.True(t, schematest.Valid(t, schema, doc), built.Name)
		for key := range doc {
			less := plain(t, doc)
			delete(less, key)
			b, err := json.Marshal(less)
			require.NoError(t, err)
			if _, err := target.Parse(b); err == nil {
				require.True(t, schematest.Valid(t, schema, less), "%s without %s", built.Name, key)
			}
		}
		if i > 0 {
			continue
		}
		for _, key := range []string{"operators", "fusions"} {
			if list, ok := doc[key].([]any); ok {
				doc[key] = list[:min(2, len(list))]
			}
		}
		schematest.Mutants(doc, func(what string, m any) {
			b, err := json.Marshal(m)
			require.NoError(t, err)
			if _, err := target.Parse(b); err != nil && schematest.Valid(t, schema, m) {
				require.NotContains(t, err.Error(), "unknown", what)
			}
		})
	}
}
