package plan_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/schematest"
	"qwb/quantizer/decision"
	"qwb/quantizer/plan"
)

// The schema takes what Parse takes, and refuses every wrong type and unknown key that Parse refuses.
func TestSchema(t *testing.T) {
	text, err := plan.Schema()
	require.NoError(t, err)
	var schema map[string]any
	require.NoError(t, json.Unmarshal(text, &schema))
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	seen, tried := 0, 0
	for _, file := range files {
		src, err := os.ReadFile(file)
		require.NoError(t, err)
		var doc map[string]any
		require.NoError(t, json.Unmarshal(src, &doc))
		if _, err := plan.Parse(file, src); err != nil || doc["version"] != float64(plan.Version) {
			continue
		}
		seen++
		doc["decisions"] = append(doc["decisions"].([]any),
			map[string]any{"by": "tune", "method": "bias", "params": map[string]any{"budget": "1 forwards"}, "evidence": map[string]any{"a": 1.0},
				"overlay": "sha256:0123456789", "after": "x"},
			map[string]any{"by": "user", "select": []any{"a", "b"}, "weights": "int4-sym-g32", "scale": []any{1.0, 2.0}, "zero_point": 0.0,
				"align": "large", "divisor": 3.0, "freeze": true},
			map[string]any{"by": "user", "unset": []any{1.0}})
		require.True(t, schematest.Valid(t, schema, doc), file)
		schematest.Mutants(doc, func(what string, m any) {
			b, err := json.Marshal(m)
			require.NoError(t, err)
			if tried++; schematest.Valid(t, schema, m) {
				_, err := plan.Parse(file, b)
				if err != nil {
					require.NotContains(t, err.Error(), "unknown key", what)
					require.NotContains(t, err.Error(), "is wanted", what)
				}
			}
		})
	}
	require.Positive(t, seen)
	require.Greater(t, tried, 100)
}

// The same for recipes: what the schema takes is refused for what it means only.
func TestRecipeSchema(t *testing.T) {
	text, err := decision.RecipeSchema()
	require.NoError(t, err)
	var schema map[string]any
	require.NoError(t, json.Unmarshal(text, &schema))
	doc := []any{
		map[string]any{"select": "type:Softmax", "domain": "fp32", "optional": true},
		map[string]any{"select": []any{"first", "last"}, "activations": "int16-sym-tensor", "weights": "int8-sym-channel", "align": "output",
			"goal": "why"},
		map[string]any{"observer": "percentile(0.999)", "per_tensor": true, "reduce_range": false, "dispatcher": "conservative",
			"border_cost": 2.0},
		map[string]any{"select": "a:in0", "scale": 0.5, "zero_point": 3.0, "freeze": true},
		map[string]any{"select": "a:in0", "scale": []any{0.5, 2.0}, "observer": "onnxruntime/entropy", "divisor": 127.0},
		map[string]any{"tune": map[string]any{"method": []any{"bias"}, "budget": "1forwards", "samples": 3.0, "force": true, "profile": "ort"}},
		map[string]any{"gate": map[string]any{"max_nsr": 1.0, "min_cosine": 0.5, "max_drop": 1.0, "data": "d", "labels": "l", "samples": 2.0,
			"strict": true}},
	}
	parse := func(v any) error {
		b, err := json.Marshal(v) // JSON is YAML
		require.NoError(t, err)
		_, err = decision.ParseRecipe("r.yaml", b)
		return err
	}
	require.NoError(t, parse(doc))
	require.True(t, schematest.Valid(t, schema, doc))
	properties := map[string]bool{}
	for _, step := range doc {
		for key := range step.(map[string]any) {
			properties[key] = true
		}
	}
	for _, p := range decision.All() {
		require.True(t, properties[p.Name], "the test has no %s", p.Name)
	}
	refused := 0
	schematest.Mutants(doc, func(what string, m any) {
		err := parse(m)
		switch takes := schematest.Valid(t, schema, m); {
		case !takes:
			refused++
		case err != nil:
			require.NotContains(t, err.Error(), "unknown key", what)
			require.NotContains(t, err.Error(), "is wanted", what)
		}
	})
	require.Greater(t, refused, 30)
	for _, bad := range []string{`[{"domain": "fp3", "select": "a"}]`, `[{"tune": {"method": "bias"}, "select": "a"}]`, `[{}]`,
		`[{"unset": [1]}]`, `[{"select": "", "domain": "fp32"}]`, `{}`} {
		var v any
		require.NoError(t, json.Unmarshal([]byte(bad), &v))
		require.False(t, schematest.Valid(t, schema, v), bad)
		require.Error(t, parse(v), bad)
	}
}
